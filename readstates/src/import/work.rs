//! The import itself: windows are sent one after the other, and the checkpoint follows.

use std::path::Path;

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    ImportError, Progression,
    bad::BadRows,
    checkpoint::{About, Checkpoint, ImportState},
    client,
    pace::Pace,
    report::Tally,
    send::Sender,
    source::Source,
    window::Window,
};
use crate::{backup::Progress, config::ImportArgs};

/// An import under way.
pub(super) struct Work {
    windows: mpsc::Receiver<Progression>,
    /// `None`: nothing is sent.
    sender: Option<Sender>,
    pace: Pace,
    bad_rows: BadRows,
    checkpoint: Option<Checkpoint>,
    pub(super) state: ImportState,
    /// Bad rows that there may be; `None`: any number for now.
    max_bad_rows: Option<u64>,
    /// Rows that there may be.
    limit: u64,
    progress: Progress,
}

impl Work {
    /// Looks at everything that can be wrong before anything is sent.
    pub(super) async fn prepare(args: &ImportArgs) -> Result<Self, ImportError> {
        let source = Source::of(args)?;
        bad_rows_file_is_another(args)?;
        let (from, to) = (args.from.to_string(), args.service.url.join(","));
        let rows = source.rows();
        let checkpoint = args.checkpoint.as_deref().filter(|_| !args.dry_run);
        let (checkpoint, before) = match checkpoint.map(Checkpoint::open).transpose()? {
            Some((checkpoint, before)) => (Some(checkpoint), before),
            None => (None, None),
        };
        if let (Some(file), Some(before)) = (&args.checkpoint, &before)
            && let Some(differs) = before.differs(&from, &rows, &to)
        {
            let file = file.clone();
            return Err(ImportError::OtherImport { file, differs });
        }
        let sender = match args.dry_run {
            true => None,
            false => Some(Sender::new(client(args)?, args.patience)),
        };
        let pace = Pace::new(args.rate.filter(|_| !args.dry_run), Instant::now());
        let window = pace.window(args.rows);
        let (windows, beginning) = source.start(before.as_ref(), window).await?;
        let about = About {
            from,
            rows,
            to,
            beginning,
        };
        let state = before.unwrap_or_else(|| ImportState::new(about));
        Ok(Self {
            windows,
            sender,
            pace,
            bad_rows: BadRows::open(args.bad_rows.as_deref(), state.bad_rows_bytes)?,
            checkpoint,
            state,
            max_bad_rows: (!args.dry_run).then_some(args.max_bad_rows),
            limit: args.limit.map_or(u64::MAX, |limit| limit.get()),
            progress: Progress::of("rows"),
        })
    }

    pub(super) async fn all(&mut self) -> Result<(), ImportError> {
        while self.state.tally.rows < self.limit {
            // What reads the source says when that ends; if it is gone without, it has failed.
            let read = self.windows.recv().await;
            let Some(window) = read.ok_or(ImportError::Reader)?? else {
                self.state.done = true;
                return self.save();
            };
            self.window(window).await?;
        }
        Ok(())
    }

    /// Ends what is shown of the work; returns how it stands.
    pub(super) fn finish(self) -> ImportState {
        self.state
    }

    async fn window(&mut self, window: Window) -> Result<(), ImportError> {
        let Window {
            mut rows,
            bad,
            bytes,
            position,
        } = window;
        let left = usize::try_from(self.limit - self.state.tally.rows).unwrap_or(usize::MAX);
        rows.truncate(left);
        let count = (rows.len() + bad.len()) as u64;
        // What is counted of a window that is not done is not in the checkpoint: it is read again.
        let mut tally = self.state.tally.clone();
        for row in &bad {
            tally.add_bad(row);
        }
        self.bad_rows.write(&bad)?;
        self.within(&tally)?;
        match &self.sender {
            None => tally.applied += rows.len() as u64,
            Some(sender) => {
                sleep_until(self.pace.turn(rows.len(), Instant::now())).await;
                let refused = sender.send(rows, &mut tally).await?;
                for row in &refused {
                    tally.add_bad(row);
                }
                self.bad_rows.write(&refused)?;
            }
        }
        tally.rows += count;
        self.state.tally = tally;
        self.state.position = Some(position);
        self.save()?;
        self.progress.add(count, bytes, None);
        // Rows that the service refuses are done with: the next run goes on after them.
        self.within(&self.state.tally)
    }

    fn within(&self, tally: &Tally) -> Result<(), ImportError> {
        self.max_bad_rows.map_or(Ok(()), |max| allowed(tally, max))
    }

    fn save(&mut self) -> Result<(), ImportError> {
        if let Some(checkpoint) = &self.checkpoint {
            self.state.bad_rows_bytes = self.bad_rows.keep()?;
            checkpoint.save(&self.state)?;
        }
        Ok(())
    }
}

/// Whether there are no more bad rows than may be.
pub(super) fn allowed(tally: &Tally, max: u64) -> Result<(), ImportError> {
    if tally.bad <= max {
        return Ok(());
    }
    Err(ImportError::BadRows {
        bad: tally.bad,
        allowed: max,
        first: tally.first_bad.clone(),
    })
}

/// The file of bad rows is overwritten, so it must be none that is read.
fn bad_rows_file_is_another(args: &ImportArgs) -> Result<(), ImportError> {
    let Some(bad_rows) = &args.bad_rows else {
        return Ok(());
    };
    let from = args.from.to_string();
    let of = |file: &Path| file.canonicalize().ok();
    let there = of(bad_rows);
    let read = [
        of(Path::new(&from)),
        args.checkpoint.as_deref().and_then(of),
    ];
    if there.is_some() && read.contains(&there) {
        let text = "--bad-rows: the file is the input or the checkpoint; give another one";
        return Err(ImportError::Flags(text.to_owned()));
    }
    Ok(())
}
