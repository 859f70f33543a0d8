//! The owner of a user: ours as every request looks it up, and other rings.

use std::{error::Error, fmt::Write as _, hint::black_box, sync::Arc, time::Instant};

use readstates::ownership::store::{MemoryRing, RingStore};
use readstates_ring::{
    Incarnation, RingMember, RingTable, Slot, Succession,
    jump::{jump_hash, slot_key},
    slot::mix64,
};
use tokio::runtime::Runtime;

use super::{
    median,
    rings::{CrateRing, Md5Ring},
    world,
};

/// As many as Discord has told of: 30 s there before its ring was rewritten, 0.75 s after.
const LOOKUPS: usize = 2_500_000;

/// A table; ratios are of what a ring takes to what ours takes.
pub(crate) fn compare(
    runtime: &Runtime,
    rounds: usize,
    numbers: &[u16],
) -> Result<String, Box<dyn Error>> {
    // Random ids of 63 bits.
    let users: Vec<u64> = (1..=LOOKUPS as u64).map(|user| mix64(user) >> 1).collect();
    let mut out = String::from(
        "One thread, 2.5 million users after each other; ns per look-up, median of the rounds. *request*: as each \
         request does it, with the table of that moment. *held*: as a batch does it. Rings of points: 512 for each \
         member; the key of MD5 is the id in digits.\n\n\
         | members | ours, request | ours, held | 2.5 million, s | jump hash | × ours | `hashring` | × ours | \
         MD5 ring | × ours |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for &members in numbers {
        let ownership = runtime.block_on(async {
            let ring = ring_of(members).await?;
            let ownership = world::ownership(ring, true)?;
            ownership.refresh().await;
            Ok::<_, Box<dyn Error>>(ownership)
        })?;
        let owner_now = |user| ownership.routes().owner(Slot::of_user(user)).unwrap_or(0);
        let request = nanos(&users, rounds, owner_now);
        let routes = Arc::clone(&ownership.routes());
        let held = nanos(&users, rounds, |user| {
            routes.owner(Slot::of_user(user)).unwrap_or(0)
        });
        let jump = nanos(&users, rounds, |user| {
            usize::from(jump_hash(mix64(user), members))
        });
        let ring = CrateRing::new(members);
        let hashring = nanos(&users, rounds, |user| usize::from(ring.owner(user)));
        drop(ring);
        let ring = Md5Ring::new(members);
        let md5 = nanos(&users, rounds, |user| usize::from(ring.owner(user)));
        let seconds = request * LOOKUPS as f64 / 1e9;
        let ratio = |other: f64| other / request;
        writeln!(
            out,
            "| {members} | {request:.1} | {held:.1} | {seconds:.4} | {jump:.1} | {:.1} | {hashring:.0} | {:.0} | \
             {md5:.0} | {:.0} |",
            ratio(jump),
            ratio(hashring),
            ratio(md5)
        )?;
    }
    Ok(out)
}

/// Nanoseconds for one.
fn nanos(users: &[u64], rounds: usize, owner: impl Fn(u64) -> usize) -> f64 {
    let round = || {
        let started = Instant::now();
        let sum = users.iter().map(|&user| owner(user)).sum::<usize>();
        black_box(sum);
        started.elapsed().as_nanos() as f64 / users.len() as f64
    };
    // The first one warms the caches.
    round();
    median((0..rounds).map(|_| round()).collect())
}

/// A ring of this many members, each with its share.
async fn ring_of(members: u16) -> Result<Arc<MemoryRing>, Box<dyn Error>> {
    let mut table = RingTable::default();
    for member in 0..members {
        let incarnation = Incarnation::new(u64::from(member) + 1000);
        let url = format!("http://chat-{member}:7400");
        let owner = RingMember::new(format!("chat-{member}"), incarnation, url, None)?;
        let slots: Vec<_> = Slot::all()
            .filter(|&slot| jump_hash(slot_key(slot), members) == member)
            .map(|slot| (slot, None))
            .collect();
        if !slots.is_empty() {
            table = table.swap(&slots, &owner, Succession::TakenOver, world::micros())?;
        }
    }
    let ring = MemoryRing::default();
    ring.compare_and_swap(None, table).await?;
    Ok(Arc::new(ring))
}
