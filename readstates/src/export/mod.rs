//! `readstates export`: all read states of a store or a backup as text, a row for each.
//!
//! ```text
//! store ──scan──▶ pages ─┐
//!                        ├─ block ──▶ rows ──▶ file or standard output
//! backup ──▶ chunks ─────┘
//! ```
//! In memory are a page of each range that is read at once, or a chunk. What cannot be read is told at the end, and the
//! rest is exported all the same.

mod error;
mod output;
mod row;

use std::fmt;

use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use serde::Serialize;

pub use self::error::ExportError;
use self::{output::Output, row::RowWriter};
use crate::{
    backup::{self, BackupError, Damage, Opened, Progress, Reading},
    block::BlockRef,
    codec,
    config::{ExportArgs, PlaceArgs, RowFormat},
    store::{Row, chain},
};

#[derive(Debug, Default, Serialize)]
struct Exported {
    source: String,
    users: u64,
    read_states: u64,
    /// Bytes of the rows.
    bytes: u64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            users,
            read_states,
            bytes: _,
        } = self;
        write!(
            f,
            "exported {read_states} read states of {users} users from {source}"
        )
    }
}

type Pages<'a> = BoxStream<'a, Result<Vec<Row>, BackupError>>;

/// Where rows come from.
enum Source {
    Store(Opened, String),
    Backup(Reading),
}

/// Runs the command.
///
/// # Errors
/// When it is not done, or something could not be read.
pub async fn run(args: ExportArgs) -> Result<(), ExportError> {
    let ExportArgs {
        store,
        backups,
        backup,
        encryption_key_file,
        backups_ca_file,
        to,
        format,
        user,
        parallel,
        cql,
        report,
    } = args;
    let source = match (store, backups) {
        (Some(store), _) => {
            let opened = backup::open_store(&store, cql.login().map_err(BackupError::from)?);
            Source::Store(opened.await?, store.to_string())
        }
        (None, Some(backups)) => {
            let place = PlaceArgs {
                backups,
                encryption_key_file,
                backups_ca_file,
            };
            Source::Backup(Reading::open(place, &backup).await?)
        }
        // One of them is required.
        (None, None) => return Err(ExportError::NoSource),
    };
    let format = format.or_else(|| RowFormat::of_file(&to));
    let mut output = Output::open(&to)?;
    let writer = RowWriter::new(format.unwrap_or(RowFormat::Ndjson));
    let user = user.map(|user| user.get());
    let export = Export {
        user,
        writer,
        output: &mut output,
        exported: Exported::default(),
        damage: Damage::default(),
        progress: Progress::of("users"),
    };
    let (exported, damage) = export.all(&source, parallel.get()).await?;
    output.finish()?;
    // Standard output may be the rows.
    eprintln!("{exported}");
    damage.result()?;
    Ok(backup::write_report(&report, &exported)?)
}

struct Export<'a> {
    /// This user alone.
    user: Option<u64>,
    writer: RowWriter,
    output: &'a mut Output,
    exported: Exported,
    damage: Damage,
    progress: Progress,
}

impl Export<'_> {
    async fn all(
        mut self,
        source: &Source,
        parallel: usize,
    ) -> Result<(Exported, Damage), ExportError> {
        self.writer.head(self.output)?;
        let (mut pages, of): (Pages<'_>, Option<u64>) = match source {
            Source::Store(opened, name) => {
                self.exported.source.clone_from(name);
                (self.of_store(opened, parallel), None)
            }
            Source::Backup(reading) => {
                let (id, users) = reading.id_and_users();
                self.exported.source = format!("backup {id}");
                (reading.rows(), Some(users))
            }
        };
        while let Some(page) = pages.next().await {
            match page {
                Ok(page) => self.page(&page, of)?,
                // The place or the database is away: the rest would be, too.
                Err(error @ (BackupError::Objects { .. } | BackupError::Store(_))) => {
                    return Err(error.into());
                }
                Err(error) => self.damage.add(|| chain(&error)),
            }
        }
        drop(pages);
        Ok((self.exported, self.damage))
    }

    fn of_store<'a>(&self, opened: &'a Opened, parallel: usize) -> Pages<'a> {
        if let Some(user) = self.user {
            let load = async move {
                let stored = opened.store.load(user).await?;
                let row = stored.map(|stored| Row { user, stored });
                Ok::<Vec<Row>, BackupError>(row.into_iter().collect())
            };
            return stream::once(load).boxed();
        }
        let ranges = stream::iter(0..opened.scan.ranges());
        let pages = ranges.map(move |range| opened.scan.scan(range));
        let pages = pages.flatten_unordered(parallel);
        pages.map_err(BackupError::from).boxed()
    }

    fn page(&mut self, page: &[Row], of: Option<u64>) -> Result<(), ExportError> {
        let mut bytes = 0;
        for row in page {
            if self.user.is_some_and(|user| user != row.user) {
                continue;
            }
            bytes += row.stored.bytes.len() as u64;
            match codec::decode(&row.stored.bytes) {
                Ok(decoded) => self.block(row.user, decoded.block)?,
                Err(error) => {
                    let user = row.user;
                    self.damage
                        .add(|| format!("the block of user {user}: {error}"));
                }
            }
        }
        self.progress.add(page.len() as u64, bytes, of);
        Ok(())
    }

    fn block(&mut self, user: u64, block: BlockRef<'_>) -> Result<(), ExportError> {
        self.exported.users += u64::from(!block.is_empty());
        for state in block.states() {
            let counted = block.counted(state.channel);
            let newest = counted.mentions().last().map(|newest| newest.message);
            let row = self.writer.row(user, &state, newest);
            self.exported.read_states += 1;
            self.exported.bytes += row.len() as u64;
            self.output.write(row)?;
        }
        Ok(())
    }
}
