//! The cache's promises: capacity, never losing a dirty user, one write per interval, bounds.

use std::collections::HashSet;

use super::*;
use crate::{
    block::{EMPTY, MAX_READ_STATES, Visit, apply},
    codec,
};

mod model;
mod slab;
mod slots;

const INTERVAL: Duration = Duration::from_secs(30);
const PROCESS: Process = Process {
    incarnation: 7,
    started_micros: 1_000_000,
};

fn cache(capacity: u64) -> Cache {
    Cache::new(PROCESS, capacity, INTERVAL)
}

fn ack(channel: u64, message: u64) -> Operation {
    Operation::Ack {
        channel,
        message,
        visit: Visit::default(),
    }
}

fn change(cache: &Cache, user: u64, operation: Operation, now: Instant) -> Result<(), Refused> {
    cache
        .change(user, &[operation], Touch::Online, now, |_, _| ())
        .expect("the user is cached")
}

/// A block with channels from 1, each read up to message 1.
fn block(states: u64) -> Vec<u8> {
    let mut block = EMPTY.to_vec();
    for channel in 1..=states {
        apply(&mut block, &ack(channel, 1), 0).unwrap();
    }
    block
}

/// Caches a user with this block, as this process wrote it.
fn loaded(cache: &Cache, user: u64, block: &[u8], writer: u64) {
    let block = BlockRef::trusted(block);
    let decoded = Decoded { block, writer };
    let stamp = Stamp::from_database(PROCESS.started_micros as i64);
    cache.insert(user, Some((decoded, stamp)));
}

/// Caches a user with some states, all written.
fn clean(cache: &Cache, user: u64, states: u64) {
    loaded(cache, user, &block(states), PROCESS.incarnation);
}

#[test]
fn the_capacity_holds_and_cold_users_go_first() {
    let (cache, now) = (cache(1000), Instant::now());
    for user in 1..=100 {
        clean(&cache, user, 10);
    }
    // Users up to 50 are there often.
    for user in 1..=50 {
        for _ in 0..3 {
            cache.read(user, |_| ());
        }
    }
    for user in 101..=150 {
        clean(&cache, user, 10);
        cache.make_room(Some(user), now);
        assert!(cache.totals().states <= 1000);
    }
    let kept = (1..=50)
        .filter(|&user| cache.read(user, |_| ()).is_some())
        .count();
    assert_eq!(kept, 50, "users who are there often stay");
    assert_eq!(cache.totals().users, 100);
    assert_eq!(cache.totals().evictions, 50);
}

#[test]
fn dirty_users_are_never_evicted_but_are_asked_to_be_written() {
    let (cache, now) = (cache(10), Instant::now());
    for user in 1..=20 {
        clean(&cache, user, 1);
        change(&cache, user, ack(1, 2), now).unwrap();
    }
    assert!(cache.make_room(None, now), "a user was brought forward");
    assert_eq!(cache.totals().users, 20);
    let writes = cache.begin_flushes(now, 100);
    assert!(!writes.is_empty(), "before their interval is over");
    for write in &writes {
        cache.written(write, now);
    }
    cache.make_room(None, now);
    let left = cache.totals().users as usize;
    assert_eq!(left, 10.max(20 - writes.len()));
}

#[test]
fn a_user_is_written_once_however_often_it_changes_within_the_interval() {
    let (cache, start) = (cache(1000), Instant::now());
    cache.insert(1, None);
    for message in 1..=100 {
        change(
            &cache,
            1,
            ack(1, message),
            start + Duration::from_millis(message),
        )
        .unwrap();
    }
    assert_eq!(cache.begin_flushes(start + INTERVAL / 2, 10), []);
    let later = start + INTERVAL + INTERVAL / 8;
    let writes = cache.begin_flushes(later, 10);
    assert_eq!(writes.len(), 1);
    let decoded = codec::decode(&writes[0].bytes).unwrap();
    assert_eq!(decoded.block.state(1).unwrap().last_message, 100);
    assert_eq!(decoded.writer, PROCESS.incarnation);
    cache.written(&writes[0], later);
    assert_eq!(cache.dirty_users(), 0);
    assert_eq!(cache.begin_flushes(later + INTERVAL * 2, 10), []);
}

