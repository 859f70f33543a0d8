//! The targets on a fixed number of damaged seeds: the same ones in every run, on the stable toolchain,
//! within seconds. `hack/fuzz` goes further.

use std::{fs, path::Path};

use readstates_fuzz::targets;

/// Runs of one target.
const RUNS: u64 = 40_000;

/// A generator of numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A few bytes set, flipped, put in, taken out or repeated.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        match numbers.below(6) {
            _ if bytes.is_empty() => bytes.push(0),
            0 => bytes[at] = numbers.next() as u8,
            1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes.insert(at, numbers.next() as u8),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => bytes.extend_from_within(at..),
        }
        bytes.truncate(4096);
    }
}

fn run(target: &str, check: impl Fn(&[u8]) -> bool) {
    let (seeds, mut numbers) = (seeds(target), Numbers(1));
    assert!(seeds.iter().all(|seed| check(seed)), "a seed is refused");
    let mut taken = 0;
    for run in 0..RUNS {
        let mut bytes = seeds[(run % seeds.len() as u64) as usize].clone();
        damage(&mut bytes, &mut numbers);
        taken += u64::from(check(&bytes));
    }
    // Neither side is left out.
    assert!(
        (RUNS / 100..RUNS).contains(&taken),
        "{taken} of {RUNS} taken"
    );
}

#[test]
fn damaged_cells_are_refused_or_are_blocks_that_stay_blocks() {
    run("block", targets::block);
}

#[test]
fn damaged_batch_frames_are_refused_or_hold_what_they_say() {
    run("batch", targets::batch);
}

#[test]
fn damaged_bodies_are_refused_or_read_the_same_again() {
    run("bodies", targets::bodies);
}

#[test]
fn damaged_access_files_are_refused_or_say_who_may_do_what() {
    run("access", targets::access);
}

#[test]
fn damaged_authorization_headers_are_refused_or_hold_a_token() {
    run("authorization", targets::authorization);
}

#[test]
fn damaged_frames_between_members_are_refused_or_mean_the_same_when_they_are_sent_again() {
    run("frame", targets::frame);
}

#[test]
fn damaged_records_of_a_journal_are_refused_or_are_written_as_they_were_read() {
    run("journal", targets::journal);
}

#[test]
fn damaged_certificate_files_are_refused_or_read() {
    run("certificates", targets::certificates);
}
