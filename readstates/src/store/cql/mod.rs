//! The store in a CQL database: Cassandra or ScyllaDB.
//!
//! One row per user, one cell per row: `read_states (user_id bigint PRIMARY KEY, block blob)`. Every
//! write binds its stamp as `USING TIMESTAMP`, so the database keeps the write of the later owner
//! whatever the order of arrival. Both statements are idempotent, and say so: the driver may send
//! them again. Reads and writes at LOCAL_QUORUM. No nulls, no deletes, no TTL: no tombstones.
//!
//! The store exists before the database answers: [`CqlStore::start`] returns at once and connects in
//! the background, again and again, saying why it could not.

mod claim;
mod claim_table;
mod connect;
mod foreign;
mod login;
mod replication;
mod restore_table;
mod roles;
mod scan;
mod schema;
mod session;
mod tls;

use std::{
    borrow::Cow,
    fmt,
    net::Ipv6Addr,
    str::FromStr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use claim::{Claim, ClaimName, Other, TakeOver};
use connect::Connection;
pub(crate) use foreign::{ForeignRow, ForeignScan, ForeignTable};
use futures::future::{BoxFuture, FutureExt};
pub use login::{CqlLogin, Credentials};
use parking_lot::Mutex;
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
pub use replication::Replication;
pub use restore_table::CqlRestores;
pub use roles::{SUPERUSER, apply_schema_with_roles};
pub use schema::{SchemaError, SchemaWish, TABLE_OPTIONS, apply_schema};
pub use session::SessionError;
pub use tls::{CqlTls, TlsFile, TlsFileError, TlsRefusal};
use tokio::task::AbortHandle;

use super::{Part, Store, StoreError, Stored, chain};

/// The table, in the keyspace of the target.
const TABLE: &str = "read_states";
/// The native protocol's usual port.
const DEFAULT_PORT: u16 = 9042;
/// A request waits for a read: better an error to answer than a late block.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Only the flusher waits for a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Between attempts to connect: the first wait, doubled up to the last.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(3);
/// Between two looks at whose the keyspace is.
const CLAIM_EVERY: Duration = Duration::from_mins(1);

/// Which database and keyspace: `cql://HOST[,HOST…][:PORT]/KEYSPACE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlTarget {
    /// Hosts to ask first; the driver finds the others. IPv6 addresses without brackets.
    pub hosts: Vec<String>,
    pub port: u16,
    pub keyspace: String,
}

impl FromStr for CqlTarget {
    type Err = String;

    /// Parses what follows `cql://`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write cql://HOST[,HOST...][:PORT]/KEYSPACE";
        let (authority, keyspace) = text
            .split_once('/')
            .ok_or_else(|| format!("the keyspace is missing; {form}"))?;
        let (hosts, port) = match authority.rsplit_once(':') {
            None => (authority, DEFAULT_PORT),
            // The colon is in an IPv6 address.
            Some(_) if authority.ends_with(']') => (authority, DEFAULT_PORT),
            Some((hosts, port)) => {
                let port = port.parse().ok().filter(|&port| port > 0);
                (
                    hosts,
                    port.ok_or_else(|| format!("the port is no port number; {form}"))?,
                )
            }
        };
        let host = |host: &str| match bare(host) {
            Some(host) => Ok(host.to_owned()),
            None => Err(format!(
                "{host:?} is no host name, IPv4 address or IPv6 address in brackets; {form}"
            )),
        };
        let hosts = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        if !is_keyspace(keyspace) {
            return Err(format!(
                "{keyspace:?} is no keyspace: use a lower-case letter, then up to 47 of a-z 0-9 _"
            ));
        }
        Ok(Self {
            hosts,
            port,
            keyspace: keyspace.to_owned(),
        })
    }
}

impl fmt::Display for CqlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts.iter().map(|host| bracketed(host)).collect();
        let Self { port, keyspace, .. } = self;
        write!(f, "cql://{}:{port}/{keyspace}", hosts.join(","))
    }
}