#[test]
fn a_change_during_a_write_makes_the_user_dirty_again() {
    let (cache, start) = (cache(1000), Instant::now());
    cache.insert(1, None);
    change(&cache, 1, ack(1, 1), start).unwrap();
    let due = start + INTERVAL * 2;
    let writes = cache.begin_flushes(due, 10);
    let meanwhile = due + Duration::from_secs(1);
    change(&cache, 1, ack(1, 2), meanwhile).unwrap();
    assert_eq!(
        cache.begin_flushes(due + INTERVAL * 9, 10),
        [],
        "one write at a time"
    );
    cache.written(&writes[0], meanwhile);
    assert_eq!(cache.dirty_users(), 1);
    assert_eq!(cache.totals().oldest_dirty, Some(meanwhile));
    let second = cache.begin_flushes(meanwhile + INTERVAL * 2, 10);
    assert!(second[0].stamp > writes[0].stamp);
    cache.written(&second[0], meanwhile + INTERVAL * 2);
    assert_eq!(
        (cache.dirty_users(), cache.totals().oldest_dirty),
        (0, None)
    );
}

#[test]
fn a_failed_write_keeps_the_user_dirty_and_its_age_and_is_tried_again_above_its_stamp() {
    let (cache, start) = (cache(1000), Instant::now());
    cache.insert(1, None);
    change(&cache, 1, ack(1, 1), start).unwrap();
    let mut now = start + INTERVAL * 2;
    let mut last = Stamp::from_database(0);
    for _ in 0..20 {
        let writes = cache.begin_flushes(now, 10);
        assert!(writes[0].stamp > last);
        last = writes[0].stamp;
        cache.failed(&writes[0], now);
        assert_eq!(cache.begin_flushes(now, 10), [], "not at once");
        assert_eq!(cache.totals().oldest_dirty, Some(start));
        now += LONGEST_WAIT;
    }
    let writes = cache.begin_flushes(now, 10);
    cache.written(&writes[0], now);
    assert_eq!(cache.dirty_users(), 0);
}

/// More than any wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(17);

#[test]
fn unwritten_states_are_bounded_and_then_new_changes_are_refused() {
    let (cache, now) = (cache(4000), Instant::now());
    let bound = 2000;
    for user in 1..=bound {
        cache.insert(user, None);
        change(&cache, user, ack(1, 1), now).unwrap();
    }
    cache.insert(bound + 1, None);
    let refused = Err(Refused::TooManyUnwritten);
    assert_eq!(
        change(&cache, bound + 1, ack(1, 1), now),
        refused,
        "a clean user"
    );
    assert_eq!(
        change(&cache, 1, ack(2, 1), now),
        refused,
        "a dirty user's new channel"
    );
    assert_eq!(
        change(&cache, 1, ack(1, 2), now),
        Ok(()),
        "a dirty user's known channel"
    );
    assert_eq!(cache.read(bound + 1, |block| block.version()), Some(0));
    assert!(cache.under_pressure());
    let writes = cache.begin_flushes(now, 10);
    assert_eq!(writes.len(), 10, "pressure writes before the time");
    writes.iter().for_each(|write| cache.written(write, now));
    assert_eq!(change(&cache, bound + 1, ack(1, 1), now), Ok(()));
}

#[test]
fn a_user_who_runs_too_far_ahead_of_the_store_is_written_and_then_held_back() {
    let (cache, now) = (cache(1000), Instant::now());
    cache.insert(1, None);
    let mut message = 0;
    let mut next = || {
        message += 1;
        change(&cache, 1, ack(1, message), now)
    };
    for _ in 0..=VERSION_GAP / 2 {
        next().unwrap();
    }
    let writes = cache.begin_flushes(now, 1);
    assert_eq!(writes.len(), 1, "long before its time");
    cache.failed(&writes[0], now);
    while next().is_ok() {}
    assert_eq!(next(), Err(Refused::UserTooBusy));
    assert_eq!(next(), Err(Refused::UserTooBusy), "until it is written");
    let version = cache.read(1, |block| block.version()).unwrap();
    let first = PROCESS.started_micros + VERSION_GAP;
    assert!(
        version - first < VERSION_GAP,
        "the next owner jumps further than this"
    );
}

