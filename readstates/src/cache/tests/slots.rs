//! Slots that are served, closed, sent and dropped.

use readstates_ring::{Epoch, Slot};

use super::*;

fn epoch(number: i64) -> Epoch {
    Epoch::new(number).unwrap()
}

/// Users of one slot, and the slot.
fn users(count: usize) -> (Vec<u64>, Slot) {
    let slot = Slot::of_user(1);
    let of_slot = (1..).filter(|&user| Slot::of_user(user) == slot);
    (of_slot.take(count).collect(), slot)
}

fn exported(cache: &Cache, slots: &SlotSet, now: Instant) -> Vec<Exported> {
    let mut found = Vec::new();
    for part in 0..PARTS {
        cache.export(slots, part, now, &mut found);
    }
    found.sort_unstable_by_key(|exported| exported.user);
    found
}

fn only(slot: Slot) -> SlotSet {
    SlotSet::from_iter([slot])
}

#[test]
fn a_slot_goes_from_one_cache_to_another_with_what_is_dirty() {
    let now = Instant::now() + Duration::from_secs(60);
    let (users, slot) = users(20);
    let (from, to) = (cache(1000), cache(1000));
    to.close_all(true);
    let other = (1..).find(|&user| Slot::of_user(user) != slot).unwrap();
    from.insert(other, None);
    for &user in &users {
        from.insert(user, None);
        change(&from, user, ack(10, user), now).unwrap();
    }
    for write in from.begin_flushes(now + INTERVAL * 2, 5) {
        from.written(&write, now);
    }
    let blocks = exported(&from, &only(slot), now + Duration::from_secs(9));
    assert_eq!(blocks.len(), 20, "and no user of another slot");
    let dirty = blocks.iter().filter_map(|block| block.dirty_for);
    assert!(dirty.clone().all(|age| age == Duration::from_secs(9)));
    assert_eq!(dirty.count(), 15);
    for block in &blocks {
        to.import(block, now).unwrap();
        // Whatever comes twice is there once.
        to.import(block, now).unwrap();
    }
    assert_eq!((to.dirty_users(), to.users_of(slot)), (15, 20));
    let later = now + INTERVAL * 3;
    assert_eq!(to.begin_flushes(later, 100), [], "it is not its own yet");
    let refused = to.change(users[0], &[ack(10, 1)], Touch::Online, now, |_, _| ());
    assert_eq!(refused, Some(Err(Refused::NotHere)));
    to.serve(slot, epoch(9));
    for &user in &users {
        let state = to.read(user, |block| block.state(10).unwrap().last_message);
        assert_eq!(state, Some(user));
        let version = |cache: &Cache| cache.read(user, |block| block.version());
        assert_eq!(version(&to), version(&from), "no version is skipped");
    }
    let writes = to.begin_flushes(later + INTERVAL, 100);
    assert_eq!(writes.len(), 15);
    assert!(writes.iter().all(|write| write.stamp.epoch() == epoch(9)));
}

#[test]
fn a_process_younger_than_a_change_writes_it_when_the_one_before_would_have() {
    let (now, (users, slot)) = (Instant::now(), users(20));
    let from = cache(1000);
    for &user in &users {
        from.insert(user, None);
        change(&from, user, ack(10, user), now).unwrap();
    }
    let blocks = exported(&from, &only(slot), now + INTERVAL * 3 / 4);
    let to = cache(1000);
    let started = Instant::now();
    for block in &blocks {
        to.import(block, started).unwrap();
    }
    to.serve(slot, epoch(9));
    assert_eq!(to.begin_flushes(started, 100), []);
    let writes = to.begin_flushes(started + INTERVAL / 2, 100);
    assert_eq!(writes.len(), 20);
}

