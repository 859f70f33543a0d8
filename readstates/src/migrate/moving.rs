//! A move between two stores that are open: its passes, its checkpoint, and when it is done.

use std::{convert::Infallible, num::NonZeroU32, path::PathBuf, time::Duration};

use jiff::Timestamp;
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

use super::{
    MigrateError,
    checkpoint::{CheckpointFile, Content, PassDone, PassState},
    compare::Strictness,
    end::End,
    pace::Pace,
    pass::{self, How, Pass},
    progress::Progress,
    track::{Track, Work},
    watch::{Shown, Watch},
};

/// What a person asked for.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) checkpoint: PathBuf,
    pub(super) merge: bool,
    pub(super) rate: Option<NonZeroU32>,
    pub(super) back_off_at: f64,
    pub(super) parallel: usize,
    pub(super) patience: Duration,
    /// Between two writes of the checkpoint.
    pub(super) save_every: Duration,
    /// From the first to the second look at a user of whom the stores differ.
    pub(super) look_after: Duration,
}

pub(super) struct Move {
    source: End,
    target: End,
    wish: Wish,
    pace: Pace,
    /// `None`: nothing is recorded.
    file: Option<CheckpointFile>,
    content: Content,
    /// The passes of this run.
    pub(super) done: Vec<PassDone>,
    shown: Shown,
    /// The port where that is told; none: nowhere.
    watch: Option<Watch>,
}

impl Move {
    /// Refuses what must not be moved. Nothing is written; `records`: how far the work is will be.
    pub(super) async fn begin(
        source: End,
        target: End,
        wish: Wish,
        records: bool,
    ) -> Result<Self, MigrateError> {
        if source.name.id == target.name.id {
            return Err(MigrateError::Same(target.name.name));
        }
        let (file, found) = match records {
            true => {
                let (file, found) = CheckpointFile::open(&wish.checkpoint)?;
                (Some(file), found)
            }
            false => (None, CheckpointFile::peek(&wish.checkpoint)?),
        };
        let content = match found {
            Some(content) => {
                content.is_of(&wish.checkpoint, &source.name, &target.name)?;
                content
            }
            None => {
                if !wish.merge {
                    only_of_source(&source, &target, &wish).await?;
                }
                Content::new(source.name.clone(), target.name.clone())
            }
        };
        let governed = source.store.kind() == StoreKind::Cql;
        let pace = Pace::new(wish.rate, governed);
        Ok(Self {
            source,
            target,
            wish,
            pace,
            file,
            content,
            done: Vec::new(),
            shown: Shown::default(),
            watch: None,
        })
    }

    /// The same, showing there how far it is.
    pub(super) fn shown_by(self, shown: Shown, watch: Option<Watch>) -> Self {
        Self {
            shown,
            watch,
            ..self
        }
    }

    pub(super) fn names(&self) -> (&str, &str) {
        (&self.source.name.name, &self.target.name.name)
    }

    /// Makes passes until a whole one had to copy at most `until` users. A pass that an earlier process has begun is
    /// brought to its end first, and does not count: what it compared then may have changed since.
    pub(super) async fn copy(&mut self, until: u64, passes: u32) -> Result<(), MigrateError> {
        if let Some(begun) = self.content.copying.take() {
            self.pass(Work::Copy, Some(begun), false).await?;
        }
        let mut made = 0;
        loop {
            let copied = self.pass(Work::Copy, None, false).await?.tally.lacked();
            made += 1;
            if copied <= until {
                return self.result(false);
            }
            if made == passes {
                return Err(MigrateError::Behind {
                    passes,
                    copied,
                    until,
                });
            }
        }
    }

    /// Says what a copy would do.
    pub(super) async fn dry_run(&mut self) -> Result<(), MigrateError> {
        self.pass(Work::Copy, None, true).await?;
        self.result(false)
    }

    pub(super) async fn verify(&mut self, resume: bool) -> Result<(), MigrateError> {
        let begun = self.content.verifying.take().filter(|_| resume);
        self.pass(Work::Verify, begun, false).await?;
        self.result(true)
    }