#[test]
fn a_block_of_another_process_jumps_with_its_first_change_and_ours_does_not() {
    let (cache, now) = (cache(1000), Instant::now());
    let mut block = EMPTY.to_vec();
    for message in 1..=5 {
        apply(&mut block, &ack(1, message), 0).unwrap();
    }
    loaded(&cache, 1, &block, 7);
    loaded(&cache, 2, &block, 8);
    change(&cache, 1, ack(1, 6), now).unwrap();
    change(&cache, 2, ack(1, 3), now).unwrap();
    assert_eq!(cache.read(1, |block| block.version()), Some(6));
    let first = PROCESS.started_micros + VERSION_GAP;
    assert_eq!(
        cache.read(2, |block| block.version()),
        Some(first),
        "what was known before is ours from then on"
    );
    assert_eq!(cache.dirty_users(), 2, "and is written again");
    change(&cache, 2, ack(1, 6), now).unwrap();
    assert_eq!(cache.read(2, |block| block.version()), Some(first + 1));
}

#[test]
fn all_operations_of_one_request_are_applied_or_none() {
    let (cache, now) = (cache(1_000_000), Instant::now());
    clean(&cache, 1, MAX_READ_STATES as u64 - 1);
    let over = [ack(1, 2), ack(1 << 40, 1), ack(1 << 41, 1)];
    let refused = cache
        .change(1, &over, Touch::Online, now, |_, _| ())
        .unwrap();
    assert_eq!(refused, Err(Refused::TooManyReadStates(TooManyReadStates)));
    assert_eq!(
        cache.read(1, |block| block.state(1).unwrap().last_message),
        Some(1)
    );
    let fits = [ack(1 << 40, 1), ack(1 << 40, 2)];
    assert_eq!(
        cache.change(1, &fits, Touch::Online, now, |_, outcomes| outcomes.len()),
        Some(Ok(2))
    );
}

#[test]
fn deleting_frees_capacity_and_the_accounts_come_out_even() {
    let (cache, now) = (cache(1000), Instant::now());
    clean(&cache, 1, 100);
    change(&cache, 1, ack(1, 9), now).unwrap();
    assert_eq!(
        (cache.totals().states, cache.totals().dirty_states),
        (100, 100)
    );
    change(&cache, 1, Operation::DeleteUser, now).unwrap();
    assert_eq!((cache.totals().states, cache.totals().dirty_states), (1, 1));
    let later = now + INTERVAL * 2;
    let writes = cache.begin_flushes(later, 1);
    cache.written(&writes[0], later);
    cache.set_capacity(0);
    cache.make_room(None, later);
    let Totals {
        users,
        states,
        dirty_users,
        dirty_states,
        ..
    } = cache.totals();
    assert_eq!((users, states, dirty_users, dirty_states), (0, 0, 0, 0));
}

#[test]
fn a_sealed_cache_takes_no_changes_and_is_still_read() {
    let (cache, now) = (cache(1000), Instant::now());
    clean(&cache, 1, 1);
    cache.seal();
    assert_eq!(change(&cache, 1, ack(1, 2), now), Err(Refused::Sealed));
    assert_eq!(cache.read(1, |block| block.len()), Some(1));
}

#[test]
fn operations_of_many_users_are_told_of_one_by_one_and_keep_their_order() {
    let (cache, now) = (cache(1_000_000), Instant::now());
    // Users 1 to 100 are cached, 101 to 120 are not.
    for user in 1..=100 {
        clean(&cache, user, 3);
    }
    let operations: Vec<(u64, Operation)> = (1..=40)
        .flat_map(|message| (1..=120).map(move |user| (user, ack(1, message))))
        .collect();
    let mut told = vec![None; operations.len()];
    cache.change_many(
        &operations[..],
        0..operations.len(),
        Touch::Online,
        now,
        &mut HashSet::new(),
        |index, done| {
            told[index] = Some(done);
        },
    );
    for (&(user, operation), told) in operations.iter().zip(&told) {
        let expected = match user {
            101.. => None,
            // Everybody has read up to message 1.
            _ if operation == ack(1, 1) => Some(Ok(Outcome::Ignored)),
            _ => Some(Ok(Outcome::Applied)),
        };
        assert_eq!(*told, Some(expected), "user {user}: {operation:?}");
    }
    assert_eq!(cache.dirty_users(), 100);
    cache.seal();
    cache.change_many(
        &[(1, ack(1, 99))][..],
        0..1,
        Touch::Online,
        now,
        &mut HashSet::new(),
        |_, done| {
            assert_eq!(done, Some(Err(Refused::Sealed)));
        },
    );
}

