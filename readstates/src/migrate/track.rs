//! How far a pass is: in memory, now and then in the file, and on the screen.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    MigrateError,
    checkpoint::{CheckpointFile, Content, PassState, Reached},
    compare::Tally,
    progress::{Progress, View},
};
use crate::store::Scan;

/// Which of the passes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Copy,
    Verify,
}

/// A pass and its file.
pub(super) struct Track<'a> {
    work: Work,
    state: Mutex<TrackState>,
    /// Held while the file is written, so that an older state does not replace a newer one.
    writing: tokio::sync::Mutex<()>,
    file: Option<&'a CheckpointFile>,
    progress: &'a Progress,
    /// The store whose ranges are worked on first.
    scan: &'a dyn Scan,
    save_every: Duration,
}

struct TrackState {
    content: Content,
    pass: PassState,
    saved: Instant,
}

impl<'a> Track<'a> {
    /// Of a pass, on a file that has this content otherwise.
    pub(super) fn new(
        work: Work,
        content: Content,
        pass: PassState,
        file: Option<&'a CheckpointFile>,
        progress: &'a Progress,
        scan: &'a dyn Scan,
        save_every: Duration,
    ) -> Self {
        Self {
            work,
            state: Mutex::new(TrackState {
                content,
                pass,
                saved: Instant::now(),
            }),
            writing: tokio::sync::Mutex::new(()),
            file,
            progress,
            scan,
            save_every,
        }
    }

    /// How far a range is.
    pub(super) fn reached(&self, range: usize) -> Reached {
        self.state.lock().pass.ranges[range]
    }

    /// Everything in a range up to there is done.
    pub(super) async fn advance(
        &self,
        range: usize,
        reached: Reached,
        tally: Tally,
    ) -> Result<(), MigrateError> {
        let due = {
            let mut state = self.state.lock();
            state.pass.ranges[range] = reached;
            state.pass.tally.merge(tally);
            self.progress.show(|| view(&state.pass, self.scan));
            state.saved.elapsed() >= self.save_every
        };
        if due { self.save().await } else { Ok(()) }
    }

    pub(super) async fn save(&self) -> Result<(), MigrateError> {
        let Some(file) = self.file else { return Ok(()) };
        let _writing = self.writing.lock().await;
        let content = {
            let mut state = self.state.lock();
            state.saved = Instant::now();
            let mut content = state.content.clone();
            let pass = Some(state.pass.clone());
            match self.work {
                Work::Copy => content.copying = pass,
                Work::Verify => content.verifying = pass,
            }
            content
        };
        // Some kilobytes every two seconds: not worth a thread.
        file.put(&content)
    }

    /// The pass as it is.
    pub(super) fn into_pass(self) -> PassState {
        self.state.into_inner().pass
    }
}

fn view(pass: &PassState, scan: &dyn Scan) -> View {
    let share = |(range, reached): (usize, &Reached)| match reached {
        Reached::Begin => Some(0.0),
        // The ranges of the other store come after these.
        Reached::After(user) if range < scan.ranges() => scan.share(range, *user),
        Reached::After(_) => Some(0.0),
        Reached::End => Some(1.0),
    };
    let shares: Option<f64> = pass.ranges.iter().enumerate().map(share).sum();
    View {
        share: shares.map(|done| done / pass.ranges.len().max(1) as f64),
        users: pass.tally.users,
        lacked: pass.tally.lacked(),
    }
}
