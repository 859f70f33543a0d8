//! One structure: filled, weighed, and timed.

use std::{
    fs,
    io::{self, Error},
    thread,
    time::Instant,
};

use hdrhistogram::Histogram;
use readstates_bench::keys::Random;
use readstates_ring::slot::mix64;
use serde::{Deserialize, Serialize};

use crate::structures::{Kind, Structure};

/// Operations between two looks at the clock, and between two chances to write back.
const CHUNK: u64 = 256;
/// Users between two chances to write back while filling: each may have many states.
const FILL_CHUNK: u64 = 16;

/// What was measured of one structure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) structure: String,
    pub(crate) per_user: u64,
    /// States that it holds: a bounded cache may have dropped some.
    pub(crate) states: u64,
    /// Growth of the resident set while it was filled, by the states that it holds.
    pub(crate) bytes_per_state: f64,
    pub(crate) update: Speed,
    pub(crate) read: Speed,
}

/// Nanoseconds. Percentiles hold two looks at the clock each; the means do not.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Speed {
    /// Per operation, one thread.
    pub(crate) nanos: f64,
    pub(crate) p50: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
    /// Wall time by operations of both, two threads.
    pub(crate) nanos_of_two: f64,
}

/// Who has how many states.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Population {
    users: u64,
    per_user: u64,
}

impl Population {
    /// As many users as it takes.
    fn of(states: u64, per_user: u64) -> Self {
        let mut population = Self { users: 0, per_user };
        let mut there = 0;
        while there < states {
            there += population.size(population.users);
            population.users += 1;
        }
        population
    }

    fn size(&self, number: u64) -> u64 {
        1 + mix64(number) % (2 * self.per_user - 1)
    }

    fn user(number: u64) -> u64 {
        (number + 1) << 22
    }

    fn channel(number: u64, index: u64) -> u64 {
        (mix64((number << 16) ^ index) >> 4) | 1
    }

    /// A random state: the user, the channel, and the user's number of states.
    pub(crate) fn draw(&self, random: &mut Random) -> (u64, u64, u64) {
        let number = random.below(self.users);
        let size = self.size(number);
        let index = random.below(size);
        (Self::user(number), Self::channel(number, index), number)
    }

    /// All channels of the user of this number.
    pub(crate) fn channels(&self, number: u64) -> impl Iterator<Item = u64> {
        (0..self.size(number)).map(move |index| Self::channel(number, index))
    }
}

pub(crate) fn measure(kind: Kind, states: u64, per_user: u64, quick: bool) -> io::Result<Measured> {
    let population = Population::of(states, per_user);
    let before = resident()?;
    let structure = kind.make(states);
    let mut channels = Vec::new();
    for number in 0..population.users {
        channels.clear();
        channels.extend(population.channels(number));
        structure.fill(Population::user(number), &channels);
        if number.is_multiple_of(FILL_CHUNK) {
            structure.tidy();
        }
    }
    structure.settle();
    let bytes = resident()?.saturating_sub(before);
    let states = structure.states();
    let operations = if quick { 400_000 } else { 4_000_000 };
    let update = |random: &mut Random, message: u64| {
        let (user, channel, _) = population.draw(random);
        structure.update(user, channel, message);
    };
    let read = |random: &mut Random, _: u64| {
        let (user, _, number) = population.draw(random);
        std::hint::black_box(structure.read(user, &mut population.channels(number)));
    };
    Ok(Measured {
        structure: kind.name().to_owned(),
        per_user,
        states,
        bytes_per_state: bytes as f64 / states as f64,
        update: speed(operations, structure.as_ref(), &update),
        read: speed(operations / 4, structure.as_ref(), &read),
    })
}

fn speed(
    operations: u64,
    structure: &dyn Structure,
    operation: &(dyn Fn(&mut Random, u64) + Sync),
) -> Speed {
    let nanos = in_chunks(operations, 1, structure, operation);
    // Up to a minute, three digits.
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)
        .unwrap_or_else(|_| unreachable!("bounds that make sense"));
    let mut random = Random::new(3, 0);
    for n in 0..operations {
        if n.is_multiple_of(CHUNK) {
            structure.tidy();
        }
        let started = Instant::now();
        operation(&mut random, (2 << 60) + n);
        times.saturating_record(started.elapsed().as_nanos() as u64);
    }
    let of_two = thread::scope(|scope| {
        let threads = [4, 5]
            .map(|seed| scope.spawn(move || in_chunks(operations / 2, seed, structure, operation)));
        let nanos = threads.map(|thread| thread.join().unwrap_or(f64::NAN));
        // Each did half: the wall time of the slower, by the operations of both.
        nanos[0].max(nanos[1]) / 2.0
    });
    Speed {
        nanos,
        p50: times.value_at_quantile(0.5),
        p999: times.value_at_quantile(0.999),
        max: times.max(),
        nanos_of_two: of_two,
    }
}

/// Nanoseconds per operation. What our cache writes back between chunks is not in it: no other structure does.
fn in_chunks(
    operations: u64,
    seed: u64,
    structure: &dyn Structure,
    operation: &(dyn Fn(&mut Random, u64) + Sync),
) -> f64 {
    let mut random = Random::new(seed, 0);
    let mut nanos = 0;
    let mut done = 0;
    while done < operations {
        structure.tidy();
        let started = Instant::now();
        for _ in 0..CHUNK {
            done += 1;
            operation(&mut random, (seed << 56) + done);
        }
        nanos += started.elapsed().as_nanos() as u64;
    }
    nanos as f64 / done as f64
}

/// Bytes of memory that this process has.
fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| Error::other("the kernel does not tell the resident set"))
}
