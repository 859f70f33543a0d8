//! Flags, their environment variables, and the help that explains them.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use readstates_bench::BenchArgs;
use readstates_identity::ClusterName;

use super::{
    CallerArgs, Limits, ListenArgs, ObserveArgs, RingArgs, RingPlace, StoreConfig, UserArgs,
};
use crate::{
    cache::FlushMode,
    store::{ClaimName, Replication},
};

/// The database driver speaks of each attempt to connect; the store says so once, and why.
const DEFAULT_LOG: &str = "info,scylla=warn,scylla::cluster=off";

/// Keeps what every user has read of every channel.
#[derive(Debug, Parser)]
#[command(name = "readstates", version, max_term_width = 100)]
pub struct Cli {
    /// What to log: a level, or levels by module as in info,readstates=debug. Human-readable on a
    /// terminal, JSON otherwise.
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
    /// Answer requests.
    Serve(Box<ServeArgs>),
    /// Make or verify the keyspace and the table of a CQL database.
    Schema(Box<SchemaArgs>),
    /// Have the members of a ring in a folder hand slots on until all own as many.
    Rebalance(RebalanceArgs),
    /// Show or delete what a running service has of a user.
    User(UserArgs),
    /// Put load on members, and measure or check what comes of it.
    Bench(Box<BenchArgs>),
    /// Make a token for a caller of the API, and print it with the hash that the access file wants.
    Token(TokenArgs),
    /// Make the certificates with which members and an operator outside of Kubernetes know each other.
    Certificates(CertificatesArgs),
    /// Print the OpenAPI document of the HTTP API.
    Openapi(OpenapiArgs),
}

/// Flags of `readstates openapi`.
#[derive(Debug, Args)]
pub struct OpenapiArgs {
    /// That of the admin port and of the port for probes instead.
    #[arg(long)]
    pub admin: bool,
}

/// Flags of `readstates serve`.
#[derive(Debug, Args)]
#[command(after_long_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Where it listens, and for whom.
    #[command(flatten)]
    pub listen: ListenArgs,

    /// Where blocks are kept: `memory`, gone with the process; `embedded:DIR`, a folder of this
    /// process's own; `cql://HOST[,HOST...][:PORT]/KEYSPACE`, Cassandra or ScyllaDB.
    #[arg(
        long,
        env = "READSTATES_STORE",
        default_value = "embedded:readstates-data"
    )]
    pub store: StoreConfig,

    /// How long after its first change a user is written to the store at the latest; one write takes all
    /// changes made meanwhile. A crash loses this much at most; a stop loses nothing.
    #[arg(
        long,
        env = "READSTATES_FLUSH_INTERVAL",
        default_value = "30s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub flush_interval: Duration,

    /// `adaptive`: a user is written a second after its first change when the store has time for it, and after
    /// the flush interval at the latest. `interval`: only then, which makes fewer writes and loses more in a crash.
    #[arg(
        long,
        env = "READSTATES_FLUSH_MODE",
        value_enum,
        default_value_t,
        value_name = "MODE"
    )]
    pub flush_mode: FlushMode,

    /// How many read states are kept in memory. Users who have not been seen for longest go first. They
    /// take 34 bytes each at most; an embedded store caches pages of its file in a sixteenth of that besides,
    /// at least 4 MiB and at most 64 MiB.
    #[arg(
        long,
        env = "READSTATES_CAPACITY_STATES",
        default_value_t = 1_000_000,
        allow_negative_numbers = true,
        value_name = "N"
    )]
    pub capacity_states: u64,

    /// Who may call the API, and over TLS or not.
    #[command(flatten)]
    pub callers: CallerArgs,

    /// Where the ring is kept, and as whom this member is in it.
    #[command(flatten)]
    pub ring: RingArgs,

    /// How to log in to a CQL database.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// How long a stop (SIGTERM, SIGINT) may take to hand on what is owned and to write what is not
    /// written. When it is over, the process exits with status 1 and says how many users were not
    /// written.
    #[arg(
        long,
        env = "READSTATES_DRAIN_TIMEOUT",
        default_value = "280s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub drain_timeout: Duration,

    /// Threads that answer clients. Absent: one for each core that this process may use.
    #[arg(long, env = "READSTATES_WORKERS", value_name = "N")]
    pub workers: Option<NonZeroUsize>,

    /// What is refused, and who is not waited for.
    #[command(flatten)]
    pub limits: Limits,

    /// What is said about requests.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Flags of `readstates token`.
#[derive(Debug, Args)]
#[command(after_long_help = TOKEN_EXAMPLES)]
pub struct TokenArgs {
    /// Make none: print the hash of the token in this file.
    #[arg(long, value_name = "FILE")]
    pub of: Option<PathBuf>,
}

/// Flags of `readstates rebalance`.
#[derive(Debug, Args)]
pub struct RebalanceArgs {
    /// The folder that the members were given: file:DIR.
    #[arg(long, env = "READSTATES_RING")]
    pub ring: RingPlace,

    /// A folder with ca.crt, tls.crt and tls.key of the operator, for members that were given
    /// --members-tls-dir: DIR/operator of `readstates certificates DIR`.
    #[arg(long, env = "READSTATES_OPERATOR_TLS_DIR", value_name = "DIR")]
    pub operator_tls_dir: Option<PathBuf>,
}

/// Flags of `readstates certificates`.
#[derive(Debug, Args)]
#[command(after_long_help = CERTIFICATES_EXAMPLES)]
pub struct CertificatesArgs {
    /// Where to put them: the authority in ca.crt and ca.key, which stays secret and on one machine; a
    /// member's ca.crt, tls.crt and tls.key in DIR/member, an operator's in DIR/operator. An authority that
    /// is there is kept, and issues new certificates; processes that run take them within ten seconds.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// The name of the cluster. Processes of another one are not believed.
    #[arg(long, default_value = "local", value_name = "NAME")]
    pub cluster: ClusterName,

