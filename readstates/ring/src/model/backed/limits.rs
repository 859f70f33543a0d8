//! Worlds to search: how much may happen in each. What a world leaves out lets the search go deeper.

/// What has happened before a search begins: searches that begin later see what is deeper. Frames that were sent before
/// have arrived or are lost, unless a start says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// The first pod owns the slot.
    Alone,
    /// The second is its backup.
    Backed,
    /// And the first operation was acknowledged.
    Changed,
    /// And the second pod was promoted. It has looked at nothing of its journal. Frames may still come.
    Promoted,
    /// A write with the first operation, which nobody acknowledged, is under way; the second pod was promoted, and has
    /// named the first its backup.
    LateWrite,
    /// The same write has landed. Another one, which lacks that operation, is under way: of the second pod, which was
    /// promoted and loaded the user before. The third pod was promoted then, and has named the first its backup.
    LateWrites,
}

/// How much may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// What has happened before.
    pub start: Start,
    /// Operations that clients send until they are acknowledged: 1 to 3.
    pub operations: u8,
    /// Changes of the ring.
    pub swaps: u8,
    /// Crashes.
    pub crashes: u8,
    /// Leases that run out.
    pub lapses: u8,
    /// Writes to the database.
    pub writes: u8,
    /// Moves that are begun.
    pub moves: u8,
    /// Backups that are seeded.
    pub seedings: u8,
    /// Clean blocks that are evicted.
    pub evictions: u8,
    /// Frames without entries.
    pub beats: u8,
    /// Promotions that an operator asks for, however well the owner is.
    pub deposals: u8,
}

impl Limits {
    /// More than any search needs.
    pub const PLENTY: Self = Self {
        start: Start::Backed,
        operations: 3,
        swaps: 9,
        crashes: 9,
        lapses: 9,
        writes: 9,
        moves: 9,
        seedings: 9,
        evictions: 9,
        beats: 9,
        deposals: 9,
    };
    /// An owner with a backup, which may be promoted; nothing else happens.
    pub const PROMOTION: Self = Self {
        start: Start::Backed,
        operations: 1,
        swaps: 1,
        crashes: 0,
        lapses: 0,
        writes: 0,
        moves: 0,
        seedings: 0,
        evictions: 0,
        beats: 0,
        deposals: 0,
    };
    /// And it writes.
    pub const WRITES: Self = Self {
        writes: 1,
        ..Self::PROMOTION
    };
    /// It writes what it had acknowledged before, and more.
    pub const MORE_WRITES: Self = Self {
        start: Start::Changed,
        operations: 2,
        writes: 1,
        ..Self::PROMOTION
    };
    /// And sends frames without entries.
    pub const BEATS: Self = Self {
        beats: 1,
        ..Self::PROMOTION
    };
    /// An operator has the backup promoted, however well the owner is.
    pub const DEPOSED: Self = Self {
        deposals: 1,
        ..Self::PROMOTION
    };
    /// One process crashes.
    pub const CRASH: Self = Self {
        crashes: 1,
        ..Self::PROMOTION
    };
    /// Two leases run out.
    pub const LAPSES: Self = Self {
        lapses: 2,
        ..Self::PROMOTION
    };
    /// An owner without a backup seeds one.
    pub const SEEDING: Self = Self {
        start: Start::Alone,
        swaps: 2,
        seedings: 1,
        ..Self::PROMOTION
    };
    /// A promoted owner seeds another backup, which is promoted.
    pub const PROMOTED_TWICE: Self = Self {
        start: Start::Promoted,
        swaps: 2,
        seedings: 1,
        ..Self::PROMOTION
    };
    /// A promoted owner moves the slot.
    pub const PROMOTED_AND_MOVED: Self = Self {
        start: Start::Promoted,
        moves: 1,
        ..Self::PROMOTION
    };
    /// The slot moves.
    pub const MOVE: Self = Self {
        start: Start::Changed,
        swaps: 2,
        moves: 1,
        ..Self::PROMOTION
    };
    /// A write of an owner before lands late.
    pub const LATE_WRITE: Self = Self {
        start: Start::LateWrite,
        operations: 2,
        ..Self::PROMOTION
    };
    /// Another one lands late, of an owner in between.
    pub const LATE_WRITES: Self = Self {
        start: Start::LateWrites,
        operations: 1,
        ..Self::PROMOTION
    };
    /// An owner without a backup crashes.
    pub const CRASH_ALONE: Self = Self {
        start: Start::Alone,
        operations: 2,
        crashes: 1,
        ..Self::PROMOTION
    };
    /// An owner without a backup writes, and loads what it has written.
    pub const WRITES_ALONE: Self = Self {
        start: Start::Alone,
        operations: 2,
        swaps: 0,
        writes: 2,
        evictions: 1,
        ..Self::PROMOTION
    };
    /// Everything may happen, a little.
    pub const WIDE: Self = Self {
        start: Start::Backed,
        operations: 2,
        swaps: 3,
        crashes: 1,
        lapses: 1,
        writes: 2,
        moves: 1,
        seedings: 1,
        evictions: 1,
        beats: 1,
        deposals: 0,
    };
    /// Everything may happen, more often: for walks.
    pub const LONG: Self = Self {
        start: Start::Backed,
        operations: 3,
        swaps: 7,
        crashes: 2,
        lapses: 1,
        writes: 5,
        moves: 2,
        seedings: 3,
        evictions: 2,
        beats: 3,
        deposals: 1,
    };
}
