//! Search over worlds: breadth first, by fingerprints; and at random, which goes deeper.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt::Debug,
    hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher},
};

use crate::slot::mix64;

/// A world that can be searched.
pub trait Searched: Clone + Hash {
    /// What may happen in it.
    type Step: Debug;

    /// Everything that may happen next.
    fn steps(&self) -> Vec<Self::Step>;

    /// Lets one of them happen.
    ///
    /// # Errors
    /// When what must hold does not hold any more: what, in words.
    fn take(&mut self, step: &Self::Step) -> Result<(), String>;
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Different worlds seen, or walks walked.
    pub states: usize,
    /// Steps made.
    pub transitions: usize,
    /// The most steps from the start.
    pub depth: usize,
    /// How it ended.
    pub verdict: Verdict,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every world there is holds.
    Complete,
    /// Those seen hold; there are more.
    Bounded,
    /// One does not hold.
    Violated {
        /// What does not hold.
        what: String,
        /// The steps that lead there.
        steps: Vec<String>,
    },
}

/// The fingerprints are hashes already.
#[derive(Default)]
struct Fingerprinted(u64);

impl Hasher for Fingerprinted {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 << 8) | u64::from(byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Where a world was first reached from: the fingerprint there, and which of its steps.
type Parents = HashMap<u64, (u64, u16), BuildHasherDefault<Fingerprinted>>;

fn fingerprint(world: &impl Searched) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Looks at up to `most` worlds from `start` on. `progress` hears of it every million.
pub fn search<W: Searched>(
    start: &W,
    most: usize,
    mut progress: impl FnMut(usize, usize),
) -> Found {
    let mut parents = Parents::default();
    let first = fingerprint(start);
    parents.insert(first, (first, 0));
    let mut frontier = VecDeque::from([(start.clone(), first, 0)]);
    let (mut transitions, mut deepest) = (0, 0);
    let found = |parents: &Parents, transitions, depth, verdict| Found {
        states: parents.len(),
        transitions,
        depth,
        verdict,
    };
    while let Some((world, from, depth)) = frontier.pop_front() {
        deepest = depth;
        for (index, step) in world.steps().into_iter().enumerate() {
            let mut next = world.clone();
            let held = next.take(&step);
            transitions += 1;
            let reached = fingerprint(&next);
            if let Err(what) = held {
                let mut steps = path(start, &parents, from);
                steps.push(format!("{step:?}"));
                let verdict = Verdict::Violated { what, steps };
                return found(&parents, transitions, depth + 1, verdict);
            }
            if let Entry::Vacant(unseen) = parents.entry(reached) {
                unseen.insert((from, index as u16));
                frontier.push_back((next, reached, depth + 1));
                if parents.len() % 1_000_000 == 0 {
                    progress(parents.len(), depth);
                }
            }
        }
        if parents.len() >= most {
            return found(&parents, transitions, deepest, Verdict::Bounded);
        }
    }
    found(&parents, transitions, deepest, Verdict::Complete)
}

/// The steps that lead from the start to a world.
fn path<W: Searched>(start: &W, parents: &Parents, mut to: u64) -> Vec<String> {
    let mut indexes = Vec::new();
    while let Some(&(from, index)) = parents.get(&to)
        && from != to
    {
        indexes.push(usize::from(index));
        to = from;
    }
    let mut world = start.clone();
    let mut steps = Vec::new();
    for index in indexes.into_iter().rev() {
        let step = world.steps().swap_remove(index);
        steps.push(format!("{step:?}"));
        // It held when it was found.
        let _ = world.take(&step);
    }
    steps
}

/// Walks at random from `start`: this many times, at most so many steps each. The same seed walks the same way.
pub fn walk<W: Searched>(start: &W, seed: u64, walks: usize, length: usize) -> Found {
    let (mut transitions, mut deepest) = (0, 0);
    for number in 0..walks {
        let mut random = mix64(seed ^ mix64(number as u64));
        let (mut world, mut steps) = (start.clone(), Vec::new());
        for depth in 1..=length {
            let mut possible = world.steps();
            if possible.is_empty() {
                break;
            }
            random = mix64(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let step = possible.swap_remove((random % possible.len() as u64) as usize);
            let held = world.take(&step);
            (transitions, deepest) = (transitions + 1, deepest.max(depth));
            steps.push(step);
            if let Err(what) = held {
                let steps = steps.iter().map(|step| format!("{step:?}")).collect();
                return Found {
                    states: number + 1,
                    transitions,
                    depth,
                    verdict: Verdict::Violated { what, steps },
                };
            }
        }
    }
    Found {
        states: walks,
        transitions,
        depth: deepest,
        verdict: Verdict::Bounded,
    }
}