/// A host of a URL without the brackets of an IPv6 address; `None` where it is none.
pub(crate) fn bare(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.strip_suffix(']')?;
        return address.parse::<Ipv6Addr>().is_ok().then_some(address);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (!host.is_empty() && host.bytes().all(allowed)).then_some(host)
}

/// A host as it stands before a port.
pub(crate) fn bracketed(host: &str) -> Cow<'_, str> {
    match host.contains(':') {
        true => format!("[{host}]").into(),
        false => host.into(),
    }
}

fn is_keyspace(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=48).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(allowed)
}

/// Keeps blocks in a CQL database.
pub struct CqlStore {
    target: CqlTarget,
    shared: Arc<Shared>,
    connecting: AbortHandle,
}

struct Shared {
    connection: OnceLock<Connection>,
    /// Why the last attempt to connect failed, or why nothing may be read or written any more.
    reason: Mutex<String>,
    /// The last attempt failed for a reason that no waiting takes away.
    refused: AtomicBool,
    /// Another cluster has claimed the keyspace since this one connected.
    lost: AtomicBool,
}

impl CqlStore {
    /// The store, at once; the connection comes when the database answers.
    #[must_use]
    pub fn start(target: CqlTarget, login: CqlLogin) -> Self {
        Self::connect(target, login, Purpose::Copy)
    }

    /// The store of a member. While a restore into the keyspace is half done, it does not connect; once it has
    /// connected, no restore is begun there.
    #[must_use]
    pub fn serve(target: CqlTarget, login: CqlLogin) -> Self {
        Self::connect(target, login, Purpose::Serve)
    }

    fn connect(target: CqlTarget, login: CqlLogin, purpose: Purpose) -> Self {
        let shared = Arc::new(Shared {
            connection: OnceLock::new(),
            reason: Mutex::new("no attempt has ended yet".into()),
            refused: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        });
        // Ends when the store is dropped.
        let task = tokio::spawn(keep_trying(
            target.clone(),
            login,
            purpose,
            Arc::clone(&shared),
        ));
        Self {
            target,
            shared,
            connecting: task.abort_handle(),
        }
    }

    /// Why there is no connection, where a person has to do something about it: the table is missing or of
    /// another application, or another cluster has claimed the keyspace.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let refused = self.shared.refused.load(Ordering::Acquire);
        (refused && self.shared.connection.get().is_none())
            .then(|| self.shared.reason.lock().clone())
    }

    /// What tells the table from every other one: the id that the database gave it when it was made.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn table_id(&self) -> Result<String, StoreError> {
        let session = self.connection()?.session();
        let id = schema::table_id(session, &self.target.keyspace).await;
        id.map_err(|error| StoreError::new("read the id of the table", error))
    }

    /// Whether everything is there that will be: no restore into the keyspace is half done.
    ///
    /// # Errors
    /// When one is, or the database does not answer.
    pub(crate) async fn is_whole(&self) -> Result<(), StoreError> {
        let whole = self.connection()?.is_whole().await;
        whole.map_err(|error| StoreError::new("read the keyspace as a whole", error))
    }

    fn connection(&self) -> Result<&Connection, StoreError> {
        let lost = self.shared.lost.load(Ordering::Acquire);
        let connection = self.shared.connection.get().filter(|_| !lost);
        connection.ok_or_else(|| {
            let reason = self.shared.reason.lock().clone();
            StoreError::new("reach the database", format!("{}: {reason}", self.target))
        })
    }
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To serve clients from it.
    Serve,
    /// To copy all of it, or to look at it.
    Copy,
}

