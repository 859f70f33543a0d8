//! Flags of `readstates migrate`, and of members while their table moves.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Subcommand};

use super::{ConfigError, ReportArgs, StoreConfig, cli::CqlArgs};
use crate::store::{ClaimName, CqlLogin, CqlTarget};

/// Flags of `readstates migrate`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct MigrateArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: MigrateCommand,
}

/// What to do between two stores.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Copy what the target lacks, in passes over the whole source, until few users had to be copied.
    ///
    /// Each row keeps the time of its write, so that a copy never replaces a newer write. A CQL database may be in use;
    /// an embedded store may not. If the command is interrupted, run it again: it goes on where it was, and then makes
    /// at least one whole pass.
    Copy(Box<MigrateCopyArgs>),
    /// Compare all rows of source and target, and write nothing. Exit status 4: the target lacks something.
    Verify(Box<MigrateVerifyArgs>),
}

/// From where, to where, and how fast.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// The source: embedded:DIR or cql://HOST[,HOST...][:PORT]/KEYSPACE.
    #[arg(long, env = "READSTATES_STORE")]
    pub store: StoreConfig,

    /// How to log in to the source, if it is a CQL database.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// The target: embedded:DIR, or cql://HOST[,HOST...][:PORT]/KEYSPACE after `readstates schema`.
    #[arg(long, env = "READSTATES_TO")]
    pub to: StoreConfig,

    /// How to log in to the target, if it is a CQL database.
    #[command(flatten)]
    pub to_cql: ToCqlArgs,

    /// File that records how far the work is. It is written every two seconds. If it is lost, nothing else is: the
    /// next run begins from the start, and needs --merge.
    #[arg(
        long,
        env = "READSTATES_MIGRATE_CHECKPOINT",
        default_value = "readstates-migrate.json",
        value_name = "FILE"
    )]
    pub checkpoint: PathBuf,

    /// The target may have rows that the source lacks, or newer ones; of each user, the newer write stays. Without it,
    /// such rows are taken for another application's: a target that has them at the start is refused.
    #[arg(long)]
    pub merge: bool,

    /// Maximum number of users per second. Absent: as many as --back-off-at allows.
    #[arg(long, value_name = "N")]
    pub rate: Option<NonZeroU32>,

    /// Slow down while reads of a single user from a CQL source take longer than this many times what they took in the
    /// first second.
    #[arg(
        long,
        default_value_t = 2.0,
        value_parser = factor,
        value_name = "FACTOR"
    )]
    pub back_off_at: f64,

    /// Ranges of a CQL database that are worked on at once. Each takes up to 16 MiB of memory for each 100 users with
    /// the largest blocks, and less than 1 MiB with usual ones.
    #[arg(long, default_value = "4", value_name = "N")]
    pub parallel: NonZeroUsize,

    /// How long to try again while a database does not answer.
    #[arg(
        long,
        default_value = "10m",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub patience: Duration,

    /// Answer GET /progress here with the share, users and users per second of the pass that is under way, as JSON.
    /// Absent: nothing is listened on.
    #[arg(
        long,
        env = "READSTATES_MIGRATE_PROGRESS_LISTEN",
        value_name = "IP:PORT"
    )]
    pub progress_listen: Option<SocketAddr>,
}

