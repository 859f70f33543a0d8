//! Switches that drop one rule each, for the tests that must notice.
//!
//! R11 to R14 are those of a backup that acknowledges: [`Shortcut`] has the ways not to keep them. The members of the
//! service look at the rules, too. Outside tests and the `model` feature [`drops`] is a constant `false`, and the compiler removes what it
//! guards.

/// The rules of ownership that a test must be able to break; [`crate::handoff`] says where each is
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(strum::VariantArray))]
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

/// What an owner with a backup, or a backup, might do instead of what [`crate::replication`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(strum::VariantArray))]
pub enum Shortcut {
    /// A change is acknowledged, or said to have been applied before, when the backup does not have it yet.
    ChangeWithoutTicket,
    /// A read shows what the backup does not have yet.
    ReadWithoutTicket,
    /// The same is said of a change without the permission of the backup, once that has it.
    ChangeWithoutPermission,
    /// A read is answered without the permission of the backup.
    ReadWithoutPermission,
    /// An owner does not look at its lease.
    NoLease,
    /// The permission counts from when the acknowledgement came.
    PermissionFromReceipt,
    /// A backup that has to go is not waited for any more, before the ring says that it is out.
    DropsAlone,
    /// While a swap that names a backup is under way, the backup before is enough.
    NewBackupNotAsked,
    /// A backup is named before it has everything.
    NamedTooEarly,
    /// A member with a journal that it has not worked off names a backup.
    SeedsUnreplayed,
    /// A member with a journal that it has not worked off hands the slot on.
    MovesUnreplayed,
    /// A backup accepts frames until it knows that it was promoted, and answers at once.
    AcceptsUntilPromoted,
    /// A promoted owner answers at once.
    AnswersAtOnce,
    /// A promoted owner goes on accepting frames of the owner before.
    AcceptsAfterPromotion,
    /// A backup takes trims that it refuses frames of.
    TrimsAfterPromise,
    /// A backup accepts frames of which it lacks some before.
    AcceptsGaps,
    /// A backup is promoted whatever it has, by its name.
    PromotesIncomplete,
    /// A slot is taken over from a dead owner while its backup lives.
    TakesFromLivingBackup,
    /// A trim is sent with the write.
    TrimsWhenSent,
    /// Versions are compared without their epochs.
    ComparesWithoutEpoch,
    /// All records are applied, also those that the block has.
    ReplaysAll,
    /// The base under records is not made the owner's own.
    LeavesBase,
    /// It is, without the backup being told.
    RestampsAlone,
    /// It is, but not for what was applied before.
    LeavesBaseOfIgnored,
    /// Blocks that are not written are freed when the slot has moved.
    FreesHandedImages,
    /// The database takes the last write that comes, whatever its stamp.
    LastWriteToLand,
}

#[cfg(any(test, feature = "model"))]
thread_local! {
    static TAKEN: std::cell::Cell<Option<Shortcut>> = const { std::cell::Cell::new(None) };
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

/// Whether this thread takes the shortcut.
#[must_use]
#[cfg(any(test, feature = "model"))]
pub fn takes(shortcut: Shortcut) -> bool {
    TAKEN.with(|taken| taken.get() == Some(shortcut))
}

/// No shortcut is ever taken outside tests.
#[cfg(not(any(test, feature = "model")))]
#[must_use]
pub const fn takes(_shortcut: Shortcut) -> bool {
    false
}

/// Lets this thread take a shortcut, or none.
#[cfg(any(test, feature = "model"))]
pub(crate) fn take(shortcut: Option<Shortcut>) {
    TAKEN.with(|taken| taken.set(shortcut));
}
