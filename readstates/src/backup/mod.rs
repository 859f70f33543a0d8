//! `readstates backup`: copies of all blocks in a folder or a bucket, and back.
//!
//! ```text
//! create:   store ──scan──▶ rows ──cut──▶ chunks ──compress, seal──▶ objects, and the manifest last
//! restore:  manifest ──▶ chunks ──open, check──▶ rows ──one stamp──▶ store
//! ```
//!
//! | object | is |
//! |---|---|
//! | `chunks/AB/ABCD…` | rows, named by their hash: one that is there already is not stored again |
//! | `manifests/ID` | a backup: which chunks it has. Written last: without it there is no backup |
//! | `running/…` | the mark of a process at work: see `marker` |
//!
//! Nothing here talks to members: a backup has what the store has. What is decided is in functions without I/O:
//! where chunks end (`chunk`), what is pruned (`prune`), under which stamp rows are restored (`stamp`).

mod chunk;
mod create;
mod error;
mod list;
mod manifest;
mod marker;
mod once;
mod place;
mod progress;
mod prune;
mod read;
mod report;
mod repository;
mod restore;
mod seal;
mod stamp;
mod stores;
#[cfg(test)]
mod tests;
mod verify;

pub use error::BackupError;
pub(crate) use error::Damage;
use jiff::Timestamp;
pub use once::OnceRefusal;
pub(crate) use progress::Progress;
pub(crate) use read::Reading;
pub(crate) use report::write as write_report;
use repository::Repository;
use restore::Wish;
use seal::Key;
pub(crate) use stores::{Opened, open as open_store};

pub use crate::backup_names::{BackupId, BackupPlace, WhichBackup};
use crate::{
    clock::UnixClock,
    config::{
        BackupArgs, BackupCommand, BackupCreateArgs, BackupListArgs, BackupPruneArgs,
        BackupRestoreArgs, BackupVerifyArgs, PlaceArgs,
    },
};

/// Runs the command.
///
/// # Errors
/// When it is not done, or has found damage.
pub async fn run(args: BackupArgs) -> Result<(), BackupError> {
    match args.command {
        BackupCommand::Create(args) => create(*args).await,
        BackupCommand::List(args) => list(args).await,
        BackupCommand::Verify(args) => verify(args).await,
        BackupCommand::Restore(args) => restore(*args).await,
        BackupCommand::Prune(args) => prune(args).await,
    }
}

fn open(place: PlaceArgs, make: bool) -> Result<Repository, BackupError> {
    let PlaceArgs {
        backups,
        encryption_key_file,
        backups_ca_file,
    } = place;
    let key = encryption_key_file.as_deref().map(Key::from_file);
    let key = key.transpose()?;
    Repository::open(&backups, key, backups_ca_file.as_deref(), make)
}

async fn create(args: BackupCreateArgs) -> Result<(), BackupError> {
    let BackupCreateArgs {
        store,
        place,
        cql,
        parallel,
        report,
    } = args;
    let source = stores::open(&store, cql.login()?).await?;
    let repository = open(place, true)?;
    let plan = create::Plan {
        source: store.to_string(),
        cut: chunk::Cut::default(),
        parallel: parallel.get(),
    };
    let created = create::run(&repository, &*source.scan, &plan, &Progress::start()).await?;
    println!("{created}");
    report::write(&report, &created.report())
}

async fn list(args: BackupListArgs) -> Result<(), BackupError> {
    let BackupListArgs { place, json } = args;
    let repository = open(place, false)?;
    let listed = list::run(&repository).await?;
    print!(
        "{}",
        if json {
            list::json(&listed)
        } else {
            list::table(&listed)
        }
    );
    match listed
        .iter()
        .filter(|backup| backup.error.is_some())
        .count()
    {
        0 => Ok(()),
        unreadable => Err(BackupError::Unreadable { unreadable }),
    }
}

async fn verify(args: BackupVerifyArgs) -> Result<(), BackupError> {
    let BackupVerifyArgs {
        place,
        backup,
        report,
    } = args;
    let repository = open(place, false)?;
    let manifest = repository.manifest(&backup).await?;
    let verified = verify::run(&repository, &manifest, &Progress::start()).await?;
    println!("{verified}");
    verified.damage.result()?;
    report::write(&report, &verified.report())
}

async fn restore(args: BackupRestoreArgs) -> Result<(), BackupError> {
    let BackupRestoreArgs {
        place,
        backup,
        store,
        cql,
        user,
        overwrite,
        once,
        dry_run,
        report,
    } = args;
    let repository = open(place, false)?;
    if let (true, Some(claim)) = (once, &cql.claim) {
        let (into, records) = stores::open_recorded(&store, cql.login()?).await?;
        let wish = once::Wish {
            backup: &backup,
            claim,
            now: Timestamp::now(),
        };
        let done = once::run(&repository, &into, &*records, wish, &Progress::start()).await?;
        println!("{done}");
        return report::write(&report, &done.report());
    }
    let manifest = repository.manifest(&backup).await?;
    let into = match stores::is_absent(&store) && dry_run {
        true => Opened::memory(),
        false => stores::open_or_make(&store, cql.login()?).await?,
    };
    let wish = Wish {
        user: user.map(|user| user.get()),
        overwrite,
        dry_run,
        now_micros: UnixClock::System.micros(),
    };
    let restored = restore::run(&repository, &manifest, &into, wish, &Progress::start()).await?;
    println!("{restored}");
    restored.damage.result()?;
    report::write(&report, &restored.report(&manifest))
}

async fn prune(args: BackupPruneArgs) -> Result<(), BackupError> {
    let BackupPruneArgs {
        place,
        keep_last,
        keep_days,
        grace,
        dry_run,
        report,
    } = args;
    let repository = open(place, false)?;
    let rule = prune::Rule {
        keep_last: keep_last.map_or(0, |last| last.get()),
        keep_days,
        grace,
    };
    let pruned = prune::run(&repository, &rule, dry_run).await?;
    println!("{pruned}");
    report::write(&report, &pruned.report())
}