    /// For how many days a member's and an operator's certificate are valid.
    #[arg(
        long,
        default_value_t = 365,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=3650)
    )]
    pub days: u16,
}

/// How to reach a CQL database, and to log in to it.
#[derive(Debug, Default, Args)]
pub struct CqlArgs {
    /// The name of this cluster, which no other has: `schema` claims the keyspace of a CQL database with it, and members
    /// work on no keyspace that another has claimed. Give all members of a cluster the same. Without it a keyspace
    /// is not claimed, and one that is claimed is refused.
    #[arg(long, env = "READSTATES_CLAIM", value_name = "NAME")]
    pub claim: Option<ClaimName>,

    /// The data centre whose nodes are asked; needed when the database has several.
    #[arg(long, env = "READSTATES_CQL_LOCAL_DC", value_name = "DC")]
    pub cql_local_dc: Option<String>,

    /// The user, for a database that asks for one.
    #[arg(
        long,
        env = "READSTATES_CQL_USER",
        requires = "cql_password_file",
        value_name = "USER"
    )]
    pub cql_user: Option<String>,

    /// A file that holds the password and nothing else. It is read again for every connection.
    #[arg(
        long,
        env = "READSTATES_CQL_PASSWORD_FILE",
        requires = "cql_user",
        value_name = "FILE"
    )]
    pub cql_password_file: Option<PathBuf>,

    /// A file with the certificates (PEM) of the CAs that sign those of the database's nodes. With it every
    /// connection is over TLS, and a node is believed only when its certificate is for its address or for a
    /// host of --store. The files of certificates are read again for every new connection; connections that
    /// are open stay as they are.
    #[arg(long, env = "READSTATES_CQL_CA_FILE", value_name = "FILE")]
    pub cql_ca_file: Option<PathBuf>,

    /// The certificate (PEM, with those between it and its CA) that is shown to a database which asks
    /// for one.
    #[arg(
        long,
        env = "READSTATES_CQL_CERT_FILE",
        requires_all = ["cql_ca_file", "cql_key_file"],
        value_name = "FILE"
    )]
    pub cql_cert_file: Option<PathBuf>,

    /// Its private key (PEM, not encrypted).
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

    /// Replicas in each data centre: DC=N[,DC=N...]. A keyspace that is there must have at least these; it is not
    /// altered.
    #[arg(long, env = "READSTATES_REPLICATION", value_name = "DC=N,...")]
    pub replication: Replication,

    /// How to log in.
    #[command(flatten)]
    pub cql: CqlArgs,

    /// The database is this cluster's alone: a keyspace that has other replicas is altered, and a claim of another
    /// cluster is taken over.
    #[arg(long, env = "READSTATES_OWN_DATABASE")]
    pub own_database: bool,

    /// What a person who finds the claim of --claim would look for, such as the address of the cluster.
    #[arg(
        long,
        env = "READSTATES_CLAIM_HOLDER",
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub claim_holder: String,

    /// Take the keyspace over from the cluster of this name, which must be gone for good: what it still writes is
    /// lost, and what it has not written yet is never seen. Its members stop working within a minute.
    #[arg(
        long,
        env = "READSTATES_TAKE_OVER_CLAIM",
        requires = "claim",
        value_name = "NAME"
    )]
    pub take_over_claim: Option<ClaimName>,

    /// A file with the password that the superuser `cassandra` is to have. With it the command logs in
    /// as `cassandra`, changes the password that every new database has to this one, and makes the role
    /// of --cql-user, which may read and write the table and nothing else. Without it, --cql-user
    /// makes the keyspace and the table itself.
    #[arg(
        long,
        env = "READSTATES_SUPERUSER_PASSWORD_FILE",
        requires = "cql_user",
        value_name = "FILE"
    )]
    pub superuser_password_file: Option<PathBuf>,

    /// How long to wait for a database that does not answer yet.
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
  Over TLS, its nodes' certificates being for db-0 or db-1:
    readstates serve --store cql://db-0,db-1:9042/readstates --cql-ca-file ca.crt
  With callers, over TLS (`readstates token` makes a token; --help says what is in the file):
    readstates serve --access access.yaml --tls-cert-file tls.crt --tls-key-file tls.key
    curl --cacert ca.crt https://localhost:7400/v1/ring -H 'authorization: Bearer rst_...'
  Two members that share the users between them:
    readstates serve --ring file:ring --member a --store cql://db/readstates
    readstates serve --ring file:ring --member b --store cql://db/readstates \\
         --listen 127.0.0.1:7500 --admin-listen 127.0.0.1:7501
    readstates rebalance --ring file:ring";

const TOKEN_EXAMPLES: &str = "\
The caller keeps the token and sends it with every request: Authorization: Bearer TOKEN. Members keep the hash, in
the file of --access. To replace a token, add the hash of the new one, give the caller the new one, and take the
old hash out: both are valid meanwhile.

Examples:
  A new one:
    readstates token
  The hash of one that was made elsewhere:
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
  Renew what expires (the metric readstates_certificate_expires_timestamp_seconds says when):
    readstates certificates DIR";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  Make or verify keyspace and table, and claim the keyspace for the cluster chat:
    readstates schema --store cql://db-0/readstates --replication dc1=3 --claim chat
    readstates serve --store cql://db-0/readstates --claim chat
  Take it over from the cluster chat-old, which is gone for good:
    readstates schema --store cql://db-0/readstates --replication dc1=3 --claim chat \\
         --take-over-claim chat-old";
