//! Fills a cache and prints the memory per state and the time per operation.
//!
//! `cargo run --release --example cache_memory -- [states, 20000000] [states per user, 20]`
//!
//! Users have between 1 and twice the given number of states, evenly spread. Memory is the resident
//! set of the process as the kernel counts it, less what it was before. Times are of one thread, by
//! the wall clock, with the two readings of the clock in them; the longest insertion is also told in
//! time of the processor, which others on the machine do not lengthen.

use std::{
    collections::HashSet,
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use readstates::{
    block::{self, BlockRef, EMPTY, Operation, Visit},
    cache::{Cache, Process, Touch},
    codec::Decoded,
};
use readstates_ring::{Stamp, slot::mix64};
use rustix::time::{ClockId, clock_gettime};

const PROCESS: Process = Process {
    incarnation: 1,
    started_micros: 1_700_000_000_000_000,
};
/// Random operations of each kind.
const OPERATIONS: u64 = 1_000_000;
/// A channel's number times this is its id, as far apart as snowflakes are.
const CHANNEL: u64 = 1 << 40;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| -> Result<u64> {
        let given = arguments.next();
        given.map_or(Ok(default), |it| it.parse().context("a number is expected"))
    };
    let (states, per_user) = (number(20_000_000)?, number(20)?);
    ensure!(per_user > 0 && states >= per_user, "at least one user");
    let mut world = World::new(states, per_user);
    world.fill()?;
    world.read();
    world.update("update, user becomes dirty or is", 1);
    world.update_again();
    world.update_many(64);
    world.update_many(4096);
    world.grow();
    world.memory("after that")?;
    world.churn()?;
    world.halve()?;
    Ok(())
}

struct World {
    cache: Cache,
    states: u64,
    per_user: u64,
    users: u64,
    random: u64,
    message: u64,
    resident_before: u64,
}

impl World {
    fn new(states: u64, per_user: u64) -> Self {
        println!("{states} states, {per_user} per user");
        Self {
            cache: Cache::new(PROCESS, states, Duration::from_secs(30)),
            states,
            per_user,
            users: 0,
            random: 1,
            message: 1 << 60,
            resident_before: resident().unwrap_or(0),
        }
    }

    fn random(&mut self) -> u64 {
        self.random += 1;
        mix64(self.random)
    }

    fn some_user(&mut self) -> u64 {
        let random = self.random();
        user(random % self.users)
    }

    /// How many states the user with this number has.
    fn size(&self, number: u64) -> u64 {
        1 + mix64(number) % (2 * self.per_user - 1)
    }

    fn operation(&mut self, number_of_user: u64) -> Operation {
        self.message += 1 << 22;
        let random = self.random();
        ack(1 + random % self.size(number_of_user), self.message)
    }

    fn insert(&mut self, blocks: &mut Blocks, times: &mut Times) {
        let number = self.users;
        let block = blocks.of(self.size(number));
        let decoded = Decoded {
            block: BlockRef::trusted(block),
            writer: PROCESS.incarnation,
        };
        let stamp = Stamp::from_database(1);
        times.take_with_processor(|| self.cache.insert(user(number), Some((decoded, stamp))));
        self.users += 1;
    }

    fn fill(&mut self) -> Result<()> {
        let (mut blocks, mut times) = (Blocks::default(), Times::default());
        let mut filled = 0;
        while filled + 2 * self.per_user < self.states {
            filled += self.size(self.users);
            self.insert(&mut blocks, &mut times);
        }
        times.show("insert");
        self.memory("filled")
    }

    fn read(&mut self) {
        let mut times = Times::default();
        for _ in 0..OPERATIONS {
            let user = self.some_user();
            let seen = times.take(|| {
                self.cache
                    .read(user, |block| block.states().map(|it| it.last_message).max())
            });
            black_box(seen);
        }
        times.show("read of all states of a user");
    }