/// Flags of `readstates migrate copy`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct MigrateCopyArgs {
    /// From where, to where, and how fast.
    #[command(flatten)]
    pub of_move: MoveArgs,

    /// Done when a whole pass had to copy at most this many users.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub until: u64,

    /// Maximum number of whole passes. Exit status 5: the last one still had to copy more users than --until.
    #[arg(long, default_value = "10", value_name = "N")]
    pub passes: NonZeroU32,

    /// Compare, say what would be copied, and write nothing: neither rows nor the file of --checkpoint.
    #[arg(long)]
    pub dry_run: bool,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Flags of `readstates migrate verify`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct MigrateVerifyArgs {
    /// From where, to where, and how fast.
    #[command(flatten)]
    pub of_move: MoveArgs,

    /// Go on with a verification that was interrupted. Only if nothing has been written to the source since it began:
    /// what was compared then is not compared again.
    #[arg(long)]
    pub resume: bool,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Flags to log in to the CQL database that a table moves to.
#[derive(Debug, Default, Args)]
pub struct ToCqlArgs {
    /// Name of the cluster that has claimed the target's keyspace. Absent: the name of --claim.
    #[arg(long, env = "READSTATES_TO_CLAIM", value_name = "NAME")]
    pub to_claim: Option<ClaimName>,

    /// The target's data centre whose nodes are used; required if it has several.
    #[arg(long, env = "READSTATES_TO_CQL_LOCAL_DC", value_name = "DC")]
    pub to_cql_local_dc: Option<String>,

    /// The user, for a target that requires a login.
    #[arg(
        long,
        env = "READSTATES_TO_CQL_USER",
        requires = "to_cql_password_file",
        value_name = "USER"
    )]
    pub to_cql_user: Option<String>,

    /// File that contains only the target's password.
    #[arg(
        long,
        env = "READSTATES_TO_CQL_PASSWORD_FILE",
        requires = "to_cql_user",
        value_name = "FILE"
    )]
    pub to_cql_password_file: Option<PathBuf>,

    /// File with the CAs (PEM) of the target nodes' certificates. With it, every connection to the target uses TLS.
    #[arg(long, env = "READSTATES_TO_CQL_CA_FILE", value_name = "FILE")]
    pub to_cql_ca_file: Option<PathBuf>,

    /// File with the certificate (PEM, with intermediates) to present to a target that requests one.
    #[arg(
        long,
        env = "READSTATES_TO_CQL_CERT_FILE",
        requires_all = ["to_cql_ca_file", "to_cql_key_file"],
        value_name = "FILE"
    )]
    pub to_cql_cert_file: Option<PathBuf>,

    /// File with its private key (PEM, not encrypted).
    #[arg(
        long,
        env = "READSTATES_TO_CQL_KEY_FILE",
        requires = "to_cql_cert_file",
        value_name = "FILE"
    )]
    pub to_cql_key_file: Option<PathBuf>,
}

impl ToCqlArgs {
    /// Where members move their table, and how to log in there.
    pub(super) fn moving(
        &self,
        to: Option<StoreConfig>,
        store: &StoreConfig,
        claim: Option<&ClaimName>,
    ) -> Result<Option<(CqlTarget, CqlLogin)>, ConfigError> {
        let flag = "--moving-to";
        let Some(to) = to else { return Ok(None) };
        if to == *store {
            let problem = format!("{to} is the database of --store; give another one");
            return Err(ConfigError::Value { flag, problem });
        }
        if let (StoreConfig::Cql(_), StoreConfig::Cql(to)) = (store, to) {
            return Ok(Some((to, self.login(claim)?)));
        }
        let problem = "members move from one CQL database to another: give cql://HOST/KEYSPACE here and with --store. \
                       For an embedded store, stop the member and run `readstates migrate`";
        Err(ConfigError::Value {
            flag,
            problem: problem.into(),
        })
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text
        .parse()
        .ok()
        .filter(|factor| (1.1..=100.0).contains(factor));
    factor.ok_or_else(|| format!("{text:?} is no factor; give a number from 1.1 to 100"))
}

const EXAMPLES: &str = "\
Examples:
  Say what would be copied:
    export READSTATES_STORE=cql://old-0,old-1/readstates READSTATES_TO=cql://new-0,new-1/readstates
    readstates migrate copy --claim chat --dry-run
  Copy while members serve, at most 20000 users a second:
    readstates schema --store cql://new-0,new-1/readstates --replication dc1=3 --claim chat
    readstates migrate copy --claim chat --rate 20000
  After all members were stopped: copy the rest, compare everything, and start them on the new database:
    readstates migrate copy --claim chat --until 0
    readstates migrate verify --claim chat
  Without stopping: run members with both databases while everything is copied:
    readstates serve --store cql://old-0/readstates --moving-to cql://new-0/readstates --claim chat
  From an embedded store, whose process is stopped:
    readstates migrate copy --store embedded:readstates-data --to cql://new-0/readstates --until 0

Exit status: 0 done, 1 failed (run it again), 2 wrong usage, 3 refused and nothing changed, 4 the two differ or a row
could not be copied, 5 the passes are over and too much had to be copied in the last one.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::{Cli, Command, ServeConfig};

