//! Flags of `readstates import`.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum};

use super::{ReportArgs, ServiceArgs, cli::CqlArgs};
use crate::rows::{Columns, Place, TableName, Template};

/// Flags of `readstates import`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ImportArgs {
    /// Where the rows are: a file, - for standard input, cql://HOST[,HOST...][:PORT][/KEYSPACE] with --table, or
    /// redis://HOST[:PORT][/DB] with --pattern.
    #[arg(long, value_name = "FILE|URL")]
    pub from: Place,

    /// Format of a file. Absent: by the end of its name (.csv, .tsv, .ndjson, .jsonl).
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FileFormat>,

    /// Names of the columns, where they differ from those of `readstates export`: user=NAME, channel=NAME,
    /// message=NAME, mentions=NAME, counted=NAME, flags=NAME, viewed=NAME, pin=NAME. With --no-header, the numbers of the
    /// columns, from 1. The first three are required.
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "FIELD=NAME,..."
    )]
    pub columns: Columns,

    /// Delimiter of CSV: one character.
    #[arg(long, default_value = ",", value_parser = delimiter, value_name = "CHARACTER")]
    pub delimiter: u8,

    /// The first line of CSV is a row.
    #[arg(long)]
    pub no_header: bool,

    /// The table of a CQL database: TABLE, or KEYSPACE.TABLE.
    #[arg(long, value_name = "TABLE")]
    pub table: Option<TableName>,

    /// Keys of Redis: a pattern with {user} in the place of the user's id, such as user:{user}:read. Each key is a hash
    /// whose fields are channels.
    #[arg(long, value_name = "PATTERN")]
    pub pattern: Option<Template>,

    /// Values of the hashes: a pattern of {message}, {mentions}, {counted}, {flags}, {viewed} and {pin}, such as
    /// {message}:{mentions}; or `json` for objects with the names of --columns.
    #[arg(long, default_value = "{message}", value_name = "PATTERN")]
    pub value: String,

    /// File with the password of Redis.
    #[arg(long, value_name = "FILE")]
    pub redis_password_file: Option<PathBuf>,

    /// User of Redis, if its password is one of an ACL user.
    #[arg(long, requires = "redis_password_file", value_name = "USER")]
    pub redis_user: Option<String>,

    /// How to log in to a CQL database with foreign rows. --claim has no meaning there.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// The service. Its caller needs the verbs write and import.
    #[command(flatten)]
    pub service: ServiceArgs,

    /// Ask the owner of each user directly, which saves a hop. Members must be reachable at the URLs of `GET /v1/ring`.
    #[arg(long)]
    pub direct: bool,

    /// Write to this file how far the import is. An import with the same file goes on from there, after a kill at any
    /// point. Rows that are sent twice change nothing.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,

    /// Maximum number of rows sent per second. Absent: as many as the service takes.
    #[arg(long, value_name = "N")]
    pub rate: Option<NonZeroU32>,

    /// Rows sent at a time, by owner one request each.
    #[arg(long, default_value = "8192", value_parser = clap::value_parser!(u32).range(1..=65_536), value_name = "N")]
    pub rows: u32,

    /// How long to go on asking a service that takes nothing: 429 and 503 are waited out, and so is silence.
    #[arg(
        long,
        default_value = "10m",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub patience: Duration,

    /// Write rows that make no sense, or that the service refuses, to this file: a JSON object each, with the reason.
    #[arg(long, value_name = "FILE")]
    pub bad_rows: Option<PathBuf>,

    /// Bad rows at which the import stops: the next one is an error. Rows before it are imported.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub max_bad_rows: u64,

    /// Read and check all rows, and send nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Import only so many rows, the first ones: to try.
    #[arg(long, conflicts_with = "checkpoint", value_name = "N")]
    pub limit: Option<NonZeroU64>,

    /// The result for programs.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How rows are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// A JSON object on each line.
    Ndjson,
    /// Values with a delimiter between them, quoted where needed (RFC 4180).
    Csv,
    /// Values with tabs between them; a quote is a character like any other.
    Tsv,
}

impl FileFormat {
    /// The format that the end of a file's name stands for.
    #[must_use]
    pub fn of_file(file: &std::path::Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("give one ASCII character that is no quote".to_owned()),
    }
}

const EXAMPLES: &str = "\
A row is what another system has of one channel of one user. It sets what the service does not have, and otherwise only
moves forward: what clients have done in the service stays, and a row that is sent again changes nothing. Files have the
columns user_id, channel_id, last_message_id (0 or empty: never read), and if wanted mention_count, counted_through (the
newest message whose mention is in the count; mentions up to it are not counted again), flags, last_viewed (a date, or days
since 2015-01-01) and last_pin_timestamp (RFC 3339, or Unix milliseconds). Others are not read.

Examples:
  Look at a file, and write down the rows that make no sense:
    readstates import --from reads.csv --dry-run --bad-rows bad.ndjson --max-bad-rows 1000000
  Import it, with other names of columns, so that it goes on where it was after a kill:
    readstates import --from reads.csv --columns user=member,channel=room,message=seen,mentions=pings \\
         --checkpoint reads.checkpoint --url http://chat:7400 --token-file token
  From PostgreSQL:
    psql -c '\\copy (SELECT user_id, channel_id, last_message_id FROM reads) TO STDOUT CSV HEADER' |
         readstates import --from - --format csv
  From Cassandra or ScyllaDB, at most 20,000 rows a second:
    readstates import --from cql://db-0,db-1 --table chat.read_states --cql-local-dc dc1 --rate 20000 \\
         --columns message=message_id,pin=last_pin_timestamp --checkpoint reads.checkpoint
  From Redis, where the hash user:42:reads has a field 7 with the value 1175928847299117063:3:
    readstates import --from redis://cache --pattern 'user:{user}:reads' --value '{message}:{mentions}' \\
         --checkpoint reads.checkpoint

Exit status: 0 done, 1 failed (run it again with the same --checkpoint to go on), 2 wrong usage, 3 refused,
4 more rows are bad than --max-bad-rows allows.";
