//! Switches that drop one rule each, for the tests that must notice.
//!
//! R11 to R14 are those of a backup that acknowledges, which is not there yet. The members of the service look at the
//! rules, too. Outside tests and the `model` feature [`drops`] is a constant `false`, and the compiler removes what it
//! guards.

/// The rules of ownership that a test must be able to break; [`crate::handoff`] says where each is
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Only the owner at the epoch, unsealed and with a lease, acknowledges.
    R1,
    /// Messages of an older epoch are refused.
    R2,
    /// The next owner has confirmed the final state, or takes over from a dead one.
    R3,
    /// What is sealed stays sealed.
    R4,
    /// A name is not an identity: the process is.
    R5,
    /// A write carries the epoch under which it was acknowledged.
    R6,
    /// Versions go on above everything that an owner before can have told.
    R7,
    /// What was loaded is written again before an answer rests on it.
    R8,
    /// Memory is freed once the new epoch is seen.
    R9,
    /// The ring changes by comparison alone.
    R10,
    /// A process serves a slot that it took once every living member has seen the take.
    R15,
    /// A member that was never out of service keeps its slots, whatever a restored store says.
    R16,
    /// A slot that another process may have served meanwhile, by a ring that a restored store has forgotten, begins
    /// with what is in the database, at an epoch above every one that dead processes have said.
    R17,
    /// What was handed on is kept until the new owner serves it, or until it is written.
    R18,
}

#[cfg(any(test, feature = "model"))]
thread_local! {
    static DROPPED: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Whether this thread works without the rule.
#[must_use]
#[cfg(any(test, feature = "model"))]
pub fn drops(rule: Rule) -> bool {
    DROPPED.with(|dropped| dropped.get() == Some(rule))
}

/// No rule is ever dropped outside tests.
#[cfg(not(any(test, feature = "model")))]
#[must_use]
pub const fn drops(_rule: Rule) -> bool {
    false
}

/// Lets this thread work without a rule, or with all of them again.
#[cfg(any(test, feature = "model"))]
pub(crate) fn drop_rule(rule: Option<Rule>) {
    DROPPED.with(|dropped| dropped.set(rule));
}