    async fn pass(
        &mut self,
        work: Work,
        begun: Option<PassState>,
        dry_run: bool,
    ) -> Result<&PassDone, MigrateError> {
        let ranges = pass::ranges(&self.source, &self.target, work);
        let begun = begun.filter(|state| state.ranges.len() == ranges);
        let resumes = begun.is_some();
        let state = begun.unwrap_or_else(|| PassState::new(ranges));
        let what = match (work, dry_run) {
            (Work::Copy, false) => format!("pass {}", self.copies() + 1),
            (Work::Copy, true) => "dry run".to_owned(),
            (Work::Verify, _) => "verification".to_owned(),
        };
        if resumes {
            let done = state.tally.users;
            println!(
                "{what}: goes on after {done} users; begun {:.0}",
                state.begun
            );
        }
        // Without a port nobody looks.
        let shown = self.watch.as_ref().map(|_| Shown::clone(&self.shown));
        let progress = Progress::start(what.clone(), work, state.tally.users, shown);
        let (file, scan) = (self.file.as_ref(), &*self.source.scan);
        let save_every = self.wish.save_every;
        let content = self.content.clone();
        let track = Track::new(work, content, state, file, &progress, scan, save_every);
        let how = How {
            work,
            dry_run,
            parallel: self.wish.parallel,
            patience: self.wish.patience,
            look_after: self.wish.look_after,
        };
        let pass = Pass::new((&self.source, &self.target), &self.pace, &track, how);
        // Dropping the pass on an error of its own, and the pace at the end: neither has anything to undo.
        let ran = tokio::select! {
            ran = pass.run() => ran,
            never = self.follow_source() => match never {},
        };
        let PassState { begun, tally, .. } = track.into_pass();
        drop(progress);
        ran?;
        let done = PassDone {
            verifying: work == Work::Verify,
            begun,
            ended: Timestamp::now(),
            tally,
        };
        println!("{what}: {}", done.tally);
        if !dry_run {
            self.record(work, done.clone())?;
        }
        self.done.push(done);
        Ok(&self.done[self.done.len() - 1])
    }

    /// Sets the pace by how a database answers that others read, too; for ever.
    async fn follow_source(&self) -> Infallible {
        let Wish {
            rate, back_off_at, ..
        } = self.wish;
        if self.source.store.kind() != StoreKind::Cql {
            return std::future::pending().await;
        }
        let source = &*self.source.store;
        self.pace.govern(source, rate, back_off_at).await
    }

    /// Records that a pass is over.
    fn record(&mut self, work: Work, done: PassDone) -> Result<(), MigrateError> {
        match work {
            Work::Copy => self.content.copying = None,
            Work::Verify => self.content.verifying = None,
        }
        self.content.passes.push(done);
        match &self.file {
            Some(file) => file.put(&self.content),
            None => Ok(()),
        }
    }

    fn copies(&self) -> usize {
        let of_copies = self.content.passes.iter().filter(|pass| !pass.verifying);
        of_copies.count()
    }

    /// The outcome of the last pass.
    fn result(&self, verified: bool) -> Result<(), MigrateError> {
        let Some(last) = self.done.last() else {
            return Ok(());
        };
        let strictness = Strictness {
            lacks_nothing: verified,
            has_nothing_else: !self.wish.merge,
        };
        match last.tally.problems(strictness) {
            0 => Ok(()),
            problems => Err(MigrateError::Differs {
                problems,
                first: last.tally.first.clone(),
            }),
        }
    }

    /// The highest stamp that was seen in the source.
    pub(super) fn highest(&self) -> Option<Stamp> {
        let highest = self.done.iter().filter_map(|pass| pass.tally.highest_stamp);
        highest.max().map(Stamp::from_database)
    }
}

/// Refuses a target that has rows of others.
async fn only_of_source(source: &End, target: &End, wish: &Wish) -> Result<(), MigrateError> {
    let found = pass::others(source, target, wish.look_after).await;
    let found = found.map_err(|error| MigrateError::Store {
        attempt: "look what is in the target".into(),
        tried_seconds: 0,
        source: error,
    })?;
    match found {
        None => Ok(()),
        Some(example) => Err(MigrateError::NotEmpty {
            example,
            checkpoint: wish.checkpoint.clone(),
        }),
    }
}
