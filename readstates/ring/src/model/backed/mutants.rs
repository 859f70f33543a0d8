//! What an owner or a backup might do instead, and the search that shows what comes of it.

use super::{BackedWorld, Limits};
use crate::{
    model::{Found, search},
    mutant::{self, Rule, Shortcut},
};

/// A protocol with one fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// In a few letters.
    pub name: &'static str,
    /// What is done instead.
    pub does: &'static str,
    /// The world that shows it.
    pub limits: Limits,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Takes(Shortcut),
    Drops(Rule),
}

impl Mutant {
    /// Lets this thread work so while `run` runs.
    pub fn with<T>(self, run: impl FnOnce() -> T) -> T {
        match self.fault {
            Fault::Takes(shortcut) => mutant::take(Some(shortcut)),
            Fault::Drops(rule) => mutant::drop_rule(Some(rule)),
        }
        let result = run();
        mutant::take(None);
        mutant::drop_rule(None);
        result
    }

    /// Searches its world for what comes of it, up to this many states. What happens before is done right.
    #[must_use]
    pub fn search(self, most: usize) -> Found {
        let start = BackedWorld::new(self.limits);
        self.with(|| search(&start, most, |_, _| {}))
    }
}

const fn mutant(
    name: &'static str,
    does: &'static str,
    shortcut: Shortcut,
    limits: Limits,
) -> Mutant {
    Mutant {
        name,
        does,
        limits,
        fault: Fault::Takes(shortcut),
    }
}

/// All of them.
pub const MUTANTS: [Mutant; 27] = [
    mutant(
        "change without ticket",
        "says that a change was applied, now or before, while it is on its way to the backup",
        Shortcut::ChangeWithoutTicket,
        Limits::PROMOTION,
    ),
    mutant(
        "read without ticket",
        "shows what the backup does not have",
        Shortcut::ReadWithoutTicket,
        Limits::PROMOTION,
    ),
    mutant(
        "change without permission",
        "says that a change was applied, now or before, when the backup that has it may have been promoted",
        Shortcut::ChangeWithoutPermission,
        Limits::PROMOTION,
    ),
    mutant(
        "read without permission",
        "reads when the backup may have been promoted",
        Shortcut::ReadWithoutPermission,
        Limits::PROMOTION,
    ),
    mutant(
        "no lease",
        "does not look at the lease",
        Shortcut::NoLease,
        Limits::LAPSES,
    ),
    mutant(
        "permission from receipt",
        "counts the permission from when the acknowledgement came",
        Shortcut::PermissionFromReceipt,
        Limits::BEATS,
    ),
    mutant(
        "drops alone",
        "answers without a backup that refuses, before the ring says that it is out",
        Shortcut::DropsAlone,
        Limits::PROMOTION,
    ),
    mutant(
        "new backup not asked",
        "answers with the old backup's word while the ring may name another",
        Shortcut::NewBackupNotAsked,
        Limits::SEEDING,
    ),
    mutant(
        "named too early",
        "asks the ring to name a backup that lacks something",
        Shortcut::NamedTooEarly,
        Limits::SEEDING,
    ),
    mutant(
        "seeds unreplayed",
        "names a backup before its own journal is in the database",
        Shortcut::SeedsUnreplayed,
        Limits::PROMOTED_TWICE,
    ),
    mutant(
        "moves unreplayed",
        "hands the slot on before its own journal is in the database",
        Shortcut::MovesUnreplayed,
        Limits::PROMOTED_AND_MOVED,
    ),
    mutant(
        "accepts until promoted",
        "accepts frames until it knows that it was promoted, and answers at once",
        Shortcut::AcceptsUntilPromoted,
        Limits::BEATS,
    ),
    mutant(
        "answers at once",
        "answers as soon as it knows that it was promoted",
        Shortcut::AnswersAtOnce,
        Limits::DEPOSED,
    ),
    mutant(
        "accepts after promotion",
        "accepts frames of the owner before when it is the owner",
        Shortcut::AcceptsAfterPromotion,
        Limits::BEATS,
    ),
    mutant(
        "trims after promise",
        "takes in what the owner before has written, when it has read the database already",
        Shortcut::TrimsAfterPromise,
        Limits::WRITES,
    ),
    mutant(
        "accepts gaps",
        "accepts a frame though one before it has not come",
        Shortcut::AcceptsGaps,
        Limits {
            operations: 2,
            ..Limits::PROMOTION
        },
    ),
    mutant(
        "promotes incomplete",
        "is promoted by its name, after a restart",
        Shortcut::PromotesIncomplete,
        Limits::CRASH,
    ),
    mutant(
        "takes from living backup",
        "takes a slot from a dead owner whose backup lives",
        Shortcut::TakesFromLivingBackup,
        Limits::CRASH,
    ),
    mutant(
        "trims when sent",
        "has the backup trimmed when a write is sent",
        Shortcut::TrimsWhenSent,
        Limits::WRITES,
    ),
    mutant(
        "compares without epoch",
        "compares versions without their epochs",
        Shortcut::ComparesWithoutEpoch,
        Limits::WRITES,
    ),
    mutant(
        "replays all",
        "applies records that the database has",
        Shortcut::ReplaysAll,
        Limits::MORE_WRITES,
    ),
    mutant(
        "leaves base",
        "sends changes of a block that a write of another owner may still replace",
        Shortcut::LeavesBase,
        Limits::LATE_WRITE,
    ),
    mutant(
        "restamps alone",
        "makes such a block its own, and does not send it to the backup",
        Shortcut::RestampsAlone,
        Limits::LATE_WRITES,
    ),
    mutant(
        "leaves base of ignored",
        "leaves such a block as it is when nothing is to be applied",
        Shortcut::LeavesBaseOfIgnored,
        Limits::LATE_WRITES,
    ),
    mutant(
        "frees handed images",
        "frees what the database lacks when the slot has moved",
        Shortcut::FreesHandedImages,
        Limits::MOVE,
    ),
    mutant(
        "last write to land",
        "has a database that keeps what comes last",
        Shortcut::LastWriteToLand,
        Limits::WRITES_ALONE,
    ),
    Mutant {
        name: "counts on",
        does: "counts versions on over epochs",
        limits: Limits::CRASH_ALONE,
        fault: Fault::Drops(Rule::R7),
    },
];

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn every_shortcut_has_a_mutant() {
        for shortcut in Shortcut::VARIANTS {
            let fault = Fault::Takes(*shortcut);
            let has_mutant = MUTANTS.iter().any(|mutant| mutant.fault == fault);
            assert!(has_mutant, "{shortcut:?} has none");
        }
    }
}