#[test]
fn what_changes_while_a_slot_is_sent_is_sent_again() {
    let (now, (users, slot)) = (Instant::now(), users(5));
    let cache = cache(1000);
    users.iter().for_each(|&user| cache.insert(user, None));
    cache.track(&[slot], true);
    assert_eq!(exported(&cache, &only(slot), now).len(), 5);
    change(&cache, users[1], ack(10, 5), now).unwrap();
    change(&cache, users[1], ack(10, 6), now).unwrap();
    change(&cache, users[3], ack(10, 6), now).unwrap();
    let changed = |most| {
        let mut found = Vec::new();
        let more = cache.export_changed(&only(slot), most, now, &mut found);
        let mut users: Vec<u64> = found.iter().map(|block| block.user).collect();
        users.sort_unstable();
        (users, more)
    };
    assert_eq!(cache.changed(), 2);
    let (mut first, more) = changed(1);
    assert!(more);
    first.extend(changed(10).0);
    first.sort_unstable();
    assert_eq!(first, [users[1], users[3]]);
    assert_eq!(changed(10), (vec![], false));
    change(&cache, users[4], ack(10, 6), now).unwrap();
    assert_eq!(changed(10), (vec![users[4]], false));
    cache.track(&[slot], false);
    change(&cache, users[0], ack(10, 6), now).unwrap();
    assert_eq!(cache.changed(), 0);
}

#[tokio::test]
async fn what_is_retired_goes_dirty_or_not_and_nothing_else() {
    let now = Instant::now();
    let (users, slot) = users(30);
    let cache = cache(1000);
    cache.close_all(true);
    cache.serve(slot, epoch(4));
    let other = (1..).find(|&user| Slot::of_user(user) != slot).unwrap();
    cache.serve(Slot::of_user(other), epoch(4));
    for &user in users.iter().chain([&other]) {
        cache.insert(user, None);
        change(&cache, user, ack(10, 1), now).unwrap();
    }
    let writes = cache.begin_flushes(now + INTERVAL * 2, 100);
    assert_eq!(writes.len(), 31);
    cache.close(slot);
    cache.retire(slot);
    cache.sweep().await;
    assert!(!cache.is_retired(slot));
    let totals = cache.totals();
    assert_eq!((totals.users, totals.dirty_users), (1, 1));
    assert_eq!(cache.users_of(slot), 0);
    // A write that was under way then changes nothing for a user that comes back.
    cache.serve(slot, epoch(5));
    let user = users[0];
    cache.insert(user, None);
    change(&cache, user, ack(10, 2), now).unwrap();
    for write in &writes {
        cache.written(write, now);
    }
    assert_eq!(cache.dirty_users(), 1, "the other one was written");
    let first = Stamp::new(epoch(5), 0).as_database() as u64;
    assert!(cache.read(user, |block| block.version()) > Some(first));
}

#[test]
fn a_write_of_the_epoch_before_does_not_count_for_this_one() {
    let now = Instant::now();
    let (users, slot) = users(1);
    let cache = cache(1000);
    cache.insert(users[0], None);
    change(&cache, users[0], ack(10, 1), now).unwrap();
    let writes = cache.begin_flushes(now + INTERVAL * 2, 1);
    // The slot is taken again, with what is here.
    cache.serve(slot, epoch(7));
    cache.written(&writes[0], now);
    assert_eq!(cache.dirty_users(), 1, "it is written once more");
    let again = cache.begin_flushes(now + INTERVAL * 4, 1);
    assert!(again[0].stamp > writes[0].stamp);
    assert_eq!(again[0].stamp.epoch(), epoch(7));
    cache.written(&again[0], now);
    assert_eq!(cache.dirty_users(), 0);
}

/// A write outlasts its ownership; the user comes back, acknowledged by another owner, and is written again.
#[tokio::test]
async fn a_write_of_an_earlier_ownership_that_ends_late_says_nothing_of_the_one_under_way() {
    let now = Instant::now();
    let (users, slot) = users(1);
    let user = users[0];
    for late_lands in [false, true] {
        let cache = cache(1000);
        cache.close_all(true);
        cache.serve(slot, epoch(4));
        cache.insert(user, None);
        change(&cache, user, ack(10, 1), now).unwrap();
        let mut due = now;
        let mut begin = || {
            due += INTERVAL * 2;
            cache.begin_flushes(due, 1)
        };
        let first = begin();
        let back = exported(&cache, &only(slot), now);
        cache.close(slot);
        cache.retire(slot);
        cache.sweep().await;
        cache.import(&back[0], now).unwrap();
        cache.serve(slot, epoch(6));
        let second = begin();
        match late_lands {
            true => cache.written(&first[0], now),
            false => cache.failed(&first[0], now),
        }
        change(&cache, user, ack(10, 2), now).unwrap();
        let third = begin();
        cache.written(&second[0], now);
        third.iter().for_each(|write| cache.failed(write, now));
        assert_eq!(cache.dirty_users(), 1, "the last change is in memory alone");
        assert_eq!(third, [], "one write at a time");
        let last = begin();
        cache.written(&last[0], now);
        assert_eq!(cache.dirty_users(), 0);
    }
}

