//! A session with the database and the two statements that are all the service needs.

use std::collections::BTreeSet;

use readstates_ring::{Stamp, slot::mix64};
use scylla::{
    client::{execution_profile::ExecutionProfileHandle, session::Session},
    errors::PrepareError,
    frame::response::result::TableSpec,
    statement::prepared::PreparedStatement,
};

use super::{
    ClaimName, CqlLogin, CqlTarget, Other, Part, StoreError, Stored, TABLE,
    claim::Sight,
    claim_table, restore_table, schema,
    session::{SessionError, read_profile, scan_profile, session},
};
use crate::store::{BegunRestore, scan::ROWS_PER_PAGE};

/// A session that has found the table.
pub(super) struct Connection {
    session: Session,
    load: PreparedStatement,
    save: PreparedStatement,
    scan_profile: ExecutionProfileHandle,
    local_datacenter: Option<String>,
    keyspace: String,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("failed to open a session")]
    Session(#[from] SessionError),
    #[error(
        "the database has no table {keyspace}.{TABLE}; create it with: readstates schema --store {target} --replication DC=N"
    )]
    NoTable { keyspace: String, target: CqlTarget },
    #[error("failed to read the schema")]
    Schema(#[from] schema::SchemaError),
    #[error("failed to prepare a statement")]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Claimed(#[from] ClaimedByAnother),
    #[error(
        "backup {} is being restored into keyspace {keyspace} since {}, and that has not come to its end: members serve \
         when it has. If it never will, give them another keyspace", begun.backup, begun.since
    )]
    HalfRestored {
        keyspace: String,
        begun: BegunRestore,
    },
    /// What was written through one of them would not be found through another.
    #[error(
        "the database has several data centres ({}), and none is named to be asked; give one with --cql-local-dc",
        names.join(", ")
    )]
    SeveralDatacenters { names: Vec<String> },
}

impl ConnectError {
    /// Whether it stays so until a person does something.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::NoTable { .. } | Self::Claimed(_) | Self::SeveralDatacenters { .. } => true,
            Self::Schema(error) => matches!(error, schema::SchemaError::OtherTable { .. }),
            // A restore comes to its end.
            Self::Session(_) | Self::Prepare(_) | Self::HalfRestored { .. } => false,
        }
    }
}

/// The keyspace is another cluster's.
#[derive(Debug, thiserror::Error)]
#[error(
    "keyspace {keyspace} is claimed by {by}, and {}: two clusters must not write one keyspace",
    me.as_ref().map_or_else(
        || "this member has no claim; give it with --claim if it is of that cluster".to_owned(),
        |me| format!("this member is of {me}")
    )
)]
pub(super) struct ClaimedByAnother {
    keyspace: String,
    by: Other,
    me: Option<ClaimName>,
}

impl Connection {
    pub(super) async fn open(target: &CqlTarget, login: &CqlLogin) -> Result<Self, ConnectError> {
        let session = session(target, login).await?;
        if let Some(refusal) = no_datacenter(&session, login) {
            return Err(refusal);
        }
        if !schema::table_exists(&session, &target.keyspace).await? {
            let keyspace = target.keyspace.clone();
            return Err(ConnectError::NoTable {
                keyspace,
                target: target.clone(),
            });
        }
        schema::verify_columns(&session, &target.keyspace).await?;
        if let Some(refusal) = claimed_by_another(&session, target, login).await? {
            return Err(refusal.into());
        }

        let table = format!("{}.{TABLE}", target.keyspace);
        let load = format!("SELECT block, WRITETIME(block) FROM {table} WHERE user_id = ?");
        let save = format!("UPDATE {table} USING TIMESTAMP ? SET block = ? WHERE user_id = ?");
        let mut load = session.prepare(load).await?;
        load.set_is_idempotent(true);
        load.set_execution_profile_handle(Some(read_profile(login)));
        let mut save = session.prepare(save).await?;
        save.set_is_idempotent(true);
        Ok(Self {
            session,
            load,
            save,
            scan_profile: scan_profile(login),
            local_datacenter: login.local_datacenter.clone(),
            keyspace: target.keyspace.clone(),
        })
    }

    /// Says that a member serves from the keyspace, unless a restore into it is half done.
    pub(super) async fn enter(&self) -> Result<(), ConnectError> {
        let keyspace = self.keyspace.clone();
        match restore_table::enter(&self.session, &keyspace).await? {
            None => Ok(()),
            Some(begun) => Err(ConnectError::HalfRestored { keyspace, begun }),
        }
    }

    /// Refuses a keyspace into which a restore is half done.
    pub(super) async fn is_whole(&self) -> Result<(), ConnectError> {
        let keyspace = self.keyspace.clone();
        match restore_table::half_done(&self.session, &keyspace).await? {
            None => Ok(()),
            Some(begun) => Err(ConnectError::HalfRestored { keyspace, begun }),
        }
    }

    /// Whether the keyspace is another cluster's.
    pub(super) async fn claimed_by_another(
        &self,
        target: &CqlTarget,
        login: &CqlLogin,
    ) -> Result<Option<ClaimedByAnother>, schema::SchemaError> {
        claimed_by_another(&self.session, target, login).await
    }

