//! One structure: filled, weighed, and timed.

use std::{io, thread, time::Instant};

use hdrhistogram::Histogram;
use readstates_bench::{
    keys::Random,
    population::Population,
    process::{self, RESIDENT_BYTES},
    weight::{Measured, Speed, Weight},
};

use crate::structures::{Kind, Structure};

/// Operations between two looks at the clock, and between two chances to write back.
const CHUNK: u64 = 256;
/// Users between two chances to write back while filling: each may have many states.
const FILL_CHUNK: u64 = 16;

pub(crate) fn weigh(kind: Kind, states: u64, per_user: u64) -> io::Result<Weight> {
    fill(kind, &Population::of(states, per_user), states).map(|(_, weight)| weight)
}

fn fill(
    kind: Kind,
    population: &Population,
    states: u64,
) -> io::Result<(Box<dyn Structure>, Weight)> {
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
    let weight = Weight {
        structure: kind.name().to_owned(),
        per_user: population.per_user,
        states,
        bytes_per_state: bytes as f64 / states as f64,
    };
    Ok((structure, weight))
}

pub(crate) fn measure(kind: Kind, states: u64, per_user: u64, quick: bool) -> io::Result<Measured> {
    let population = Population::of(states, per_user);
    let (structure, weight) = fill(kind, &population, states)?;
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
        weight,
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
    let sample = process::sample(std::process::id())?;
    Ok(sample.get(RESIDENT_BYTES).copied().unwrap_or(0.0) as u64)
}