    fn update(&mut self, name: &str, count: usize) {
        let mut times = Times::default();
        for round in 0..OPERATIONS {
            if round % 1024 == 0 {
                self.write_some();
            }
            let number = self.random() % self.users;
            let operations: Vec<_> = (0..count).map(|_| self.operation(number)).collect();
            let now = Instant::now();
            let done = times.take(|| {
                let done = |_: BlockRef<'_>, _: &[_]| ();
                self.cache
                    .change(user(number), &operations, Touch::Online, now, done)
            });
            assert!(matches!(done, Some(Ok(()))), "{done:?}");
        }
        times.show(name);
    }

    /// Changes few users many times: they are dirty already.
    fn update_again(&mut self) {
        let some = (self.users / 8).max(1);
        let mut times = Times::default();
        for round in 0..some + OPERATIONS {
            let number = if round < some {
                round
            } else {
                self.random() % some
            };
            let operation = [self.operation(number)];
            let now = Instant::now();
            let change = || {
                let done = |_: BlockRef<'_>, _: &[_]| ();
                self.cache
                    .change(user(number), &operation, Touch::Online, now, done)
            };
            let done = if round < some {
                change()
            } else {
                times.take(change)
            };
            assert!(matches!(done, Some(Ok(()))), "{done:?}");
        }
        times.show("update of a user who is dirty");
        self.write_some();
    }

    fn update_many(&mut self, batch: usize) {
        let mut times = Times::default();
        for _ in 0..OPERATIONS / batch as u64 {
            self.write_some();
            let operations: Vec<_> = (0..batch)
                .map(|_| {
                    let number = self.random() % self.users;
                    (user(number), self.operation(number))
                })
                .collect();
            let now = Instant::now();
            times.take_with_processor(|| {
                let mut cold = HashSet::<u64>::new();
                self.cache.change_many(
                    &operations[..],
                    0..batch,
                    Touch::Online,
                    now,
                    &mut cold,
                    |_, done| {
                        assert!(matches!(done, Some(Ok(_))), "{done:?}");
                    },
                );
            });
        }
        times.show(&format!("batch of {batch}"));
        println!("{:>44} {:.0} ns each", "", times.mean() / batch as f64);
    }

    /// New channels and mentions: blocks become longer, and move.
    fn grow(&mut self) {
        let mut times = Times::default();
        for round in 0..self.users / 2 {
            if round % 256 == 0 {
                self.write_some();
            }
            let random = self.random();
            let number = random % self.users;
            self.message += 1 << 22;
            let channel = (1 + random % self.size(number)) * CHANNEL;
            let operation = match round % 2 {
                0 => ack(1000 + round, self.message),
                _ => Operation::Mention {
                    channel,
                    message: self.message,
                    count: 1,
                },
            };
            let now = Instant::now();
            let done = times.take_with_processor(|| {
                let done = |_: BlockRef<'_>, _: &[_]| ();
                self.cache
                    .change(user(number), &[operation], Touch::Online, now, done)
            });
            // Some are evicted because the others have grown.
            assert!(matches!(done, None | Some(Ok(()))), "{done:?}");
            self.cache.make_room(None, now);
        }
        times.show("update that makes a block longer");
    }

    /// Writes dirty users while the cache is under pressure.
    fn write_some(&self) {
        while self.cache.under_pressure() {
            let now = Instant::now();
            for flight in self.cache.begin_flushes(now, 1 << 16) {
                self.cache.written(&flight, now);
            }
        }
    }

    /// Replaces a third of the users by others.
    fn churn(&mut self) -> Result<()> {
        let (mut blocks, mut times, mut room) = <(Blocks, Times, Times)>::default();
        for _ in 0..self.users / 3 {
            self.insert(&mut blocks, &mut times);
            let now = Instant::now();
            let keep = Some(user(self.users - 1));
            if room.take(|| self.cache.make_room(keep, now)) {
                for flight in self.cache.begin_flushes(now, 64) {
                    self.cache.written(&flight, now);
                }
            }
        }
        times.show("insert for another");
        room.show("eviction for another");
        self.memory("after a third was replaced")
    }

