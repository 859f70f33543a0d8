//! What two rows of one user are to each other, and what is counted of that. Pure.

use std::fmt;

use readstates_ring::{MOST_AHEAD_IN_NEED_MICROS, Stamp};
use serde::{Deserialize, Serialize};

use crate::{codec, store::Stored};

/// Differences that are told one by one.
const MOST_TOLD: usize = 20;

/// What the target has for a row of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Same,
    /// Nothing.
    Missing,
    Older,
    /// A newer write, which a copy would not replace.
    Newer,
    /// A write of the same stamp with other bytes, which members never make. A database keeps the greater bytes.
    Conflict {
        /// Whether those are the source's.
        source_is_kept: bool,
    },
}

/// Compares what two stores have of one user.
pub(super) fn judge(source: &Stored, target: Option<&Stored>) -> Found {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let Some(target) = target else {
        return Found::Missing;
    };
    match source.stamp.cmp(&target.stamp) {
        Greater => Found::Older,
        Less => Found::Newer,
        Equal if source.bytes == target.bytes => Found::Same,
        Equal => Found::Conflict {
            source_is_kept: source.bytes > target.bytes,
        },
    }
}

impl Found {
    /// Whether a write of the source's row would change the target.
    pub(super) fn is_copied(self) -> bool {
        match self {
            Self::Missing | Self::Older => true,
            Self::Conflict { source_is_kept } => source_is_kept,
            Self::Same | Self::Newer => false,
        }
    }
}

/// Whether a stamp is so far ahead of the clock that no member would serve the row, and ScyllaDB would refuse the write.
pub(super) fn is_too_far_ahead(stamp: Stamp, now_micros: i64) -> bool {
    stamp.as_database() > now_micros.saturating_add(MOST_AHEAD_IN_NEED_MICROS)
}

/// What a pass has seen so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Rows of the source.
    pub(super) users: u64,
    pub(super) bytes: u64,
    /// Rows that the target lacked.
    pub(super) missing: u64,
    /// Rows of which the target had an older write.
    pub(super) older: u64,
    /// Rows of which the target had a newer write.
    pub(super) newer: u64,
    /// Rows that only the target had.
    pub(super) only_in_target: u64,
    /// Rows of one stamp and different bytes.
    pub(super) conflicts: u64,
    /// Rows that were not copied, because their stamps are days ahead of the clock.
    pub(super) too_far_ahead: u64,
    /// Rows that this version cannot read. They are copied as they are.
    pub(super) unreadable: u64,
    /// The highest stamp in the source.
    pub(super) highest_stamp: Option<i64>,
    /// The first of the differences.
    pub(super) first: Vec<String>,
}

/// What counts as a difference, beside what the target lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strictness {
    /// The target lacks nothing, either.
    pub(super) lacks_nothing: bool,
    /// The target has nothing that the source has not.
    pub(super) has_nothing_else: bool,
}

impl Tally {
    /// Counts a row of the source, and what the target has for it.
    pub(super) fn count(&mut self, user: u64, source: &Stored, found: Found) {
        self.users += 1;
        self.bytes += source.bytes.len() as u64;
        self.highest_stamp = self.highest_stamp.max(Some(source.stamp.as_database()));
        let stamp = source.stamp;
        if codec::writer(&source.bytes).is_none() {
            self.unreadable += 1;
            self.tell(|| {
                format!("user {user}: the block is of another format; it is copied as it is")
            });
        }
        match found {
            Found::Same => {}
            Found::Missing => self.missing += 1,
            Found::Older => self.older += 1,
            Found::Newer => {
                self.newer += 1;
                self.tell(|| format!("user {user}: the target has a newer write than {stamp}"));
            }
            Found::Conflict { .. } => {
                self.conflicts += 1;
                self.tell(|| format!("user {user}: two blocks of one stamp, {stamp}"));
            }
        }
    }

    /// Tells what the target lacks; copies are too many to tell.
    pub(super) fn tell_lack(&mut self, user: u64, found: Found) {
        match found {
            Found::Missing => self.tell(|| format!("user {user}: the target has no row")),
            Found::Older => self.tell(|| format!("user {user}: the target has an older write")),
            Found::Same | Found::Newer | Found::Conflict { .. } => {}
        }
    }

