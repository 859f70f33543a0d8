//! One pass over all rows of the source: compares them with the target's, and writes what the target lacks.
//!
//! ```text
//! range ─▶ page of the source ─▶ beside it the target's rows ─▶ judge ─┬▶ lacking: write, under the row's own stamp
//!                                                                      └▶ unexpected: look at both again
//! ```
//! A range is recorded as done up to a user only once the rows up to there are written. So a kill at any point costs
//! that rows are compared again, and nothing else. A write whose outcome is unknown may arrive at any later time: it
//! has the stamp of the row that it copies, so whatever is newer stays.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, future::ready, stream};
use tokio::time::{Instant, sleep};

use super::{
    MigrateError,
    beside::{Beside, Pair, in_order, pages},
    checkpoint::Reached,
    compare::{Found, Tally, is_too_far_ahead, judge},
    end::End,
    pace::Pace,
    track::{Track, Work},
};
use crate::{
    clock::UnixClock,
    store::{Row, StoreError, Stored, chain},
};

/// Rows of a page that are written at once. The embedded store commits 256 writes together.
const WRITES: usize = 64;
/// Users that are looked at again at once.
const LOOKS: usize = 16;
/// Users that may turn out to differ in one pass, before others are counted as they were first seen.
const MOST_LOOKED_AT: i64 = 200;
/// Looks at one user, with a longer pause after each: a write takes up to five seconds.
const LOOKS_AT_ONE: u32 = 6;
/// Between two attempts at a range.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(15);

/// What a pass does, and between whom.
pub(super) struct Pass<'a> {
    pub(super) source: &'a End,
    pub(super) target: &'a End,
    pub(super) pace: &'a Pace,
    pub(super) track: &'a Track<'a>,
    pub(super) how: How,
    pub(super) clock: UnixClock,
    looks_left: AtomicI64,
}

/// Why a range was not worked through.
enum Stopped {
    /// It may be tried again.
    Store(StoreError),
    /// It may not.
    Final(MigrateError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<MigrateError> for Stopped {
    fn from(error: MigrateError) -> Self {
        Self::Final(error)
    }
}

/// How a pass is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) work: Work,
    /// Copies are only counted.
    pub(super) dry_run: bool,
    /// Ranges at once.
    pub(super) parallel: usize,
    /// How long a range is tried while nothing succeeds.
    pub(super) patience: Duration,
    /// From the first to the second look at a user; longer each time.
    pub(super) look_after: Duration,
}

impl How {
    fn writes(self) -> bool {
        self.work == Work::Copy && !self.dry_run
    }
}

/// How many ranges a pass has: those of the source; in a verification of stores of different kinds also those of the
/// target, since rows that only the target has cannot be seen from the source.
pub(super) fn ranges(source: &End, target: &End, work: Work) -> usize {
    let of_target = match work {
        Work::Verify if !source.is_alike(target) => target.scan.ranges(),
        Work::Verify | Work::Copy => 0,
    };
    source.scan.ranges() + of_target
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        (source, target): (&'a End, &'a End),
        pace: &'a Pace,
        track: &'a Track<'a>,
        how: How,
    ) -> Self {
        Self {
            source,
            target,
            pace,
            track,
            how,
            clock: UnixClock::System,
            looks_left: AtomicI64::new(MOST_LOOKED_AT),
        }
    }

    /// Works through all ranges.
    pub(super) async fn run(&self) -> Result<(), MigrateError> {
        // Before the first write: from then on the target is known to be this move's.
        self.track.save().await?;
        let ranges = ranges(self.source, self.target, self.how.work);
        let done = stream::iter(0..ranges)
            .map(|range| self.range(range))
            .buffer_unordered(self.how.parallel)
            .try_collect::<()>()
            .await;
        // Also after an error: what was done need not be done again.
        let saved = self.track.save().await;
        done.and(saved)
    }