    fn halve(&mut self) -> Result<()> {
        while self.cache.dirty_users() > 0 {
            let now = Instant::now() + Duration::from_secs(100);
            for flight in self.cache.begin_flushes(now, 1 << 16) {
                self.cache.written(&flight, now);
            }
        }
        self.cache.set_capacity(self.states / 2);
        let (mut times, started) = (Times::default(), Instant::now());
        let mut shrink = self.cache.shrink();
        while times.take_with_processor(|| shrink.step(started)) {}
        println!("half the capacity: {:?} in all", started.elapsed());
        times.show("step of that");
        self.memory("after that")
    }

    fn memory(&self, when: &str) -> Result<()> {
        let totals = self.cache.totals();
        let resident = resident()?;
        let each = |bytes: u64| bytes as f64 / totals.states as f64;
        println!(
            "{when}: {} users, {} states, {} dirty users; {:.2} bytes per state \
             ({:.2} accounted, {:.2} needed, {:.2} of them tails); process {} MiB",
            totals.users,
            totals.states,
            totals.dirty_users,
            each(resident - self.resident_before),
            each(totals.bytes),
            each(totals.bytes_needed),
            each(totals.bytes_of_tails),
            resident >> 20,
        );
        Ok(())
    }
}

/// Blocks by how many states they have.
#[derive(Default)]
struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    fn of(&mut self, states: u64) -> &[u8] {
        while self.0.len() as u64 <= states {
            let mut block = self.0.last().cloned().unwrap_or_default();
            if block.is_empty() {
                block = EMPTY.to_vec();
            } else {
                let channel = self.0.len() as u64;
                block::apply(&mut block, &ack(channel, 1), PROCESS.started_micros)
                    .expect("there is room");
            }
            self.0.push(block);
        }
        &self.0[states as usize]
    }
}

fn ack(channel: u64, message: u64) -> Operation {
    Operation::Ack {
        channel: channel * CHANNEL,
        message,
        visit: Visit::default(),
    }
}

fn user(number: u64) -> u64 {
    (number + 1) << 22
}

/// How long things took: counted by eighths of powers of two nanoseconds.
struct Times {
    counts: [u64; 512],
    sum: Duration,
    longest: Duration,
    of_processor: Duration,
    longest_of_processor: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let none = Duration::ZERO;
        Self {
            counts: [0; 512],
            sum: none,
            longest: none,
            of_processor: none,
            longest_of_processor: none,
        }
    }
}

impl Times {
    fn take<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.add(started.elapsed());
        done
    }

    fn take_with_processor<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = processor();
        let done = self.take(work);
        let took = processor() - started;
        self.of_processor += took;
        self.longest_of_processor = self.longest_of_processor.max(took);
        done
    }

    fn add(&mut self, time: Duration) {
        let nanos = time.as_nanos().max(8) as u64;
        let power = nanos.ilog2();
        let eighth = nanos >> (power - 3) & 7;
        self.counts[(power * 8) as usize + eighth as usize] += 1;
        self.sum += time;
        self.longest = self.longest.max(time);
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn mean(&self) -> f64 {
        self.sum.as_nanos() as f64 / self.count() as f64
    }

    /// The upper end of the eighth in which this share of them has ended.
    fn quantile(&self, share: f64) -> u64 {
        let mut left = (self.count() as f64 * share) as u64;
        for (index, &count) in self.counts.iter().enumerate() {
            if count > left {
                let (power, eighth) = (index as u64 / 8, index as u64 % 8);
                return (9 + eighth) << (power - 3);
            }
            left -= count;
        }
        0
    }

    fn show(&self, name: &str) {
        print!(
            "{name:>44} {:.0} ns mean, p50 {}, p99 {}, p99.9 {}, longest {:?}",
            self.mean(),
            self.quantile(0.5),
            self.quantile(0.99),
            self.quantile(0.999),
            self.longest
        );
        if self.of_processor > Duration::ZERO {
            let mean = self.of_processor.as_nanos() / u128::from(self.count());
            print!(
                "; of the processor {mean} ns mean, longest {:?}",
                self.longest_of_processor
            );
        }
        println!();
    }
}

fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of memory that the process has.
fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).context("no resident set")?;
    Ok(pages.parse::<u64>()? * rustix::param::page_size() as u64)
}
