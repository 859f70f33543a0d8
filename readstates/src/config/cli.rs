//! Flags, their environment variables, and the help that explains them.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use readstates_identity::ClusterName;

use super::{
    BackupArgs, CallerArgs, ExportArgs, ImportArgs, Limits, ListenArgs, MigrateArgs, MirrorArgs,
    ObserveArgs, RingArgs, RingPlace, StoreConfig, ToCqlArgs, UserArgs,
};
use crate::{
    cache::FlushMode,
    journal::Durability,
    store::{ClaimName, Replication},
};

/// The database driver speaks of each attempt to connect; the store says so once, and why.
const DEFAULT_LOG: &str = "info,scylla=warn,scylla::cluster=off";

/// Stores what every user has read in every channel.
#[derive(Debug, Parser)]
#[command(name = "readstates", version)]
pub struct Cli {
    /// Log level, or levels by module such as info,readstates=debug. Human-readable on a terminal, JSON otherwise.
    #[arg(
        long,
        global = true,
        env = "READSTATES_LOG",
        default_value = DEFAULT_LOG,
        value_name = "FILTER"
    )]
    pub log_level: String,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a member that serves requests.
    Serve(Box<ServeArgs>),
    /// Create or verify the keyspace and the table of a CQL database.
    Schema(Box<SchemaArgs>),
    /// Balance the slots between the members of a ring in a folder.
    Rebalance(RebalanceArgs),
    /// Show or delete the data of a user in a running service.
    User(UserArgs),
    /// Copy all data of a store to a folder or a bucket, check such backups, and restore them.
    Backup(BackupArgs),
    /// Copy all data of a store to another database while both are in use, and compare the two.
    Migrate(MigrateArgs),
    /// Create a token for a caller of the API, and print it with its hash for the access file.
    Token(TokenArgs),
    /// Create the certificates with which members and an operator outside of Kubernetes authenticate each other.
    Certificates(CertificatesArgs),
    /// Print the OpenAPI document of the HTTP API.
    Openapi(OpenapiArgs),
    /// Send read states of another system to a running service.
    Import(Box<ImportArgs>),
    /// Write all read states of a store or a backup as text.
    Export(Box<ExportArgs>),
    /// Run a proxy in front of another system that sends its traffic to a service, too, compares answers, and serves a
    /// share of the users from the service.
    Mirror(Box<MirrorArgs>),
}

/// Flags of `readstates openapi`.
#[derive(Debug, Args)]
pub struct OpenapiArgs {
    /// Print the document of the admin port and of the port for probes instead.
    #[arg(long)]
    pub admin: bool,
}

/// Flags of `readstates serve`.
#[derive(Debug, Args)]
#[command(after_long_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Listen addresses.
    #[command(flatten)]
    pub listen: ListenArgs,

    /// Where blocks are stored: `memory`, lost when the process ends; `embedded:DIR`, a folder used only by this
    /// process; `cql://HOST[,HOST...][:PORT]/KEYSPACE`, Cassandra or ScyllaDB.
    #[arg(
        long,
        env = "READSTATES_STORE",
        default_value = "embedded:readstates-data"
    )]
    pub store: StoreConfig,

    /// What a crash of the process or of the machine may lose. `journal`: nothing that was acknowledged; each change is
    /// synced to a journal in the folder of an embedded store first, and many changes share a sync. `interval`: what
    /// the store does not have yet (see --flush-interval). `available`: nothing with any one of several members; each
    /// change is in the memory of a second one first, if there is one to have it. `replicated`: the same, and changes
    /// that no second member can have are refused. Absent: `journal` with an embedded store, else `interval`.
    #[arg(long, env = "READSTATES_DURABILITY", value_enum, value_name = "MODE")]
    pub durability: Option<Durability>,

    /// Start although the journal is damaged, without the changes that cannot be read. The damaged files are kept
    /// beside the others under the name *.damaged.
    #[arg(long, env = "READSTATES_ACCEPT_JOURNAL_DAMAGE")]
    pub accept_journal_damage: bool,

    /// Maximum time between a user's first unwritten change and its write to the store; one write covers all changes
    /// made in the meantime. Without a journal, a crash loses at most this much; a stop loses nothing.
    #[arg(
        long,
        env = "READSTATES_FLUSH_INTERVAL",
        default_value = "30s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub flush_interval: Duration,

    /// `adaptive`: a user is written one second after its first change if the store has capacity, at the latest after
    /// the flush interval. `interval`: only after the flush interval, which makes fewer writes and loses more in a
    /// crash.
    #[arg(
        long,
        env = "READSTATES_FLUSH_MODE",
        value_enum,
        default_value_t,
        value_name = "MODE"
    )]
    pub flush_mode: FlushMode,

    /// Maximum number of read states in memory. The least recently used users are evicted first. A state takes at most
    /// 34 bytes; an embedded store also caches pages of its file in a sixteenth of that, at least 4 MiB and at most 64
    /// MiB.
    #[arg(
        long,
        env = "READSTATES_CAPACITY_STATES",
        default_value_t = 1_000_000,
        allow_negative_numbers = true,
        value_name = "N"
    )]
    pub capacity_states: u64,

    /// Time limit for a stop (SIGTERM, SIGINT) to hand on all slots and write all dirty users. After that, the process
    /// exits with status 1 and logs how many users were not written.
    #[arg(
        long,
        env = "READSTATES_DRAIN_TIMEOUT",
        default_value = "280s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub drain_timeout: Duration,

    /// Number of threads that serve clients. Absent: one per core that this process may use.
    #[arg(long, env = "READSTATES_WORKERS", value_name = "N")]
    pub workers: Option<NonZeroUsize>,

    /// Callers and TLS of the API.
    #[command(flatten)]
    pub callers: CallerArgs,

    /// Where the ring is stored, and this member's identity in it.
    #[command(flatten, next_help_heading = "Ring")]
    pub ring: RingArgs,

    /// How to log in to a CQL database.
    #[command(flatten, next_help_heading = "Database")]
    pub cql: CqlArgs,

    /// A second CQL database while the table moves to it: both are written, and of what is read in both the newer
    /// counts. Copy the rest with `readstates migrate`.
    #[arg(
        long,
        env = "READSTATES_MOVING_TO",
        value_name = "cql://HOST[,HOST...][:PORT]/KEYSPACE"
    )]
    pub moving_to: Option<StoreConfig>,

    /// How to log in to the database of --moving-to.
    #[command(flatten)]
    pub to_cql: ToCqlArgs,

    /// Limits and timeouts.
    #[command(flatten)]
    pub limits: Limits,

    /// Logging and tracing of requests.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Flags of `readstates token`.