    /// Works through a range, again and again while the stores fail.
    async fn range(&self, range: usize) -> Result<(), MigrateError> {
        let mut failing: Option<(Instant, Reached)> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.try_range(range).await {
                Ok(()) => return Ok(()),
                Err(Stopped::Final(error)) => return Err(error),
                Err(Stopped::Store(error)) => error,
            };
            let (now, reached) = (Instant::now(), self.track.reached(range));
            // Something was done since the last failure: that one is over.
            if failing.is_some_and(|(_, before)| before != reached) {
                failing = None;
                pause = FIRST_PAUSE;
            }
            let (since, _) = *failing.get_or_insert((now, reached));
            let tried = now - since;
            if tried + pause > self.how.patience {
                return Err(MigrateError::Store {
                    attempt: format!("work through range {range}"),
                    tried_seconds: tried.as_secs(),
                    source: error,
                });
            }
            tracing::warn!(range, retry_in = ?pause, "tried again: {}", chain(&error));
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn try_range(&self, range: usize) -> Result<(), Stopped> {
        let of_source = self.source.scan.ranges();
        let after = match self.track.reached(range) {
            Reached::Begin => None,
            Reached::After(user) => Some(user),
            Reached::End => return Ok(()),
        };
        match range.checked_sub(of_source) {
            None => self.forward(range, after).await,
            Some(of_target) => self.backward(range, of_target, after).await,
        }
    }

    /// Reads the source, and looks what the target has.
    async fn forward(&self, range: usize, after: Option<u64>) -> Result<(), Stopped> {
        let (source, mut last) = (&*self.source.scan, None);
        let mut theirs = Beside::open(self.source, self.target, range, after);
        let mut rows = pages(source, range, after);
        while let Some(page) = rows.try_next().await? {
            in_order(source, &mut last, &page)?;
            let Some(end) = page.last().map(|row| row.user) else {
                continue;
            };
            self.pace.admit(page.len(), end).await;
            let (pairs, alone) = theirs.pair(page).await?;
            let mut tally = self.settle(pairs).await?;
            self.count_alone(alone, &mut tally).await?;
            let reached = Reached::After(end);
            self.track.advance(range, reached, tally).await?;
        }
        let mut tally = Tally::default();
        loop {
            let alone = theirs.rest().await?;
            if alone.is_empty() {
                break;
            }
            self.count_alone(alone, &mut tally).await?;
        }
        self.track.advance(range, Reached::End, tally).await?;
        Ok(())
    }

    /// Reads the target, and looks whether the source has its rows, too.
    async fn backward(
        &self,
        range: usize,
        of_target: usize,
        after: Option<u64>,
    ) -> Result<(), Stopped> {
        let (target, mut last) = (&*self.target.scan, None);
        let mut rows = pages(target, of_target, after);
        while let Some(page) = rows.try_next().await? {
            in_order(target, &mut last, &page)?;
            let Some(end) = page.last().map(|row| row.user) else {
                continue;
            };
            let mut tally = Tally::default();
            let (pairs, _) = Beside::LookedUp(&*self.source.store).pair(page).await?;
            let alone = pairs
                .into_iter()
                .filter_map(|(row, of_source)| of_source.is_none().then_some(row.user));
            self.count_alone(alone.collect(), &mut tally).await?;
            let reached = Reached::After(end);
            self.track.advance(range, reached, tally).await?;
        }
        let nothing = Tally::default();
        self.track.advance(range, Reached::End, nothing).await?;
        Ok(())
    }

    /// Judges rows, writes those that the target lacks, and counts them.
    async fn settle(&self, pairs: Vec<Pair>) -> Result<Tally, StoreError> {
        let mut tally = Tally::default();
        let now = self.clock.micros();
        let (mut copies, mut doubtful) = (Vec::new(), Vec::new());
        for (row, of_target) in pairs {
            let found = judge(&row.stored, of_target.as_ref());
            let expected = match found {
                Found::Same => true,
                // In a verification members may have been writing both.
                Found::Missing | Found::Older => self.how.work == Work::Copy,
                Found::Newer | Found::Conflict { .. } => false,
            };
            if found.is_copied() && is_too_far_ahead(row.stored.stamp, now) {
                tally.users += 1;
                tally.count_too_far_ahead(row.user, row.stored.stamp);
            } else if expected {
                tally.count(row.user, &row.stored, found);
                if self.how.writes() && found.is_copied() {
                    copies.push(row);
                }
            } else {
                doubtful.push((row, found));
            }
        }
        for (row, found) in self.look_again(doubtful).await? {
            tally.count(row.user, &row.stored, found);
            if self.how.writes() && found.is_copied() {
                copies.push(row);
            } else {
                tally.tell_lack(row.user, found);
            }
        }
        self.write(copies).await?;
        Ok(tally)
    }

    async fn write(&self, rows: Vec<Row>) -> Result<(), StoreError> {
        stream::iter(rows)
            .map(|Row { user, stored }| {
                let Stored { bytes, stamp } = stored;
                self.target.store.save(user, bytes, stamp)
            })
            .buffer_unordered(WRITES)
            .try_collect()
            .await
    }

    /// Rows that are not as expected may have been written between the two reads, or while the target was read: members
    /// may be writing both stores. What stays so is no coincidence.
    async fn look_again(&self, rows: Vec<(Row, Found)>) -> Result<Vec<(Row, Found)>, StoreError> {
        stream::iter(rows)
            .map(|(row, found)| async move {
                let (stored, found) = self.look_at(row.user, Some(row.stored), found).await?;
                // A row does not vanish; if a person has deleted it, it counts as it was.
                Ok(stored.map(|stored| {
                    let user = row.user;
                    (Row { user, stored }, found)
                }))
            })
            .buffered(LOOKS)
            .try_filter_map(|looked| async move { Ok(looked) })
            .try_collect()
            .await
    }

    /// Looks at a user until both stores have the same, or for some seconds; what both had at last.
    async fn look_at(
        &self,
        user: u64,
        mut stored: Option<Stored>,
        mut found: Found,
    ) -> Result<(Option<Stored>, Found), StoreError> {
        let mut pause = self.how.look_after;
        for look in 0..LOOKS_AT_ONE {
            if look > 0 {
                sleep(pause).await;
                pause *= 2;
            }
            if self.gives_up(look) {
                break;
            }
            // The source first: what is written to both meanwhile is in the target then, too.
            if let Some(of_source) = self.source.store.load(user).await? {
                let of_target = self.target.store.load(user).await?;
                found = judge(&of_source, of_target.as_ref());
                stored = Some(of_source);
                if found == Found::Same {
                    break;
                }
            }
        }
        Ok((stored, found))
    }

    /// Whether it is known well enough by now that the stores differ. Most users whose rows were written meanwhile are
    /// the same at the first look; the others take their part of what may be looked at again.
    fn gives_up(&self, look: u32) -> bool {
        match look {
            0 => self.looks_left.load(Ordering::Relaxed) <= 0,
            1 => self.looks_left.fetch_sub(1, Ordering::Relaxed) <= 0,
            _ => false,
        }
    }

    /// Counts users whom only the target has, also at a second look.
    async fn count_alone(&self, users: Vec<u64>, tally: &mut Tally) -> Result<(), StoreError> {
        let mut looked = stream::iter(users)
            .map(|user| async move {
                let (stored, _) = self.look_at(user, None, Found::Missing).await?;
                Ok::<_, StoreError>((user, stored))
            })
            .buffered(LOOKS);
        while let Some((user, stored)) = looked.try_next().await? {
            // One that the source has by now is met in the next pass.
            if stored.is_none() {
                tally.count_only_in_target(user);
            }
        }
        Ok(())
    }
}

/// An example of rows of the target that are not as the source has them, if there are any among the first.
pub(super) async fn others(
    source: &End,
    target: &End,
    look_after: Duration,
) -> Result<Option<String>, StoreError> {
    /// Rows that stand for all.
    const SAMPLE: usize = 1000;
    /// Ranges at once.
    const RANGES: usize = 8;
    let has_rows = |page: &Vec<Row>| ready(!page.is_empty());
    let mut pages = stream::iter(0..target.scan.ranges())
        .map(|range| target.scan.scan(range).try_filter(has_rows).take(1))
        .flatten_unordered(RANGES);
    let mut seen = 0;
    while seen < SAMPLE
        && let Some(page) = pages.try_next().await?
    {
        seen += page.len();
        let (pairs, _) = Beside::LookedUp(&*source.store).pair(page).await?;
        for (row, of_source) in pairs {
            if of_source.as_ref() == Some(&row.stored)
                || is_in_both((source, target), row.user, look_after).await?
            {
                continue;
            }
            let (user, stamp) = (row.user, row.stored.stamp);
            let has = of_source.map_or_else(
                || "no row".to_owned(),
                |stored| format!("a write of stamp {}", stored.stamp),
            );
            return Ok(Some(format!(
                "of user {user} the target has a write of stamp {stamp}, and the source has {has}"
            )));
        }
    }
    Ok(None)
}

/// Whether both have the same of a user after a moment: members may write both.
async fn is_in_both(
    (source, target): (&End, &End),
    user: u64,
    look_after: Duration,
) -> Result<bool, StoreError> {
    let mut pause = look_after;
    for _ in 0..LOOKS_AT_ONE {
        let of_source = source.store.load(user).await?;
        if of_source.is_some() && of_source == target.store.load(user).await? {
            return Ok(true);
        }
        sleep(pause).await;
        pause *= 2;
    }
    Ok(false)
}
