//! Switches that drop one rule each, for the tests that must notice.
//!
//! Outside tests and the `model` feature [`drops`] is a constant `false`, and the compiler removes
//! what it guards.

/// The rules of ownership that a test must be able to break; [`crate::handoff`] says where each is
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, feature = "model")),
    expect(dead_code, reason = "only tests drop rules")
)]
pub(crate) enum Rule {
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

#[cfg(any(test, feature = "model"))]
thread_local! {
    static DROPPED: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Whether this thread works without the rule.
#[cfg(any(test, feature = "model"))]
pub(crate) fn drops(rule: Rule) -> bool {
    DROPPED.with(|dropped| dropped.get() == Some(rule))
}

/// No rule is ever dropped outside tests.
#[cfg(not(any(test, feature = "model")))]
pub(crate) const fn drops(_rule: Rule) -> bool {
    false
}

/// Lets this thread work without a rule, or with all of them again.
#[cfg(any(test, feature = "model"))]
pub(crate) fn drop_rule(rule: Option<Rule>) {
    DROPPED.with(|dropped| dropped.set(rule));
}
