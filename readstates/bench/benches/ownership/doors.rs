//! What a change of a user in memory takes with the door of its slot and without.

use std::{error::Error, fmt::Write as _, hint::black_box, sync::Arc, thread, time::Instant};

use readstates::{
    block::{Operation, Visit},
    cache::Touch,
    engine::Engine,
    ownership::{Ownership, store::MemoryRing},
};
use readstates_ring::{SLOTS, Slot, slot::mix64};
use tokio::runtime::Runtime;

use super::{median, world};

const USERS: u64 = 200_000;
const CHANGES: u64 = 1_000_000;

/// A table.
pub(crate) fn compare(runtime: &Runtime, rounds: usize) -> Result<String, Box<dyn Error>> {
    let (engine, ownership) = runtime.block_on(async {
        let (engine, ownership) =
            world::engine_and_ownership(Arc::new(MemoryRing::default()), false)?;
        ownership.begin();
        let soon = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
        ownership.wait_until_joined(soon).await;
        let first: Vec<_> = (1..=USERS).map(|user| (user, ack(1))).collect();
        for users in first.chunks(1024) {
            engine.change_many(users, Touch::Online).await;
        }
        Ok::<_, Box<dyn Error>>((engine, ownership))
    })?;
    let owned = ownership.status().owned;
    if owned != SLOTS {
        return Err(format!("{owned} of {SLOTS} doors are open").into());
    }
    // Each acknowledges what is newer than all before.
    let mut first = 2;
    let mut later = || {
        first += CHANGES;
        first
    };
    let mut out = String::from(
        "An acknowledgement of a random user of 200,000 in memory; ns, median of the rounds. With the door: in, the \
         change, the lease looked at, out.\n\n\
         | threads | without | with | difference | × without |\n|--:|--:|--:|--:|--:|\n",
    );
    for threads in [1, 2] {
        let both = (0..rounds).map(|_| {
            let without = each(threads, later(), |user, message| {
                change(&engine, user, message);
            });
            let with = each(threads, later(), |user, message| {
                through_the_door(&engine, &ownership, user, message);
            });
            (without, with)
        });
        let (without, with): (Vec<f64>, Vec<f64>) = both.unzip();
        let (without, with) = (median(without), median(with));
        let more = with - without;
        let ratio = with / without;
        writeln!(
            out,
            "| {threads} | {without:.0} | {with:.0} | {more:.0} | {ratio:.2} |"
        )?;
    }
    ownership.end();
    Ok(out)
}

fn ack(message: u64) -> Operation {
    Operation::Ack {
        channel: 10,
        message,
        visit: Visit::default(),
    }
}

fn change(engine: &Engine, user: u64, message: u64) {
    let now = Instant::now();
    let cache = engine.cache();
    let done = cache.change(user, &[ack(message)], Touch::Online, now, |_, outcomes| {
        outcomes[0]
    });
    black_box(done);
}

fn through_the_door(engine: &Engine, ownership: &Ownership, user: u64, message: u64) {
    let Some(pass) = ownership.enter(Slot::of_user(user)) else {
        return;
    };
    change(engine, user, message);
    black_box(pass.may_acknowledge());
}

/// Nanoseconds of one change, by this many threads at once.
fn each(threads: u64, first: u64, change: impl Fn(u64, u64) + Sync) -> f64 {
    let started = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let change = &change;
            scope.spawn(move || {
                for number in 0..CHANGES {
                    let random = mix64(number + CHANGES * (thread + 1));
                    change(random % USERS + 1, first + number);
                }
            });
        }
    });
    started.elapsed().as_nanos() as f64 / CHANGES as f64
}
