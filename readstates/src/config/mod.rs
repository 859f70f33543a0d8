//! Parses the command line and the environment into values that need no more checks.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts: what stands in brackets may be left out"
)]

mod access;
mod backup;
mod cli;
mod cql;
mod export;
mod import;
mod limits;
mod listen;
mod migrate;
mod mirror;
mod observe;
mod ring;
mod serve;
mod user;

pub use access::CallerArgs;
pub use backup::{
    BackupArgs, BackupCommand, BackupCreateArgs, BackupListArgs, BackupPruneArgs,
    BackupRestoreArgs, BackupVerifyArgs, PlaceArgs, ReportArgs,
};
pub use cli::{CertificatesArgs, Cli, Command, RebalanceArgs, SchemaArgs, ServeArgs, TokenArgs};
pub use export::{ExportArgs, RowFormat};
pub use import::{FileFormat, ImportArgs};
pub use limits::Limits;
pub use listen::{ListenArgs, ListenConfig};
pub use migrate::{
    MigrateArgs, MigrateCommand, MigrateCopyArgs, MigrateVerifyArgs, MoveArgs, ToCqlArgs,
};
pub use mirror::{MirrorArgs, Percent};
pub use observe::{ObserveArgs, ObserveConfig};
pub use ring::{RingArgs, RingConfig, RingPlace};
pub use serve::{ConfigError, ServeConfig, StoreConfig};
pub use user::{ServiceArgs, ServiceError, UserArgs, UserCommand, UserDeleteArgs, UserShowArgs};