#[derive(Debug, Args)]
#[command(after_long_help = TOKEN_EXAMPLES)]
pub struct TokenArgs {
    /// Create no token; print the hash of the token in this file.
    #[arg(long, value_name = "FILE")]
    pub of: Option<PathBuf>,
}

/// Flags of `readstates rebalance`.
#[derive(Debug, Args)]
pub struct RebalanceArgs {
    /// The ring folder of the members: file:DIR.
    #[arg(long, env = "READSTATES_RING")]
    pub ring: RingPlace,

    /// Folder with ca.crt, tls.crt and tls.key of the operator, for members that run with --members-tls-dir:
    /// DIR/operator of `readstates certificates DIR`.
    #[arg(long, env = "READSTATES_OPERATOR_TLS_DIR", value_name = "DIR")]
    pub operator_tls_dir: Option<PathBuf>,
}

/// Flags of `readstates certificates`.
#[derive(Debug, Args)]
#[command(after_long_help = CERTIFICATES_EXAMPLES)]
pub struct CertificatesArgs {
    /// Output folder: the authority in ca.crt and ca.key, which must stay secret and on one machine; a member's ca.crt,
    /// tls.crt and tls.key in DIR/member, an operator's in DIR/operator. An existing authority is kept and issues new
    /// certificates; running processes load them within ten seconds.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Name of the cluster. Processes of other clusters are not trusted.
    #[arg(long, default_value = "local", value_name = "NAME")]
    pub cluster: ClusterName,

    /// Validity of the member's and the operator's certificates, in days.
    #[arg(
        long,
        default_value_t = 365,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=3650)
    )]
    pub days: u16,
}

/// Flags to reach a CQL database and log in to it.
#[derive(Debug, Default, Args)]
pub struct CqlArgs {
    /// Unique name of this cluster: `schema` claims the keyspace of a CQL database with it, and members refuse a
    /// keyspace that another cluster has claimed. Use the same name for all members of a cluster. Without it, a
    /// keyspace is not claimed, and a claimed one is refused.
    #[arg(long, env = "READSTATES_CLAIM", value_name = "NAME")]
    pub claim: Option<ClaimName>,

    /// The data centre whose nodes are used; required if the database has several.
    #[arg(long, env = "READSTATES_CQL_LOCAL_DC", value_name = "DC")]
    pub cql_local_dc: Option<String>,

    /// The user, for a database that requires a login.
    #[arg(
        long,
        env = "READSTATES_CQL_USER",
        requires = "cql_password_file",
        value_name = "USER"
    )]
    pub cql_user: Option<String>,

    /// File that contains only the password. It is read again for every connection.
    #[arg(
        long,
        env = "READSTATES_CQL_PASSWORD_FILE",
        requires = "cql_user",
        value_name = "FILE"
    )]
    pub cql_password_file: Option<PathBuf>,

    /// File with the CAs (PEM) of the database nodes' certificates. With it, every connection uses TLS, and a node is
    /// trusted only if its certificate is for its address or for a host of --store. Certificate files are read again
    /// for every new connection; open connections are not affected.
    #[arg(long, env = "READSTATES_CQL_CA_FILE", value_name = "FILE")]
    pub cql_ca_file: Option<PathBuf>,

    /// File with the certificate (PEM, with intermediates) to present to a database that requests one.
    #[arg(
        long,
        env = "READSTATES_CQL_CERT_FILE",
        requires_all = ["cql_ca_file", "cql_key_file"],
        value_name = "FILE"
    )]
    pub cql_cert_file: Option<PathBuf>,

    /// File with its private key (PEM, not encrypted).
    #[arg(
        long,
        env = "READSTATES_CQL_KEY_FILE",
        requires = "cql_cert_file",
        value_name = "FILE"
    )]
    pub cql_key_file: Option<PathBuf>,
}