#[test]
fn a_load_for_one_epoch_does_not_land_in_another() {
    let (users, slot) = users(1);
    let cache = cache(1000);
    let term = cache.term(users[0]).unwrap();
    cache.serve(slot, epoch(7));
    let landed = cache.land(users[0], None, term, Instant::now(), |_| ());
    assert_eq!(landed, None);
    cache.close(slot);
    assert_eq!(cache.term(users[0]), None);
    assert_eq!(cache.totals().users, 0);
}

#[test]
fn a_stamp_of_a_later_epoch_shows_only_where_others_own_slots() {
    let (users, slot) = users(1);
    let (user, cache) = (users[0], cache(1000));
    cache.close_all(true);
    cache.serve(slot, epoch(7));
    let later = Stamp::new(epoch(8), 0);
    let (own, other) = (Some(cache.incarnation()), Some(cache.incarnation() ^ 1));
    assert!(!cache.shows_regression(user, Stamp::new(epoch(7), 9), own));
    assert!(!cache.shows_regression(user, Stamp::new(epoch(6), 9), other));
    assert_eq!(cache.regressed(), []);
    assert!(cache.shows_regression(user, later, own));
    assert_eq!(cache.regressed(), [slot]);
    cache.serve(slot, epoch(8));
    assert_eq!(cache.regressed(), []);
    // The ring has given the epoch twice.
    assert!(!cache.shows_regression(user, later, None));
    assert!(cache.shows_regression(user, later, other));
    assert_eq!(cache.regressed(), [slot]);
    cache.close_all(false);
    cache.serve(slot, epoch(7));
    assert!(
        !cache.shows_regression(user, later, own),
        "only a clock went back"
    );
}

#[test]
fn a_process_that_is_alone_stamps_from_its_start_though_its_epoch_may_be_that_of_the_one_before() {
    let now = Instant::now();
    let (users, slot) = users(1);
    let started_micros = 5 << 24 | 1000;
    let process = Process {
        started_micros,
        ..PROCESS
    };
    let cache = Cache::new(process, 1000, INTERVAL);
    cache.close_all(false);
    cache.serve(slot, epoch(5));
    cache.insert(users[0], None);
    change(&cache, users[0], ack(10, 1), now).unwrap();
    let writes = cache.begin_flushes(now + INTERVAL * 2, 1);
    assert!(writes[0].stamp.as_database() > started_micros as i64);
    assert!(cache.read(users[0], |block| block.version()) > Some(started_micros));
}

#[test]
fn in_a_ring_that_others_share_a_stamp_is_one_of_its_epoch_however_far_ahead_the_clock_is() {
    let now = Instant::now();
    let (users, slot) = users(1);
    let process = Process {
        started_micros: 9 << 24,
        ..PROCESS
    };
    let cache = Cache::new(process, 1000, INTERVAL);
    cache.close_all(true);
    cache.serve(slot, epoch(5));
    cache.insert(users[0], None);
    change(&cache, users[0], ack(10, 1), now).unwrap();
    let writes = cache.begin_flushes(now + INTERVAL * 2, 1);
    assert_eq!(writes[0].stamp.epoch(), epoch(5));
}

#[test]
fn a_block_that_was_written_ahead_of_our_clock_is_still_written_above() {
    let now = Instant::now();
    let cache = cache(1000);
    let ahead = Stamp::from_database(3_600_000_000);
    let block = block(1);
    let block = BlockRef::trusted(&block);
    let decoded = Decoded { block, writer: 99 };
    cache.insert(1, Some((decoded, ahead)));
    cache.insert(2, None);
    for user in [1, 2] {
        change(&cache, user, ack(10, 1), now).unwrap();
    }
    let mut writes = cache.begin_flushes(now + INTERVAL * 2, 2);
    writes.sort_unstable_by_key(|write| write.user);
    assert_eq!(writes[0].stamp, ahead.successor());
    assert!(writes[1].stamp < ahead, "the others are not dragged along");
}
