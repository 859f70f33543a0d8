//! Marks of processes at work: a backup that is made and a pruning keep out of each other's way.
//!
//! A backup does not store a chunk that is there already; a pruning deletes chunks that no manifest names. So one must
//! not begin while the other is at work. Each writes its mark first and looks for the other's then: of two that begin
//! at once, at least one sees the other and gives up. A mark is written again every minute. Ages are by the clock of
//! the place alone; after an hour without a sign a mark does not count any more, and a process that was suspended for
//! half as long gives up by itself, as does one whose mark is gone: the clocks of a machine that was suspended may not
//! tell it that it was.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::Mutex, time::Instant};

use super::{BackupError, BackupId, Repository, repository::Listed};

const RUNNING: &str = "running";
const RENEW_EVERY: Duration = Duration::from_secs(60);
/// Without a sign for so long, a process is dead.
const DEAD_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// A process that has given no sign for so long may be taken for dead soon.
const LOST_AFTER: Duration = Duration::from_mins(30);

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Create,
    Prune,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Prune => "prune",
        }
    }
}

/// The mark of this process.
#[derive(Debug)]
pub(super) struct Marker<'a> {
    repository: &'a Repository,
    name: String,
    renewed: Mutex<Instant>,
    /// When it was written first, by the clock of the place.
    pub(super) begun: Timestamp,
}

impl<'a> Marker<'a> {
    /// Writes the mark, unless another process does the other work.
    pub(super) async fn begin(
        repository: &'a Repository,
        work: Work,
        id: &BackupId,
    ) -> Result<Self, BackupError> {
        let name = format!("{RUNNING}/{}-{id}", work.name());
        let renewed = Mutex::new(Instant::now());
        repository.put(&name, Vec::new()).await?;
        // It was written just now.
        let begun = repository
            .written(&name)
            .await?
            .ok_or(BackupError::Suspended)?;
        let marker = Self {
            repository,
            name,
            renewed,
            begun,
        };
        let others = repository.list(RUNNING).await?;
        let (busy, dead) = judge(work, begun, &others);
        if let Some(busy) = busy {
            let busy = busy.name.clone();
            marker.end().await?;
            return Err(BackupError::Busy { marker: busy });
        }
        for dead in dead {
            repository.delete(&dead.name).await?;
        }
        Ok(marker)
    }

    /// Writes the mark again when it is time to.
    pub(super) async fn renew(&self) -> Result<(), BackupError> {
        self.renew_after(RENEW_EVERY).await
    }

    /// Renews the mark. When it returns, no other process took this one for dead since it began.
    pub(super) async fn confirm(&self) -> Result<(), BackupError> {
        self.renew_after(Duration::ZERO).await
    }

    async fn renew_after(&self, least: Duration) -> Result<(), BackupError> {
        let mut renewed = self.renewed.lock().await;
        let silent = renewed.elapsed();
        if silent > LOST_AFTER {
            return Err(BackupError::Suspended);
        }
        if silent >= least {
            let now = Instant::now();
            // A process that takes this one for dead deletes its mark first. A renewal must not bring it back.
            if self.repository.written(&self.name).await?.is_none() {
                return Err(BackupError::Suspended);
            }
            self.repository.put(&self.name, Vec::new()).await?;
            *renewed = now;
        }
        Ok(())
    }

    pub(super) async fn end(self) -> Result<(), BackupError> {
        self.repository.delete(&self.name).await
    }
}

/// The mark that forbids this work, and those of the dead.
fn judge(work: Work, now: Timestamp, marks: &[Listed]) -> (Option<&Listed>, Vec<&Listed>) {
    let of = |mark: &Listed, work: Work| {
        let prefix = format!("{RUNNING}/{}-", work.name());
        mark.name.starts_with(&prefix)
    };
    let other = match work {
        Work::Create => Work::Prune,
        Work::Prune => Work::Create,
    };
    let is_dead = |mark: &Listed| now.duration_since(mark.written) > DEAD_AFTER;
    let busy = marks.iter().find(|mark| of(mark, other) && !is_dead(mark));
    (busy, marks.iter().filter(|mark| is_dead(mark)).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::{memory::InMemory, path::Path};

    use super::*;

    #[tokio::test]
    async fn a_process_whose_mark_is_gone_gives_up_whatever_its_clock_says() {
        let repository = Repository::on(Arc::new(InMemory::new()), Path::default(), None);
        let id = BackupId::new(Timestamp::now()).unwrap();
        let marker = Marker::begin(&repository, Work::Create, &id).await.unwrap();
        marker.confirm().await.unwrap();
        // As the next process does an hour later by the clock of the place.
        repository.delete(&marker.name).await.unwrap();
        let gone = marker.confirm().await.unwrap_err();
        assert!(matches!(gone, BackupError::Suspended), "{gone}");
        assert!(repository.list(RUNNING).await.unwrap().is_empty());
    }

    #[test]
    fn the_other_work_is_waited_for_until_its_process_is_dead() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mark = |name: &str, minute| Listed {
            name: format!("running/{name}-x"),
            size: 0,
            written: at(minute),
        };
        let marks = [mark("create", 90), mark("prune", 20)];
        let (busy, dead) = judge(Work::Prune, at(100), &marks);
        assert_eq!((busy, dead), (Some(&marks[0]), vec![&marks[1]]));
        assert_eq!(judge(Work::Create, at(100), &marks).0, None);
        assert_eq!(judge(Work::Create, at(79), &marks).0, Some(&marks[1]));
        let (busy, dead) = judge(Work::Prune, at(151), &marks);
        assert_eq!((busy, dead.len()), (None, 2));
    }
}
