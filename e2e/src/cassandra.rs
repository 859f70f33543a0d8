//! The rows behind a cluster, read by a driver of our own through a port-forward.
//!
//! The database gives the driver pod addresses, which cannot be reached from outside the cluster; a table
//! translates each to the local end of the forward to that pod.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use readstates::{block::State, codec};
use scylla::client::{PoolSize, session::Session, session_builder::SessionBuilder};

use crate::{forward::Forward, http::ReadState};

/// Where CQL is spoken in every database pod.
const CQL_PORT: u16 = 9042;

/// A session with a cluster's database.
#[derive(Debug)]
pub struct Cassandra {
    session: Session,
    _forwards: Vec<Forward>,
}

/// What is stored of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The packed read states.
    pub block: Vec<u8>,
    /// The write's own timestamp, which decides between two writes.
    pub written: i64,
}

impl Cassandra {
    pub(crate) async fn connect(
        pods: &Api<Pod>,
        members: &[Pod],
        (user, password): (String, String),
    ) -> Result<Self> {
        let mut forwards = Vec::new();
        let mut ips: Vec<IpAddr> = Vec::new();
        for member in members {
            let ip = member
                .status
                .as_ref()
                .and_then(|status| status.pod_ip.as_deref());
            let ip = ip.with_context(|| format!("{} has no address", member.name_any()))?;
            ips.push(ip.parse()?);
            forwards.push(Forward::to(pods.clone(), &member.name_any(), CQL_PORT).await?);
        }
        // The driver expects every member on the port that it reached the first one by.
        let ports: Vec<u16> = forwards
            .iter()
            .map(|forward| forward.address.port())
            .collect();
        let mut translation: HashMap<SocketAddr, SocketAddr> = HashMap::new();
        for (ip, forward) in ips.iter().zip(&forwards) {
            let rules = ports
                .iter()
                .chain([&CQL_PORT])
                .map(|port| SocketAddr::new(*ip, *port));
            translation.extend(rules.map(|address| (address, forward.address)));
        }
        ensure!(!forwards.is_empty(), "the cluster has no database pod");
        let session = SessionBuilder::new()
            .known_nodes_addr(forwards.iter().map(|forward| forward.address))
            .address_translator(Arc::new(translation))
            .user(user, password)
            .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
            .build()
            .await
            .context("failed to reach the database through a port-forward")?;
        Ok(Self {
            session,
            _forwards: forwards,
        })
    }

    /// What is stored of a user.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn row(&self, user: u64) -> Result<Option<Row>> {
        let query = "SELECT block, WRITETIME(block) FROM readstates.read_states WHERE user_id = ?";
        let rows = self
            .session
            .query_unpaged(query, (user.cast_signed(),))
            .await?;
        let row = rows
            .into_rows_result()?
            .maybe_first_row::<(Vec<u8>, i64)>()?;
        Ok(row.map(|(block, written)| Row { block, written }))
    }
}

impl Row {
    /// The read states in it, by the service's own codec, in the words of the API.
    ///
    /// # Errors
    /// When the block is none.
    pub fn read_states(&self) -> Result<Vec<ReadState>> {
        let decoded = codec::decode(&self.block)?;
        decoded.block.states().map(read_state).collect()
    }

    /// The user's version.
    ///
    /// # Errors
    /// When the block is none.
    pub fn version(&self) -> Result<u64> {
        Ok(codec::decode(&self.block)?.block.version())
    }
}

/// In a block, 0 says that there is none.
fn read_state(state: State) -> Result<ReadState> {
    let State {
        channel,
        last_message,
        mention_count,
        flags,
        last_viewed,
        last_pin_millis,
        version,
    } = state;
    let pin = i64::try_from(last_pin_millis)?;
    let pin = (pin != 0)
        .then(|| Timestamp::from_millisecond(pin))
        .transpose()?;
    Ok(ReadState {
        channel_id: channel.to_string(),
        last_message_id: (last_message != 0).then(|| last_message.to_string()),
        mention_count,
        flags,
        last_viewed,
        last_pin_timestamp: pin.map(|pin| pin.to_string()),
        version: version.to_string(),
    })
}
