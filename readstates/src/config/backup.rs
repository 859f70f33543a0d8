//! Flags of `readstates backup`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Subcommand};
use readstates_api::Id;

use super::{StoreConfig, cli::CqlArgs};
use crate::backup_names::{BackupPlace, WhichBackup};

/// Flags of `readstates backup`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BackupArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BackupCommand,
}

/// What to do with backups.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Copy all blocks of a store. What has not changed since an earlier backup is not stored again.
    ///
    /// A CQL database may be in use; an embedded store may not. Members write changes later than they answer: to have
    /// all of them, send POST /admin/v1/flush to each member first.
    Create(Box<BackupCreateArgs>),
    /// List the backups, oldest first. One that was interrupted is not listed, and never used.
    List(BackupListArgs),
    /// Read all of a backup, and check every checksum, block and count. Exit status 4: something is damaged.
    Verify(BackupVerifyArgs),
    /// Write a backup into a store, of the same kind or another. Stop all members of that store before.
    ///
    /// If it is interrupted, run it again. Exit status 3: the destination is not empty, or another thing forbids it,
    /// and nothing was written; 4: parts of the backup are damaged, and the rest is restored.
    Restore(Box<BackupRestoreArgs>),
    /// Delete old backups, and what no backup needs any more.
    Prune(BackupPruneArgs),
}

/// Where backups are.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Where backups are: a folder, or s3://BUCKET[/PREFIX].
    ///
    /// S3 takes credentials, region and endpoint from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    /// AWS_REGION, AWS_ENDPOINT, AWS_ALLOW_HTTP, or what the machine's or pod's role gives.
    #[arg(long, env = "READSTATES_BACKUPS", value_name = "FOLDER|URL")]
    pub backups: BackupPlace,

    /// File with 32 random bytes with which backups are encrypted (ChaCha20-Poly1305). All backups in one place have the
    /// same key. Without the file they cannot be read: keep a copy elsewhere.
    #[arg(
        long,
        env = "READSTATES_BACKUP_ENCRYPTION_KEY_FILE",
        value_name = "FILE"
    )]
    pub encryption_key_file: Option<PathBuf>,

    /// File with the CAs (PEM) that the certificate of the S3 store is checked by, in place of the system's.
    #[arg(long, env = "READSTATES_BACKUPS_CA_FILE", value_name = "FILE")]
    pub backups_ca_file: Option<PathBuf>,
}

/// A result for programs.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write the result to this file as well, as JSON, once everything is done. Nothing is written when it fails. In a
    /// Kubernetes pod, /dev/termination-log makes it the termination message of the container.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Flags of `readstates backup create`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BackupCreateArgs {
    /// The store: embedded:DIR or cql://HOST[,HOST...][:PORT]/KEYSPACE.
    #[arg(long, env = "READSTATES_STORE")]
    pub store: StoreConfig,

    /// Where the backup goes.
    #[command(flatten)]
    pub place: PlaceArgs,

    /// How to log in to a CQL database.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// Ranges of a CQL database that are read at once. More is faster, and slows the database's clients down; each takes
    /// up to 64 MiB of memory.
    #[arg(long, default_value = "4", value_name = "N")]
    pub parallel: NonZeroUsize,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Flags of `readstates backup list`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BackupListArgs {
    /// Where they are.
    #[command(flatten)]
    pub place: PlaceArgs,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `readstates backup verify`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BackupVerifyArgs {
    /// Id of the backup, or `latest`.
    #[arg(default_value = "latest", value_name = "BACKUP")]
    pub backup: WhichBackup,

    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Flags of `readstates backup restore`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BackupRestoreArgs {
    /// Id of the backup, or `latest`.
    #[arg(default_value = "latest", value_name = "BACKUP")]
    pub backup: WhichBackup,

    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,

    /// The destination: embedded:DIR, or cql://HOST[,HOST...][:PORT]/KEYSPACE after `readstates schema`.
    #[arg(long, env = "READSTATES_STORE")]
    pub store: StoreConfig,

    /// How to log in to a CQL database.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// Restore this user only, also over what the destination has of it.
    #[arg(long, conflicts_with = "overwrite", value_name = "USER")]
    pub user: Option<Id>,

    /// Restore into a destination that is not empty: users of the backup are written over, others stay as they are.
    #[arg(long)]
    pub overwrite: bool,

    /// Restore once, into a keyspace of a CQL database from which no member has ever served, and keep a record of it there.
    ///
    /// The backup is verified before anything is written. An interrupted restore goes on with the same backup, also if
    /// `latest` is another one by now. After its end the command changes nothing, and reports the restore that was done.
    /// Members do not serve before the end. Needs --claim, and the tables that `readstates schema` makes.
    #[arg(long, requires = "claim", conflicts_with_all = ["user", "overwrite", "dry_run"])]
    pub once: bool,

    /// Say what would be done, and write nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Flags of `readstates backup prune`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("keep").required(true).multiple(true).args(["keep_last", "keep_days"])))]
pub struct BackupPruneArgs {
    /// Where they are.
    #[command(flatten)]
    pub place: PlaceArgs,

    /// Keep so many backups, the newest.
    #[arg(long, value_name = "N")]
    pub keep_last: Option<NonZeroUsize>,

    /// Keep also all backups of the last so many days, and the newest however old it is.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "D")]
    pub keep_days: Option<u32>,

    /// Keep chunks that are younger than this, although no backup names them: a backup that was interrupted leaves some,
    /// and the next one need not store them again.
    #[arg(
        long,
        default_value = "24h",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub grace: Duration,

    /// Say what would be deleted, and delete nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

const EXAMPLES: &str = "\
Examples:
  Back up a database each night, check it, and keep two weeks:
    export READSTATES_BACKUPS=s3://backups/chat AWS_REGION=eu-west-1
    readstates backup create --store cql://db-0,db-1/readstates --claim chat
    readstates backup verify
    readstates backup prune --keep-days 14 --keep-last 7
  Encrypted, in a folder:
    head -c 32 /dev/urandom > backup.key
    readstates backup create --store embedded:readstates-data --backups /mnt/backups \\
         --encryption-key-file backup.key
  Restore the latest into a new, empty keyspace, on which no member runs yet:
    readstates schema --store cql://db-9/readstates --replication dc1=3 --claim chat
    readstates backup restore --store cql://db-9/readstates --claim chat
  Bring back one user, while the members are stopped:
    readstates backup restore 20261126T040000.000Z-9f2c01ab --user 4001 --store embedded:readstates-data

Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 damaged.";