    /// The shards of the nodes that are asked first; a node that says nothing of shards is one.
    pub(super) fn shards(&self) -> usize {
        let cluster = self.session.get_cluster_state();
        let nodes = cluster.get_nodes_info().iter();
        let ours = nodes.filter(|node| {
            self.local_datacenter.is_none() || node.datacenter == self.local_datacenter
        });
        ours.map(|node| {
            node.sharder()
                .map_or(1, |sharder| usize::from(sharder.nr_shards.get()))
        })
        .sum()
    }

    /// The replicas of a user's block, in the data centre whose quorum is asked. Two sets that have all
    /// nodes in common are one part; the order in which the ring names them does not matter.
    ///
    /// Not the token range: with virtual nodes or tablets, neighbours on the ring lie on different
    /// nodes, and every range of some size has users on each of them.
    pub(super) fn part(&self, user: u64) -> Part {
        let cluster = self.session.get_cluster_state();
        let token = self.load.calculate_token(&(as_bigint(user),));
        let (Ok(Some(token)), Some(keyspace)) = (token, cluster.get_keyspace(&self.keyspace))
        else {
            return Part::default();
        };
        let table = TableSpec::borrowed(&self.keyspace, TABLE);
        let datacenter = self.local_datacenter.as_deref();
        let replicas = cluster.replica_locator().replicas_for_token(
            token,
            &keyspace.strategy,
            datacenter,
            &table,
        );
        let hosts = replicas.into_iter().map(|(node, _)| node.host_id.as_u128());
        part_of(hosts)
    }

    pub(super) async fn load(&self, user: u64) -> Result<Option<Stored>, StoreError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            StoreError::new("load a block", source)
        };
        let result = self
            .session
            .execute_unpaged(&self.load, (as_bigint(user),))
            .await
            .map_err(|error| failed(error.into()))?
            .into_rows_result()
            .map_err(|error| failed(error.into()))?;
        let row = result
            .maybe_first_row::<(Option<Vec<u8>>, Option<i64>)>()
            .map_err(|error| failed(error.into()))?;
        Ok(match row {
            Some((Some(bytes), Some(timestamp))) => Some(Stored {
                bytes,
                stamp: Stamp::from_database(timestamp),
            }),
            Some((None, _) | (_, None)) | None => None,
        })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The statement that reads the rows between two tokens, both included.
    pub(super) async fn prepare_scan(&self) -> Result<PreparedStatement, StoreError> {
        let scan = format!(
            "SELECT user_id, block, WRITETIME(block) FROM {}.{TABLE} WHERE token(user_id) >= ? AND token(user_id) <= ?",
            self.keyspace
        );
        let prepared = self.session.prepare(scan).await;
        let mut scan = prepared.map_err(|error| StoreError::new("prepare a scan", error))?;
        scan.set_is_idempotent(true);
        scan.set_page_size(ROWS_PER_PAGE as i32);
        scan.set_execution_profile_handle(Some(self.scan_profile.clone()));
        Ok(scan)
    }

    pub(super) async fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> Result<(), StoreError> {
        self.session
            .execute_unpaged(&self.save, (stamp.as_database(), bytes, as_bigint(user)))
            .await
            .map(|_| ())
            .map_err(|error| StoreError::new("write a block", error))
    }
}

async fn claimed_by_another(
    session: &Session,
    target: &CqlTarget,
    login: &CqlLogin,
) -> Result<Option<ClaimedByAnother>, schema::SchemaError> {
    let keyspace = &target.keyspace;
    let me = login.claim.as_ref();
    Ok(match claim_table::look(session, keyspace, me).await? {
        Sight::Ours => None,
        Sight::Nobodys => {
            if let Some(me) = me {
                tracing::warn!(keyspace, claim = %me, "no cluster has claimed the keyspace; run `readstates schema`");
            }
            None
        }
        Sight::Others(by) => Some(ClaimedByAnother {
            keyspace: keyspace.clone(),
            by,
            me: me.cloned(),
        }),
    })
}

/// The refusal of a database with several data centres, when it is not said which one is asked.
pub(super) fn no_datacenter(session: &Session, login: &CqlLogin) -> Option<ConnectError> {
    let cluster = session.get_cluster_state();
    let of_nodes = cluster.get_nodes_info().iter();
    let names = of_nodes.filter_map(|node| node.datacenter.as_deref());
    let names = several(names).filter(|_| login.local_datacenter.is_none())?;
    Some(ConnectError::SeveralDatacenters { names })
}

/// The data centres of nodes, when there are several. One of them has to be named then: LOCAL_QUORUM is local
/// to whichever node is asked, and a quorum in one data centre need not have what a quorum in another was given.
fn several<'a>(of_nodes: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let names: BTreeSet<&str> = of_nodes.collect();
    (names.len() > 1).then(|| names.into_iter().map(str::to_owned).collect())
}

/// The part that has these replicas.
fn part_of(hosts: impl Iterator<Item = u128>) -> Part {
    let mixed = hosts.map(|host| mix64((host >> 64) as u64 ^ mix64(host as u64)));
    Part::new(mix64(mixed.fold(0, u64::wrapping_add)))
}

/// A CQL bigint has a sign and a user id has none: the same 64 bits.
fn as_bigint(user: u64) -> i64 {
    user.cast_signed()
}

#[cfg(test)]
mod tests;