    fn parsed(words: &[&str]) -> Result<Command, String> {
        let words = ["readstates"].iter().chain(words);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(cli.command)
    }

    fn moving(flags: &[&str]) -> Result<Option<(CqlTarget, CqlLogin)>, String> {
        let Command::Serve(args) = parsed(&[&["serve"], flags].concat())? else {
            unreachable!()
        };
        let config = ServeConfig::from_args(*args).map_err(|error| error.to_string())?;
        Ok(config.moving_to)
    }

    #[test]
    fn members_move_from_one_cql_database_to_another() {
        let from = ["--store", "cql://old/a", "--claim", "chat"];
        assert!(moving(&from).unwrap().is_none());
        let (to, login) = moving(&[&from[..], &["--moving-to", "cql://new/a"]].concat())
            .unwrap()
            .unwrap();
        assert_eq!(to.to_string(), "cql://new:9042/a");
        assert_eq!(login.claim.unwrap().to_string(), "chat");
        for (flags, words) in [
            (
                &["--moving-to", "cql://db/a"][..],
                "from one CQL database to another",
            ),
            (
                &["--store", "cql://db/a", "--moving-to", "cql://db:9042/a"],
                "is the database of --store",
            ),
            (
                &["--store", "cql://db/a", "--moving-to", "embedded:x"],
                "readstates migrate",
            ),
            (&["--to-cql-user", "u"], "--to-cql-password-file"),
        ] {
            let refusal = moving(flags).unwrap_err();
            assert!(refusal.contains(words), "{flags:?}: {refusal}");
        }
    }

    #[test]
    fn the_login_of_the_target_is_its_own_but_for_the_claim() {
        let login = |flags: &[&str]| {
            let copy = [
                "migrate",
                "copy",
                "--store",
                "cql://a/x",
                "--to",
                "cql://b/x",
                "--claim",
                "chat",
                "--cql-local-dc",
                "east",
            ];
            let Command::Migrate(args) = parsed(&[&copy, flags].concat()).unwrap() else {
                unreachable!()
            };
            let MigrateCommand::Copy(args) = args.command else {
                unreachable!()
            };
            let MoveArgs { cql, to_cql, .. } = args.of_move;
            to_cql.login(cql.claim.as_ref()).unwrap()
        };
        let same = login(&[]);
        assert_eq!(same.claim.unwrap().to_string(), "chat");
        assert_eq!(same.local_datacenter, None);
        let other = login(&["--to-claim", "talk", "--to-cql-local-dc", "west"]);
        assert_eq!(other.claim.unwrap().to_string(), "talk");
        assert_eq!(other.local_datacenter.as_deref(), Some("west"));
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_flag() {
        let copy = ["migrate", "copy", "--store", "cql://a/x"];
        let to = [&copy[..], &["--to", "cql://b/x"]].concat();
        let with = |flags: &[&'static str]| [&to[..], flags].concat();
        for (words, part) in [
            (copy.to_vec(), "--to"),
            (with(&["--rate", "0"]), "--rate"),
            (with(&["--parallel", "0"]), "--parallel"),
            (with(&["--passes", "0"]), "--passes"),
            (with(&["--back-off-at", "1"]), "1.1 to 100"),
            (with(&["--back-off-at", "NaN"]), "1.1 to 100"),
            (with(&["--patience", "long"]), "--patience"),
            (with(&["--to-cql-key-file", "k"]), "--to-cql-cert-file"),
        ] {
            let refusal = parsed(&words).unwrap_err();
            assert!(refusal.contains(part), "{words:?}: {refusal}");
        }
    }
}