async fn keep_trying(target: CqlTarget, login: CqlLogin, purpose: Purpose, shared: Arc<Shared>) {
    let mut wait = FIRST_RETRY;
    loop {
        let opened = match (Connection::open(&target, &login).await, purpose) {
            (Ok(connection), Purpose::Serve) => connection.enter().await.map(|()| connection),
            (opened, _) => opened,
        };
        match opened {
            Ok(connection) => {
                tracing::info!(database = %target, "connected to the database");
                let connection = shared.connection.get_or_init(|| connection);
                watch_claim(connection, &target, &login, &shared).await
            }
            Err(error) => {
                let reason = chain(&error);
                tracing::warn!(database = %target, retry_in = ?wait, "no database yet: {reason}");
                *shared.reason.lock() = reason;
                let refused = error.is_refusal();
                shared.refused.store(refused, Ordering::Release);
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
    }
}

/// Looks whose the keyspace is, for ever. What cannot be seen changes nothing; what another cluster has claimed is
/// neither read nor written from then on, until that is this one's again.
async fn watch_claim(
    connection: &Connection,
    target: &CqlTarget,
    login: &CqlLogin,
    shared: &Shared,
) -> ! {
    loop {
        tokio::time::sleep(CLAIM_EVERY).await;
        match connection.claimed_by_another(target, login).await {
            Ok(None) => {
                if shared.lost.swap(false, Ordering::AcqRel) {
                    tracing::info!(database = %target, "the keyspace is this cluster's again");
                }
            }
            Ok(Some(refusal)) => {
                let reason = chain(&refusal);
                tracing::error!(database = %target, "nothing is read or written: {reason}");
                *shared.reason.lock() = reason;
                shared.lost.store(true, Ordering::Release);
            }
            Err(error) => {
                let reason = chain(&error);
                tracing::warn!(database = %target, "cannot tell whose the keyspace is: {reason}");
            }
        }
    }
}

impl Drop for CqlStore {
    fn drop(&mut self) {
        self.connecting.abort();
    }
}

impl fmt::Debug for CqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqlStore")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Store for CqlStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Cql
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move { self.connection()?.load(user).await }.boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.connection()?.save(user, bytes, stamp).await }.boxed()
    }

    fn shards(&self) -> usize {
        self.connection().map_or(1, Connection::shards)
    }

    fn part(&self, user: u64) -> Part {
        self.connection()
            .map_or_else(|_| Part::default(), |connection| connection.part(user))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // User 0 does not exist; the read needs a quorum all the same.
        async move { self.connection()?.load(0).await.map(|_| ()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_hosts_a_port_and_a_keyspace() {
        let target: CqlTarget = "db-0.chat,10.0.0.7:9043/readstates".parse().unwrap();
        assert_eq!(target.hosts, ["db-0.chat", "10.0.0.7"]);
        assert_eq!(
            (target.port, target.keyspace.as_str()),
            (9043, "readstates")
        );
        assert_eq!(
            target.to_string(),
            "cql://db-0.chat,10.0.0.7:9043/readstates"
        );
        assert_eq!("db/ks".parse::<CqlTarget>().unwrap().port, 9042);
    }

    #[test]
    fn an_ipv6_address_has_brackets_in_a_target_and_none_for_certificates() {
        let target: CqlTarget = "[fd00::7],db-0,[fd00::8]:9043/ks".parse().unwrap();
        assert_eq!(target.hosts, ["fd00::7", "db-0", "fd00::8"]);
        assert_eq!(target.port, 9043);
        assert_eq!(target.to_string(), "cql://[fd00::7],db-0,[fd00::8]:9043/ks");
        let target: CqlTarget = "[fd00::7]/ks".parse().unwrap();
        assert_eq!(target.to_string(), "cql://[fd00::7]:9042/ks");
        for text in ["fd00::7/ks", "[fd00::7/ks", "[db]/ks", "[10.0.0.7]:9042/ks"] {
            let refusal = text.parse::<CqlTarget>().unwrap_err();
            assert!(
                refusal.contains("port number") || refusal.contains("in brackets"),
                "{text}: {refusal}"
            );
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_the_part_at_fault() {
        for (text, part) in [
            ("db", "keyspace is missing"),
            ("db:0/ks", "no port number"),
            ("db:x/ks", "no port number"),
            ("/ks", "\"\" is no host name"),
            ("a,,b/ks", "\"\" is no host name"),
            ("a b/ks", "\"a b\" is no host name"),
            ("db/", "\"\" is no keyspace"),
            ("db/Ks", "\"Ks\" is no keyspace"),
            ("db/ks;drop", "is no keyspace"),
        ] {
            let refusal = text.parse::<CqlTarget>().unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
