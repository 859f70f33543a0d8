//! Names that are given in one place and found again in another: of containers, of variables of their environments, of keys
//! of Secrets, and of ports.

pub mod ports;

/// Name of the agent's container in a database pod.
pub const AGENT: &str = "agent";
/// Name of the container that puts a super-disk together.
pub const DISK: &str = "disk";
/// Name of the container of the super-disk's agent.
pub const DISK_AGENT: &str = "disk-agent";
/// Name of the container of a cache pod that keeps read states.
pub const CACHE: &str = "readstates";
/// Name of the container of a database pod that the database runs in.
pub const DATABASE: &str = "database";
/// Names of the containers that a cache pod and a database pod are there for.
pub const MAIN_CONTAINERS: [&str; 2] = [CACHE, DATABASE];
/// Name of the volume with the certificates with which a pod proves its identity.
pub const IDENTITY: &str = "identity";
/// Name of the container that makes a backup.
pub const CREATE: &str = "create";
/// Name of the container that reads one and checks it.
pub const VERIFY: &str = "verify";
/// Name of the container that deletes old ones.
pub const PRUNE: &str = "prune";
/// Name of the container that makes or verifies keyspace and table of the target.
pub const SCHEMA: &str = "schema";
/// Name of the container that copies.
pub const COPY: &str = "copy";
/// Name of the container that restores.
pub const RESTORE: &str = "restore";
/// `--store`: the database of a cache pod.
pub const STORE: &str = "READSTATES_STORE";
/// `--moving-to`: the database that the table moves to. A person sets it.
pub const MOVING_TO: &str = "READSTATES_MOVING_TO";
/// Keys of the Secret with the credentials of a bucket.
pub const ACCESS_KEY_ID: &str = "accessKeyId";
/// See [`ACCESS_KEY_ID`].
pub const SECRET_ACCESS_KEY: &str = "secretAccessKey";
/// The key of the user's name in a Secret with a login.
pub const USERNAME_KEY: &str = "username";
pub const PASSWORD_KEY: &str = "password";
/// Keys that a Secret with a login must have.
pub const SECRET_KEYS: [&str; 2] = [USERNAME_KEY, PASSWORD_KEY];
/// The key of the token in its Secret.
pub const TOKEN_KEY: &str = "token";
/// The key of the Secret for cache pods under which the CAs are.
pub const CLIENT_CA_FILE: &str = "client-ca.crt";