#[test]
fn memory_is_bounded_when_states_have_long_tails() {
    let (cache, now) = (cache(10_000), Instant::now());
    let budget = 4 << 20;
    let mut message = 1;
    for user in 1..=4000 {
        clean(&cache, user, 2);
        // Eight mentions that count other than one: 100 bytes in the tail of each state.
        let mut mention = |channel| {
            message += 1;
            Operation::Mention {
                channel,
                message,
                count: 2,
            }
        };
        let mentions: Vec<_> = (0..60).map(|number| mention(1 + number % 5)).collect();
        let changed = cache.change(user, &mentions, Touch::Mention, now, |_, _| ());
        if changed == Some(Err(Refused::TooManyUnwritten)) {
            for write in cache.begin_flushes(now, usize::MAX) {
                cache.written(&write, now);
            }
        }
        cache.make_room(Some(user), now);
        let totals = cache.totals();
        assert!(totals.bytes_needed <= budget + 4096, "{totals:?}");
        assert!(totals.dirty_bytes <= budget / 2 + 4096, "{totals:?}");
    }
    let totals = cache.totals();
    assert!(
        totals.evictions > 0 && totals.states < 10_000,
        "bytes were the bound: {totals:?}"
    );
}

#[test]
fn a_smaller_capacity_gives_the_memory_back_step_by_step() {
    let (cache, now) = (cache(200_000), Instant::now());
    let block = block(20);
    for user in 1..=10_000 {
        loaded(&cache, user, &block, PROCESS.incarnation);
    }
    let full = cache.totals();
    assert!(full.bytes_needed < 27 * full.states, "{full:?}");
    cache.set_capacity(50_000);
    let (mut shrink, mut steps) = (cache.shrink(), 0);
    while shrink.step(now) {
        steps += 1;
    }
    let less = cache.totals();
    assert_eq!((less.users, less.states), (2500, 50_000));
    let idle = 64 * 3 * super::slab::REGION as u64;
    assert!(
        less.bytes <= less.bytes_needed + less.bytes_needed / 16 + idle,
        "{less:?}"
    );
    assert!(
        less.bytes_needed < 30 * less.states,
        "tables may be half empty: {less:?}"
    );
    assert!(steps > 64, "no lock was held for all of it");
}

#[test]
fn a_user_with_as_many_channels_as_can_be_fits_and_goes() {
    let (cache, now) = (cache(50_000), Instant::now());
    clean(&cache, 1, 1);
    let channels: Vec<_> = (1..=MAX_READ_STATES as u64)
        .map(|channel| ack(channel, 2))
        .collect();
    for some in channels.chunks(1000) {
        let done = cache.change(1, some, Touch::Online, now, |_, _| ());
        if done == Some(Err(Refused::TooManyUnwritten)) {
            for write in cache.begin_flushes(now, 1) {
                cache.written(&write, now);
            }
            let again = cache.change(1, some, Touch::Online, now, |_, _| ());
            assert_eq!(again, Some(Ok(())));
        }
    }
    assert_eq!(cache.read(1, |block| block.len()), Some(MAX_READ_STATES));
    let totals = cache.totals();
    assert!(
        totals.bytes_needed < 27 * MAX_READ_STATES as u64,
        "{totals:?}"
    );
    cache.change(1, &[Operation::DeleteUser], Touch::Online, now, |_, _| ());
    assert!(cache.totals().bytes_needed < 10_000, "{:?}", cache.totals());
}
