//! What needs more than the one slot of the model.

mod owners;

use super::*;
use crate::Succession;

const NOW: i64 = 1_795_000_000_000_000;
const OWNER: Incarnation = Incarnation::new(1);
const BACKUP: Incarnation = Incarnation::new(2);
const THIRD: Incarnation = Incarnation::new(3);
const OTHER: Incarnation = Incarnation::new(4);

type Whole = Vec<u8>;

fn at(slot: u16) -> Slot {
    Slot::new(slot).unwrap()
}

fn after(config: SlotConfig, owner: Incarnation, backup: Option<Incarnation>) -> SlotConfig {
    let how = match owner == config.owner() {
        true => Succession::Handed,
        false => Succession::Promoted,
    };
    let next = config.swap_backed(config.epoch(), owner, backup, how, NOW);
    next.unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Whether a backup asks to be promoted at this second, while every process has its lease.
fn may_promote(
    backup: &Backup<u8, Whole>,
    slot: u16,
    now: u64,
) -> Result<crate::Epoch, NotPromoted> {
    backup.may_promote(at(slot), seconds(now), |_| false)
}

/// The config under which the owner has the backup.
fn backed() -> SlotConfig {
    after(SlotConfig::first(OWNER, NOW), OWNER, Some(BACKUP))
}

/// A backup that has been seeded with these slots by a frame that it accepted at the start.
fn seeded(slots: &[u16]) -> (Outbox, Backup<u8, Whole>) {
    let (mut outbox, mut backup) = (Outbox::new(BACKUP), Backup::new(BACKUP));
    let mut entries = Vec::new();
    for &slot in slots {
        backup.learned(at(slot), backed(), None, Duration::ZERO);
        outbox.begin(at(slot));
        outbox.gather();
        entries.extend([What::Seed, What::Seeded, What::Serves].map(|it| entry(slot, it)));
    }
    send(&mut outbox, &mut backup, entries, Duration::ZERO);
    (outbox, backup)
}

fn entry(slot: u16, what: What<u8, Whole>) -> Entry<u8, Whole> {
    Entry {
        slot: at(slot),
        epoch: backed().epoch(),
        what,
    }
}

fn change(user: u64, before: u64) -> What<u8, Whole> {
    let change = Change {
        before,
        version: before + 1,
        operation: 7,
    };
    What::Change { user, change }
}

fn frame(outbox: &Outbox, number: u64, entries: Vec<Entry<u8, Whole>>) -> Frame<u8, Whole> {
    Frame {
        from: OWNER,
        to: BACKUP,
        stream: outbox.stream(),
        number,
        entries,
    }
}

/// A frame leaves, arrives and is acknowledged; all at once.
fn send(
    outbox: &mut Outbox,
    backup: &mut Backup<u8, Whole>,
    entries: Vec<Entry<u8, Whole>>,
    now: Duration,
) -> (u32, u64) {
    let number = outbox.leave(now);
    let frame = frame(outbox, number, entries);
    match backup.receive(frame, now) {
        Received::Acknowledge(it) => outbox.acknowledged(&it, now),
        other @ (Received::LearnFirst(..) | Received::Ignored) => panic!("{other:?}"),
    }
    (outbox.stream(), number)
}

#[test]
fn frame_with_a_promoted_slot_and_others() {
    let (mut outbox, mut backup) = seeded(&[7, 8]);
    let asked = may_promote(&backup, 7, 3);
    assert_eq!(asked, Ok(backed().epoch()));
    backup.promise(at(7));
    let entries = vec![entry(7, change(1, 0)), entry(8, change(2, 0))];
    let ticket = send(&mut outbox, &mut backup, entries, seconds(3));
    assert!(!outbox.has(at(7), ticket) && outbox.has(at(8), ticket));
    assert!(!outbox.permits(at(7), seconds(3)) && outbox.permits(at(8), seconds(3)));
    assert_eq!(outbox.refused(at(7)), Some(backed().epoch()));
    let ring = after(backed(), BACKUP, None);
    let inherited = backup.learned(at(7), ring, None, seconds(4)).unwrap();
    assert!(
        inherited.journal.is_empty(),
        "what was refused is not there"
    );
    // The frames for the other slot do not make it wait longer.
    assert_eq!(inherited.serves_from, SILENCE);
}

#[test]
fn every_later_acknowledgement_names_what_was_refused() {
    let (mut outbox, mut backup) = seeded(&[7, 8]);
    backup.promise(at(7));
    let number = outbox.leave(seconds(1));
    let refusal = backup.receive(
        frame(&outbox, number, vec![entry(7, change(1, 0))]),
        seconds(1),
    );
    assert!(matches!(refusal, Received::Acknowledge(_)));
    // That one is lost; a frame without entries follows.
    let ticket = send(&mut outbox, &mut backup, Vec::new(), seconds(1));
    assert!(!outbox.has(at(7), ticket) && !outbox.permits(at(7), seconds(1)));
    // Until the slot is seeded anew, at an epoch that was not promised away.
    let config = after(after(backed(), OWNER, None), OWNER, Some(BACKUP));
    backup.learned(at(7), config, None, seconds(1));
    outbox.begin(at(7));
    let anew = [What::Seed, What::Seeded].map(|what| Entry {
        epoch: config.epoch(),
        ..entry(7, what)
    });
    let ticket = send(&mut outbox, &mut backup, anew.into(), seconds(1));
    assert!(outbox.has(at(7), ticket) && outbox.permits(at(7), seconds(1)));
}

#[test]
fn owner_that_never_learned_while_heartbeats_flow() {
    let (mut outbox, mut backup) = seeded(&[8]);
    // Of this slot the owner has not heard that the ring gave it to it.
    backup.learned(at(7), backed(), None, Duration::ZERO);
    send(&mut outbox, &mut backup, Vec::new(), seconds(2));
    let hands = Some(Owned {
        epoch: backed().epoch(),
        dirty: vec![(1, 5, vec![1])],
    });
    let moved = after(backed(), OWNER, Some(BACKUP));
    backup.learned(at(7), moved, hands, seconds(2));
    send(&mut outbox, &mut backup, Vec::new(), seconds(4));
    let not_silent = Err(NotPromoted::NotSilent);
    assert_eq!(may_promote(&backup, 8, 6), not_silent, "it was heard at 4");
    assert_eq!(
        may_promote(&backup, 7, 4),
        not_silent,
        "it was learned at 2"
    );
    assert_eq!(may_promote(&backup, 7, 5), Ok(moved.epoch()));
    assert_eq!(may_promote(&backup, 8, 7), Ok(backed().epoch()));
}

#[test]
fn an_owner_without_a_lease_is_followed_though_its_frames_still_come() {
    let (mut outbox, mut backup) = with_a_change();
    send(&mut outbox, &mut backup, Vec::new(), seconds(4));
    let not_silent = Err(NotPromoted::NotSilent);
    assert_eq!(may_promote(&backup, 7, 4), not_silent);
    let is_dead = |it| it == OWNER;
    let asked = backup.may_promote(at(7), seconds(4), is_dead);
    assert_eq!(asked, Ok(backed().epoch()));
    let entrusted = backup.entrusted(seconds(4), is_dead);
    assert_eq!(entrusted.collect::<Vec<_>>(), [1]);
    backup.promise(at(7));
    send(&mut outbox, &mut backup, Vec::new(), seconds(5));
    assert!(!outbox.permits(at(7), seconds(5)));
    let ring = after(backed(), BACKUP, None);
    let inherited = backup.learned(at(7), ring, None, seconds(5)).unwrap();
    assert_eq!(inherited.serves_from, seconds(4) + SILENCE);
}

#[test]
fn permission_counts_from_the_first_sending_and_ends() {
    let (mut outbox, mut backup) = seeded(&[7]);
    assert!(outbox.permits(at(7), PERMISSION - Duration::from_nanos(1)));
    assert!(!outbox.permits(at(7), PERMISSION));
    // Sent at 3 s and again at 6 s; the acknowledgement may be that of the first.
    let number = outbox.leave(seconds(3));
    let frame = frame(&outbox, number, Vec::new());
    let Received::Acknowledge(it) = backup.receive(frame, seconds(6)) else {
        panic!("a frame in order is acknowledged");
    };
    assert!(outbox.is_slow(seconds(4)) && !outbox.is_slow(seconds(3)));
    outbox.acknowledged(&it, seconds(6));
    assert!(outbox.permits(at(7), seconds(4)) && !outbox.permits(at(7), seconds(6)));
    assert_eq!(outbox.under_way(), 0);
}

#[test]
fn an_acknowledgement_of_another_process_stream_or_future_is_ignored() {
    let (mut outbox, _) = seeded(&[7]);
    outbox.gather();
    let number = outbox.leave(seconds(1));
    let ticket = (outbox.stream(), number);
    let good = Acknowledgement {
        from: BACKUP,
        to: OWNER,
        stream: outbox.stream(),
        next: number + 1,
        refused: Vec::new(),
    };
    for strange in [
        Acknowledgement {
            from: THIRD,
            ..good.clone()
        },
        Acknowledgement {
            stream: 9,
            ..good.clone()
        },
        Acknowledgement {
            next: number + 2,
            ..good.clone()
        },
    ] {
        outbox.acknowledged(&strange, seconds(1));
        assert!(!outbox.has(at(7), ticket), "{strange:?}");
    }
    outbox.acknowledged(&good, seconds(1));
    assert!(outbox.has(at(7), ticket));
}

#[test]
fn a_stream_that_is_opened_anew_carries_no_slot_until_it_is_seeded() {
    let (mut outbox, mut backup) = seeded(&[7, 8]);
    outbox.leave(seconds(1));
    outbox.reopen();
    assert_eq!((outbox.stream(), outbox.under_way()), (1, 0));
    outbox.begin(at(7));
    let entries = [What::Seed, What::Seeded].map(|what| entry(7, what));
    send(&mut outbox, &mut backup, entries.into(), seconds(1));
    assert!(outbox.permits(at(7), seconds(1)) && !outbox.permits(at(8), seconds(1)));
    // A frame of the stream before comes late.
    let late = Frame {
        stream: 0,
        ..frame(&outbox, 1, vec![entry(7, change(1, 0))])
    };
    assert_eq!(backup.receive(late, seconds(1)), Received::Ignored);
    // What it had of the other slot is all that was acknowledged of it.
    assert!(may_promote(&backup, 8, 9).is_ok());
    let refused = backup.receive(frame(&outbox, 1, Vec::new()), seconds(1));
    let Received::Acknowledge(it) = refused else {
        panic!("a frame in order is acknowledged");
    };
    assert_eq!(it.refused, [(at(8), backed().epoch())]);
}

#[test]
fn a_frame_out_of_order_or_from_the_future_changes_nothing() {
    let (mut outbox, mut backup) = seeded(&[7]);
    let before = backup.clone();
    let first = outbox.leave(seconds(1));
    let gap = frame(&outbox, first + 1, vec![entry(7, change(1, 1))]);
    let Received::Acknowledge(it) = backup.receive(gap, seconds(1)) else {
        panic!("what is accepted so far is said");
    };
    assert_eq!((it.next, &backup), (first, &before));
    let config = after(backed(), OWNER, Some(BACKUP));
    let mut ahead = entry(7, change(1, 0));
    ahead.epoch = config.epoch();
    let ahead = frame(&outbox, first, vec![ahead]);
    let learn = Received::LearnFirst(at(7), config.epoch());
    assert_eq!(backup.receive(ahead.clone(), seconds(1)), learn);
    assert_eq!(backup, before);
    backup.learned(at(7), config, None, seconds(1));
    assert!(matches!(
        backup.receive(ahead, seconds(1)),
        Received::Acknowledge(_)
    ));
    let other = Frame {
        to: THIRD,
        ..frame(&outbox, first + 1, Vec::new())
    };
    assert_eq!(backup.receive(other, seconds(1)), Received::Ignored);
}

#[test]
fn an_incomplete_backup_says_so_and_is_not_promoted() {
    let mut backup: Backup<u8, Whole> = Backup::new(BACKUP);
    backup.learned(at(7), backed(), None, Duration::ZERO);
    assert!(backup.is_incomplete(at(7)));
    assert_eq!(may_promote(&backup, 7, 9), Err(NotPromoted::Incomplete));
    assert_eq!(may_promote(&backup, 8, 9), Err(NotPromoted::NotBackup));
    // A seed that has not come to its end is none.
    let mut outbox = Outbox::new(BACKUP);
    outbox.begin(at(7));
    send(
        &mut outbox,
        &mut backup,
        vec![entry(7, What::Seed)],
        seconds(1),
    );
    assert!(backup.is_incomplete(at(7)));
    send(
        &mut outbox,
        &mut backup,
        vec![entry(7, What::Seeded)],
        seconds(1),
    );
    assert!(!backup.is_incomplete(at(7)));
    let takes = |dead: &[Incarnation], incomplete| {
        may_take(&backed(), |it| dead.contains(&it), |_| incomplete)
    };
    assert!(!takes(&[OWNER], false) && takes(&[OWNER], true));
    assert!(takes(&[OWNER, BACKUP], false) && !takes(&[BACKUP], true));
}

/// A backup of a slot, with a change in its journal.
fn with_a_change() -> (Outbox, Backup<u8, Whole>) {
    let (mut outbox, mut backup) = seeded(&[7]);
    let entries = vec![entry(7, change(1, 0))];
    send(&mut outbox, &mut backup, entries, seconds(1));
    (outbox, backup)
}

#[test]
fn a_backup_that_is_dropped_or_whose_owner_is_deposed_keeps_nothing() {
    for next in [
        after(backed(), OWNER, None),
        after(backed(), OWNER, Some(THIRD)),
        after(backed(), THIRD, None),
    ] {
        let (_, mut backup) = with_a_change();
        backup.learned(at(7), next, None, seconds(1));
        let asked = may_promote(&backup, 7, 9);
        assert_eq!(asked, Err(NotPromoted::NotBackup));
        assert_eq!(backup.holds().count(), 0, "{next:?}");
    }
    // Nor does an owner that is deposed.
    let mut backup: Backup<u8, Whole> = Backup::new(OWNER);
    let owned = Some(Owned {
        epoch: backed().epoch(),
        dirty: vec![(1, 5, vec![1])],
    });
    backup.learned(at(7), backed(), None, seconds(1));
    backup.learned(at(7), after(backed(), BACKUP, None), owned, seconds(1));
    assert_eq!(backup.holds().count(), 0);
}

/// It is seeded in the place of another one.
#[test]
fn what_an_owner_seeds_is_kept_over_its_own_swaps_until_it_names_another() {
    let alone = SlotConfig::first(OWNER, NOW);
    let before = after(alone, OWNER, Some(THIRD));
    let begin = || {
        let (mut outbox, mut backup) = (Outbox::new(BACKUP), Backup::<u8, Whole>::new(BACKUP));
        backup.learned(at(7), before, None, Duration::ZERO);
        outbox.begin(at(7));
        let entries = [What::Seed, change(1, 0), What::Seeded].map(|what| Entry {
            epoch: before.epoch(),
            ..entry(7, what)
        });
        send(&mut outbox, &mut backup, entries.into(), Duration::ZERO);
        backup
    };
    let kept = after(before, OWNER, Some(THIRD));
    let dropped = after(kept, OWNER, None);
    let named = after(dropped, OWNER, Some(BACKUP));
    let mut backup = begin();
    for config in [kept, dropped, named] {
        backup.learned(at(7), config, None, seconds(1));
        assert!(!backup.is_incomplete(at(7)));
    }
    assert_eq!(may_promote(&backup, 7, 9), Ok(named.epoch()));
    let ring = after(named, BACKUP, None);
    let inherited = backup.learned(at(7), ring, None, seconds(9)).unwrap();
    assert_eq!(inherited.journal.users().collect::<Vec<_>>(), [1]);
    for ends in [
        after(dropped, OWNER, Some(OTHER)),
        after(dropped, OTHER, None),
    ] {
        let mut backup = begin();
        backup.learned(at(7), ends, None, seconds(1));
        assert_eq!(backup.holds().count(), 0, "{ends:?}");
    }
}
