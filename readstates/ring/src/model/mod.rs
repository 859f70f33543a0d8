//! The protocol under exhaustive search: [`crate::handoff`] as it is, in a world that does everything
//! it may do, in every order.
//!
//! One slot, one user, three members, two operations. Messages arrive late, twice, in any order or
//! never; a swap is carried out late or never, and its answer may be lost; writes land in the database
//! late or never, with or without an answer; processes crash and return with no memory; leases run
//! out; two operators may be at work. What must hold is in `World::check`.
//!
//! The search is breadth first, so that the first violation it finds is among the shortest. It stops
//! at the first violation, when there is nothing left to see, or at a number of states.
//!
//! A search that finds nothing proves only the absence of what it could find: each rule is dropped once,
//! and the search must notice. In the worlds of [`budgets`] it does so at
//!
//! | without | depth | after states | in the service, simulated |
//! |---|---|---|---|
//! | R1 | 8 | 226 | seed 13 |
//! | R2 | 20 | 23,230 | a scene |
//! | R3 | 10 | 657 | seed 2 |
//! | R4 | 12 | 900 | a scene |
//! | R5 | 4 | 107 | a scene |
//! | R6 | 17 | 59,125 | seed 9 |
//! | R7 | 13 | 74,147 | seed 3 |
//! | R8 | 15 | 340,414 | a scene |
//! | R9 | 16 | 4,425 | a scene |
//! | R10 | 16 | 7,916 | seed 9 |
//! | R15 | 12 | 53,171 | a scene |
//! | R16 | 16 | 288,538 | a scene |
//! | R17 | 17 | 328,248 | a scene |
//! | R18 | 19 | 1,250,760 | a scene |
//!
//! R15 to R17 are about a ring that is restored, while a member dies or is cut off; R18 is about a destination that
//! confirms, loses its lease and dies before it serves. Each violation is found in a world
//! in which nothing is violated when the rule is kept: a test searches that, too.
//!
//! The last column is where the simulation of whole members (`readstates/tests/simulation`) shows the same rule dropped
//! in the service itself; which seed it is changes with the code, but a test asserts that there is one. A scene is a
//! schedule of its own, of events that few seeds have.
//!
//! Slots with a backup have a model of their own: [`backed`].
//!
//! It found one fault in the first draft of the state machine itself, at depth 13: an offer that
//! arrived a second time, after the last part, put a member that was ready back to receiving.

pub mod backed;
pub mod budgets;
mod search;
mod world;

pub use budgets::Budget;
pub use search::{Found, Searched, Verdict, search, walk};
pub use world::World;

/// A rule of ownership, for working without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// `R1` to `R10` or `R15` to `R18`.
    pub name: &'static str,
    /// What the member or the shell does instead.
    pub does: &'static str,
    rule: crate::mutant::Rule,
}

impl Mutant {
    /// Lets this thread work without the rule while `run` runs.
    pub fn with<T>(self, run: impl FnOnce() -> T) -> T {
        crate::mutant::drop_rule(Some(self.rule));
        let result = run();
        crate::mutant::drop_rule(None);
        result
    }
}

/// Each rule, dropped.
pub const MUTANTS: [Mutant; 14] = {
    use crate::mutant::Rule;
    const fn mutant(name: &'static str, does: &'static str, rule: Rule) -> Mutant {
        Mutant { name, does, rule }
    }
    [
        mutant(
            "R1",
            "acknowledges what it applied without looking at epoch and lease again",
            Rule::R1,
        ),
        mutant("R2", "takes messages of an older epoch", Rule::R2),
        mutant(
            "R3",
            "asks the ring to name the destination before it confirmed",
            Rule::R3,
        ),
        mutant(
            "R4",
            "opens a sealed slot again when the destination is silent",
            Rule::R4,
        ),
        mutant(
            "R5",
            "takes a restarted process for the one before",
            Rule::R5,
        ),
        mutant(
            "R6",
            "writes what is dirty under the newest epoch it knows",
            Rule::R6,
        ),
        mutant(
            "R7",
            "counts versions on from the stored one after a take-over",
            Rule::R7,
        ),
        mutant(
            "R8",
            "answers from a block of an older epoch without writing it again",
            Rule::R8,
        ),
        mutant(
            "R9",
            "frees its memory when it asks for the swap, not when it sees it",
            Rule::R9,
        ),
        mutant("R10", "changes the ring without comparing", Rule::R10),
        mutant(
            "R15",
            "serves what it took before every living member has seen that",
            Rule::R15,
        ),
        mutant(
            "R16",
            "gives up a slot that it serves when a restored ring names another",
            Rule::R16,
        ),
        mutant(
            "R17",
            "goes on with what it has, at the next epoch, whatever the dead have said",
            Rule::R17,
        ),
        mutant(
            "R18",
            "drops what it handed on when the new owner has seen the ring, whether that one serves or not",
            Rule::R18,
        ),
    ]
};

#[cfg(test)]
mod tests;
