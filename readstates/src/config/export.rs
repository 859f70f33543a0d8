//! Flags of `readstates export`.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use readstates_api::Id;

use super::{ReportArgs, StoreConfig, cli::CqlArgs};
use crate::backup_names::{BackupPlace, WhichBackup};

/// Flags of `readstates export`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("source").required(true).args(["store", "backups"])))]
pub struct ExportArgs {
    /// Export a store: embedded:DIR, whose process is stopped, or cql://HOST[,HOST...][:PORT]/KEYSPACE, which may be in
    /// use. Members write changes later than they answer: to have all of them, send POST /admin/v1/flush to each first.
    #[arg(long)]
    pub store: Option<StoreConfig>,

    /// Export a backup in this folder or bucket, as `readstates backup` has it: FOLDER or s3://BUCKET[/PREFIX].
    #[arg(long, value_name = "FOLDER|URL")]
    pub backups: Option<BackupPlace>,

    /// Id of the backup, or `latest`.
    #[arg(long, default_value = "latest", value_name = "BACKUP")]
    pub backup: WhichBackup,

    /// File with the key of encrypted backups.
    #[arg(
        long,
        env = "READSTATES_BACKUP_ENCRYPTION_KEY_FILE",
        value_name = "FILE"
    )]
    pub encryption_key_file: Option<PathBuf>,

    /// File with the CAs (PEM) that the certificate of the S3 store is checked by, in place of the system's.
    #[arg(long, env = "READSTATES_BACKUPS_CA_FILE", value_name = "FILE")]
    pub backups_ca_file: Option<PathBuf>,

    /// Where the rows go: a file, or - for standard output. A file is complete when it has this name: until then it has
    /// `.partial` at its end.
    #[arg(long, default_value = "-", value_name = "FILE")]
    pub to: PathBuf,

    /// Format of the rows. Absent: by the end of the file's name (.csv, .ndjson, .jsonl), else ndjson.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RowFormat>,

    /// Export this user only.
    #[arg(long, value_name = "USER")]
    pub user: Option<Id>,

    /// Ranges of a CQL database that are read at once.
    #[arg(long, default_value = "4", value_name = "N")]
    pub parallel: NonZeroUsize,

    /// How to log in to a CQL database.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A JSON object on each line.
    Ndjson,
    /// Comma-separated values after a line with the names of the columns (RFC 4180).
    Csv,
}

impl RowFormat {
    /// The format that the end of a file's name stands for.
    #[must_use]
    pub fn of_file(file: &std::path::Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }
}

const EXAMPLES: &str = "\
A row is a read state: user_id, channel_id, last_message_id, mention_count, counted_through (the newest message whose
mention was counted), flags, last_viewed (days since 2015-01-01), last_pin_timestamp, version. `readstates import` reads
these rows; it has no use for the version.

Examples:
  All read states of a database, compressed:
    readstates export --store cql://db-0,db-1/readstates --claim chat | zstd > states.ndjson.zst
  What the latest backup has of one user:
    readstates export --backups s3://backups/chat --user 4001
  As CSV:
    readstates export --store embedded:readstates-data --to states.csv

Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 some blocks are damaged, and all others are exported.";