    pub(super) fn count_too_far_ahead(&mut self, user: u64, stamp: Stamp) {
        self.too_far_ahead += 1;
        self.tell(|| {
            format!("user {user}: not copied, since its stamp {stamp} is more than two days ahead of the clock")
        });
    }

    pub(super) fn count_only_in_target(&mut self, user: u64) {
        self.only_in_target += 1;
        self.tell(|| format!("user {user}: only the target has a row"));
    }

    fn tell(&mut self, difference: impl FnOnce() -> String) {
        if self.first.len() < MOST_TOLD {
            self.first.push(difference());
        }
    }

    /// Rows that the target lacked, or of which it had an older write.
    pub(super) fn lacked(&self) -> u64 {
        self.missing + self.older
    }

    /// Rows that are not as they should be.
    pub(super) fn problems(&self, strictness: Strictness) -> u64 {
        let Strictness {
            lacks_nothing,
            has_nothing_else,
        } = strictness;
        let lacked = if lacks_nothing { self.lacked() } else { 0 };
        let others = if has_nothing_else {
            self.newer + self.only_in_target
        } else {
            0
        };
        self.conflicts + self.too_far_ahead + lacked + others
    }

    pub(super) fn merge(&mut self, other: Self) {
        let Self {
            users,
            bytes,
            missing,
            older,
            newer,
            only_in_target,
            conflicts,
            too_far_ahead,
            unreadable,
            highest_stamp,
            first,
        } = other;
        self.users += users;
        self.bytes += bytes;
        self.missing += missing;
        self.older += older;
        self.newer += newer;
        self.only_in_target += only_in_target;
        self.conflicts += conflicts;
        self.too_far_ahead += too_far_ahead;
        self.unreadable += unreadable;
        self.highest_stamp = self.highest_stamp.max(highest_stamp);
        let room = MOST_TOLD.saturating_sub(self.first.len());
        self.first.extend(first.into_iter().take(room));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            users,
            missing,
            older,
            newer,
            only_in_target,
            conflicts,
            too_far_ahead,
            unreadable,
            ..
        } = self;
        write!(
            f,
            "{users} users; in the target {missing} were missing and {older} older"
        )?;
        for (count, what) in [
            (newer, "newer"),
            (only_in_target, "of the target alone"),
            (conflicts, "with two blocks of one stamp"),
            (too_far_ahead, "not copied, with stamps days ahead"),
            (unreadable, "of another format"),
        ] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::{MemoryStore, Store};

    fn stored(stamp: i64, byte: u8) -> Stored {
        Stored {
            bytes: vec![byte],
            stamp: Stamp::from_database(stamp),
        }
    }

    proptest! {
        /// What is copied is exactly what a store would take.
        #[test]
        fn a_row_is_copied_when_the_store_would_take_it(
            source in (0_i64..3, 0_u8..3), target in proptest::option::of((0_i64..3, 0_u8..3))
        ) {
            let source = stored(source.0, source.1);
            let target = target.map(|(stamp, byte)| stored(stamp, byte));
            let found = judge(&source, target.as_ref());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let after = runtime.block_on(async {
                let store = MemoryStore::default();
                if let Some(Stored { bytes, stamp }) = target.clone() {
                    store.save(1, bytes, stamp).await.unwrap();
                }
                store.save(1, source.bytes.clone(), source.stamp).await.unwrap();
                store.load(1).await.unwrap()
            });
            prop_assert_eq!(found.is_copied(), after != target);
            prop_assert_eq!(found == Found::Same, target.as_ref() == Some(&source));
        }
    }

    #[test]
    fn what_the_target_has_besides_is_a_problem_only_where_it_should_have_nothing_else() {
        let mut tally = Tally::default();
        tally.count(1, &stored(5, 0), Found::Newer);
        tally.count(2, &stored(9, 0), Found::Older);
        tally.count_only_in_target(3);
        let problems = |lacks_nothing, has_nothing_else| {
            tally.problems(Strictness {
                lacks_nothing,
                has_nothing_else,
            })
        };
        assert_eq!(problems(false, false), 0);
        assert_eq!(problems(true, false), 1);
        assert_eq!(problems(false, true), 2);
        assert_eq!((tally.users, tally.highest_stamp), (2, Some(9)));
    }
}
