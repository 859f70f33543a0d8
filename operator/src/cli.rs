//! The command line.

use std::net::SocketAddr;

use clap::{Args, Parser, Subcommand};
use readstates_agent::{AgentCommand, engine::Profile};
use readstates_operator_api::Engine;

/// The Kubernetes operator of Readstates.
#[derive(Debug, Parser)]
#[command(name = "operator", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reconcile `ReadStateClusters` until told to stop. Uses the service account of its pod, or
    /// the current kubeconfig outside a cluster.
    Run(RunArgs),
    /// Print the custom resource definitions as YAML.
    Crd,
    /// Manage the database in this pod. The operator runs this in database pods.
    #[command(subcommand)]
    Agent(AgentCommand),
}

/// Flags of `operator run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Namespace to watch; repeatable. Default: all namespaces.
    #[arg(long = "watch-namespace", value_name = "NAMESPACE")]
    pub watch_namespaces: Vec<String>,

    /// Image of cache pods and schema Jobs, for clusters that do not set one.
    #[arg(long, env = "READSTATES_IMAGE", value_name = "IMAGE")]
    pub readstates_image: String,

    /// Image of Cassandra nodes, for clusters that do not set one.
    #[arg(
        long,
        env = "CASSANDRA_IMAGE",
        value_name = "IMAGE",
        default_value = Profile::of(Engine::Cassandra).image
    )]
    pub cassandra_image: String,

    /// Image of `ScyllaDB` nodes, for clusters that do not set one.
    #[arg(
        long,
        env = "SCYLLA_IMAGE",
        value_name = "IMAGE",
        default_value = Profile::of(Engine::Scylla).image
    )]
    pub scylla_image: String,

    /// Image of the agent in database pods: the image of this program.
    #[arg(long, env = "OPERATOR_IMAGE", value_name = "IMAGE")]
    pub agent_image: String,

    /// Image of the containers that manage super-disks, for clusters that do not set one. Default: none, and clusters with
    /// super-disks have to name one.
    #[arg(long, env = "SUPERDISK_IMAGE", value_name = "IMAGE")]
    pub superdisk_image: Option<String>,

    /// Secret with the credentials of the images' registry, for clusters that do not set any; repeatable. It is one in the
    /// namespace of each cluster.
    #[arg(long = "image-pull-secret", value_name = "NAME")]
    pub image_pull_secrets: Vec<String>,

    /// Address that serves /livez, /readyz and /metrics.
    #[arg(
        long,
        env = "OPERATOR_LISTEN",
        value_name = "ADDR",
        default_value = "[::]:8080"
    )]
    pub listen: SocketAddr,

    /// Namespace of the operator's pod and of the leader election Lease. NetworkPolicies admit the operator only from
    /// this namespace. Default: the namespace of the service account or kubeconfig.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// Name of the Lease; operators of two releases in one namespace need different ones.
    #[arg(
        long,
        env = "LEASE_NAME",
        value_name = "NAME",
        default_value = crate::lease::NAME
    )]
    pub lease_name: String,

    /// Maximum number of clusters reconciled at once.
    #[arg(
        long,
        env = "MAX_CONCURRENT_RECONCILES",
        value_name = "NUMBER",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub max_concurrent_reconciles: u16,

    /// Maximum number of clusters that restart serving pods at once; 0: any number. Others wait until one of them is
    /// done.
    #[arg(
        long,
        env = "MAX_CLUSTERS_IN_ROLLOUT",
        value_name = "NUMBER",
        default_value_t = 0
    )]
    pub max_clusters_in_rollout: u16,

    /// ClusterRole that lets cache pods create TokenReviews; they are bound to it if a `ReadStateCluster` has callers
    /// with service accounts. Absent: such callers are refused.
    #[arg(long, env = "TOKEN_REVIEW_ROLE", value_name = "NAME")]
    pub token_review_role: Option<String>,

    /// Name under which this process holds the Lease. Default: generated at start.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,

    /// Log level, or directives such as `info,kube=warn`.
    #[arg(
        long,
        env = "OPERATOR_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_level: String,
}
