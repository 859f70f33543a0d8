//! Ways from here to the cache pods, for clients that ask the owner itself.
//!
//! The ring names members by addresses that only pods can reach. Each pod's name gets a port of this machine that
//! leads to whichever pod has the name, by the API server's port-forward; a client translates one into the other.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use readstates_api::RingDocument;
use readstates_client::{Client, Config, Routing};
use readstates_ledger::Kind;

use crate::{cluster::Cluster, forward::Forward, specs::TOKEN};

const PORT: u16 = 7400;
/// Pods that are always there while a cluster is scaled, and one that often is.
const SEEDS: usize = 3;
/// A call outlasts a planned change.
const DEADLINE: Duration = Duration::from_secs(45);

/// A local port for each cache pod, as long as this lives.
#[derive(Debug)]
pub struct Ways {
    forwards: BTreeMap<String, Forward>,
    cluster: Cluster,
}

impl Cluster {
    /// Ways to the first `most` cache pods, whether they are there or not.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub async fn ways(&self, most: usize) -> Result<Ways> {
        let mut forwards = BTreeMap::new();
        for ordinal in 0..most {
            let pod = format!("{}-{ordinal}", self.name);
            let forward = Forward::quiet(self.api::<Pod>(), &pod, PORT).await?;
            forwards.insert(pod, forward);
        }
        Ok(Ways {
            forwards,
            cluster: self.clone(),
        })
    }
}

impl Ways {
    /// A client that knows as much of the ring as its kind does.
    ///
    /// # Errors
    /// When it cannot be started, or there is no ring to give to a client that needs one from the beginning.
    pub async fn client(&self, kind: Kind) -> Result<Client> {
        Ok(Client::start(self.config(kind).await?)?)
    }

    async fn config(&self, kind: Kind) -> Result<Config> {
        let urls: BTreeMap<String, String> = self
            .forwards
            .iter()
            .map(|(pod, forward)| (pod.clone(), format!("http://{}", forward.address)))
            .collect();
        let config = Config::new(urls.values().take(SEEDS))?
            .token(TOKEN)?
            .deadline(DEADLINE)
            // A client that gave up early would have less to lose.
            .retry_budget(10_000, 10.0);
        let config = match kind {
            Kind::Smart => config,
            Kind::Stale => config.routing(Routing::Fixed(Box::new(self.ring().await?))),
            Kind::Dumb => config.routing(Routing::Seeds),
        };
        Ok(config.translate(move |member| urls.get(&member.name).cloned()))
    }

    /// A client that sends each request once, without retries.
    ///
    /// # Errors
    /// As [`Ways::client`].
    pub async fn historian(&self) -> Result<Client> {
        Ok(Client::start(
            self.config(Kind::Smart).await?.retry_budget(0, 0.0),
        )?)
    }

    /// A client of each kind.
    ///
    /// # Errors
    /// As [`Ways::client`].
    pub async fn clients(&self) -> Result<Vec<(Kind, Client)>> {
        let mut clients = Vec::new();
        for kind in [Kind::Smart, Kind::Stale, Kind::Dumb] {
            clients.push((kind, self.client(kind).await?));
        }
        Ok(clients)
    }

    async fn ring(&self) -> Result<RingDocument> {
        let service = self.cluster.service()?;
        let ring = service.send("GET", "/v1/ring", None).await;
        ring.context("no pod gives the ring")
    }
}