/// Flags of `readstates schema`.
#[derive(Debug, Args)]
#[command(after_long_help = SCHEMA_EXAMPLES)]
pub struct SchemaArgs {
    /// The database and keyspace: cql://HOST[,HOST...][:PORT]/KEYSPACE.
    #[arg(long, env = "READSTATES_STORE")]
    pub store: StoreConfig,

    /// Replicas in each data centre: DC=N[,DC=N...]. An existing keyspace must have at least these; it is not altered.
    #[arg(long, env = "READSTATES_REPLICATION", value_name = "DC=N,...")]
    pub replication: Replication,

    /// How to log in.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// The database belongs to this cluster only: a keyspace with one replica more or less is altered, and a claim of
    /// another cluster is taken over.
    #[arg(long, env = "READSTATES_OWN_DATABASE")]
    pub own_database: bool,

    /// Information stored with the claim of --claim for a person who finds it, such as the address of the cluster.
    #[arg(
        long,
        env = "READSTATES_CLAIM_HOLDER",
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub claim_holder: String,

    /// Take the keyspace over from the cluster of this name, which must be gone for good: anything it still writes or
    /// has not written yet is lost. Its members stop working within a minute.
    #[arg(
        long,
        env = "READSTATES_TAKE_OVER_CLAIM",
        requires = "claim",
        value_name = "NAME"
    )]
    pub take_over_claim: Option<ClaimName>,

    /// File with the new password of the superuser `cassandra`. With it, the command logs in as `cassandra`, replaces
    /// the well-known default password with this one, and creates the role of --cql-user, which may only read and write
    /// the table. Without it, --cql-user creates the keyspace and the table itself.
    #[arg(
        long,
        env = "READSTATES_SUPERUSER_PASSWORD_FILE",
        requires = "cql_user",
        value_name = "FILE"
    )]
    pub superuser_password_file: Option<PathBuf>,

    /// How long to wait for a database that does not answer.
    #[arg(
        long,
        env = "READSTATES_SCHEMA_TIMEOUT",
        default_value = "60s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub timeout: Duration,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  On its own, keeping blocks in ./readstates-data:
    readstates serve
  Try it:
    curl -X POST localhost:7400/v1/users/1/read-states/10/ack \\
         -H 'content-type: application/json' -d '{\"message_id\": \"100\"}'
    curl localhost:7400/v1/users/1/read-states
  On Cassandra or ScyllaDB (run `readstates schema` first):
    readstates serve --store cql://db-0,db-1:9042/readstates --cql-local-dc dc1
  Over TLS, with node certificates for db-0 or db-1:
    readstates serve --store cql://db-0,db-1:9042/readstates --cql-ca-file ca.crt
  With callers, over TLS (`readstates token` creates a token; --help describes the file):
    readstates serve --access access.yaml --tls-cert-file tls.crt --tls-key-file tls.key
    curl --cacert ca.crt https://localhost:7400/v1/ring -H 'authorization: Bearer rst_...'
  Two members that share the users between them:
    readstates serve --ring file:ring --member a --store cql://db/readstates
    readstates serve --ring file:ring --member b --store cql://db/readstates \\
         --listen 127.0.0.1:7500 --admin-listen 127.0.0.1:7501
    readstates rebalance --ring file:ring";

const TOKEN_EXAMPLES: &str = "\
The caller keeps the token and sends it with every request: Authorization: Bearer TOKEN. Members keep the hash, in
the file of --access. To replace a token, add the hash of the new one, give the caller the new one, and then
remove the old hash; until then both are valid.

Examples:
  Create a token:
    readstates token
  Hash a token that was created elsewhere:
    readstates token --of token.txt";

const CERTIFICATES_EXAMPLES: &str = "\
Example:
  Two members on an address that other machines reach (the folder of a ring is for members of one machine):
    readstates certificates DIR
    readstates serve --ring file:ring --member a --listen 10.0.0.1:7400 \\
         --members-tls-dir DIR/member --store cql://db/readstates
    readstates serve --ring file:ring --member b --listen 10.0.0.1:7500 \\
         --admin-listen 127.0.0.1:7501 --members-tls-dir DIR/member --store cql://db/readstates
    readstates rebalance --ring file:ring --operator-tls-dir DIR/operator
  Renew expiring certificates (see the metric readstates_certificate_expires_timestamp_seconds):
    readstates certificates DIR";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  Create or verify keyspace and table, and claim the keyspace for the cluster chat:
    readstates schema --store cql://db-0/readstates --replication dc1=3 --claim chat
    readstates serve --store cql://db-0/readstates --claim chat
  Take it over from the cluster chat-old, which is gone for good:
    readstates schema --store cql://db-0/readstates --replication dc1=3 --claim chat \\
         --take-over-claim chat-old";
