//! Journals and guards: what an owner has, and what it may say.

use super::*;

#[test]
fn a_journal_gives_the_later_of_block_and_image_and_what_is_above() {
    let mut journal: Journal<u8, Whole> = Journal::seeded_by(OWNER);
    let append = |block: &mut Whole, change: &Change<u8>| {
        block.push(change.operation);
        change.version
    };
    journal.image(1, 10, vec![1]);
    for (before, operation) in [(10, 2), (11, 3)] {
        let version = before + 1;
        journal.append(
            1,
            Change {
                before,
                version,
                operation,
            },
        );
    }
    let replay = |journal: &Journal<u8, Whole>, version, block: Whole| {
        journal.replay(1, (version, block), Whole::clone, append)
    };
    assert_eq!(replay(&journal, 9, vec![9]), Ok(Some((12, vec![1, 2, 3]))));
    assert_eq!(
        replay(&journal, 11, vec![1, 2]),
        Ok(Some((12, vec![1, 2, 3])))
    );
    assert_eq!(replay(&journal, 12, vec![4]), Ok(None));
    assert_eq!(replay(&journal, 13, vec![4]), Ok(None));
    journal.trim(1, 10);
    let gap = Mismatch {
        user: 1,
        version: 11,
        before: 10,
        found: 9,
    };
    assert_eq!(replay(&journal, 9, vec![9]), Err(gap));
    journal.trim(1, 11);
    assert_eq!(
        replay(&journal, 11, vec![1, 2]),
        Ok(Some((12, vec![1, 2, 3])))
    );
    journal.trim(1, 12);
    assert!(journal.is_empty());
    journal.append(
        1,
        Change {
            before: 12,
            version: 13,
            operation: 0,
        },
    );
    let other = journal.replay(1, (12, Whole::new()), Whole::clone, |_, _| 14);
    assert!(
        other.is_err(),
        "the operation has made another version of it"
    );
}

#[test]
fn an_owner_may_name_who_has_everything_and_seed_who_is_not_named() {
    let mut streams = Streams::new();
    let mut guard = Guard::new(at(7));
    assert_eq!(
        guard.learned(&SlotConfig::first(OWNER, NOW), false, &mut streams),
        Opening::Nothing
    );
    guard.seed(BACKUP, &mut streams);
    guard.gather(&mut streams);
    assert_eq!(guard.may_name(&streams), None);
    let next = streams.get_mut(&BACKUP).unwrap().leave(Duration::ZERO) + 1;
    assert_eq!(guard.may_name(&streams), None);
    let acknowledgement = Acknowledgement {
        from: BACKUP,
        to: OWNER,
        stream: 0,
        next,
        refused: Vec::new(),
    };
    let stream = streams.get_mut(&BACKUP).unwrap();
    stream.acknowledged(&acknowledgement, Duration::ZERO);
    assert_eq!(guard.may_name(&streams), None, "more of the seed follows");
    guard.seeded();
    assert_eq!(guard.may_name(&streams), Some(BACKUP));
    guard.gather(&mut streams);
    assert_eq!(guard.may_name(&streams), None, "a change has come since");
    assert!(guard.may_seed(BACKUP), "it can begin again");
    guard.name(BACKUP);
    assert!(!guard.may_seed(BACKUP), "the ring may name it at any time");
    assert_eq!(guard.audience(), [BACKUP]);
    // It is named; another one is seeded meanwhile, and the first one is dropped.
    guard.learned(&backed(), true, &mut streams);
    guard.seed(THIRD, &mut streams);
    assert_eq!(
        (guard.backup(), guard.seeding()),
        (Some(BACKUP), Some(THIRD))
    );
    let alone = after(backed(), OWNER, None);
    guard.learned(&alone, true, &mut streams);
    assert_eq!(guard.audience(), [THIRD]);
    assert!(!streams[&BACKUP].carries(at(7)) && streams[&THIRD].carries(at(7)));
}

#[test]
fn a_seed_ends_when_the_ring_names_another_backup() {
    let mut streams = Streams::new();
    let mut guard = Guard::new(at(7));
    guard.learned(&SlotConfig::first(OWNER, NOW), false, &mut streams);
    guard.seed(BACKUP, &mut streams);
    guard.name(BACKUP);
    // It is slow: another one is seeded before the ring has said what came of it.
    guard.seed(THIRD, &mut streams);
    guard.learned(&backed(), true, &mut streams);
    assert_eq!((guard.backup(), guard.seeding()), (Some(BACKUP), None));
    assert!(streams[&BACKUP].carries(at(7)) && !streams[&THIRD].carries(at(7)));
}

#[test]
fn an_answer_says_what_it_waits_for() {
    let mut streams = Streams::new();
    let mut guard = Guard::new(at(7));
    let none = Tickets::default();
    let may = |guard: &Guard, streams: &Streams, tickets: &Tickets, now| {
        guard.backed(Answer::Read, tickets, (streams, now))
    };
    assert_eq!(may(&guard, &streams, &none, seconds(99)), Ok(()));
    guard.seed(BACKUP, &mut streams);
    guard.name(BACKUP);
    let tickets = guard.gather(&mut streams);
    let waits = may(&guard, &streams, &tickets, Duration::ZERO);
    assert_eq!(waits, Err(Waits::Ticket(BACKUP)));
    let stream = streams.get_mut(&BACKUP).unwrap();
    let next = stream.leave(Duration::ZERO) + 1;
    let acknowledgement = Acknowledgement {
        from: BACKUP,
        to: OWNER,
        stream: 0,
        next,
        refused: Vec::new(),
    };
    stream.acknowledged(&acknowledgement, Duration::ZERO);
    assert_eq!(may(&guard, &streams, &tickets, Duration::ZERO), Ok(()));
    let waits = may(&guard, &streams, &tickets, PERMISSION);
    assert_eq!(waits, Err(Waits::Permission(BACKUP)));
}
