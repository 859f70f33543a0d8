//! `ScyllaDB`, by its REST API on loopback, to its documentation (api/api-doc of its repository): it
//! was run against a fake of that API, not against the database itself.

mod profile;
mod repair;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

pub(super) use self::profile::PROFILE;
use super::{EngineError, LocalNode, Look, Pools, canonical};
use crate::wire::{Facts, Keyspace, Mode, Node, NodeState, Ranges, SNAPSHOTS, UpgradeStep};

const PATIENCE: Duration = Duration::from_secs(10);
/// A decommission streams the whole disk, and its call answers when that is done.
const LONGEST_DECOMMISSION: Duration = Duration::from_hours(7 * 24);
/// A cleanup reads and writes the whole disk.
const LONGEST_CLEANUP: Duration = Duration::from_hours(3 * 24);
/// A drain writes what is in memory: all the time that a pod has to stop.
const LONGEST_DRAIN: Duration = Duration::from_mins(15);
/// A snapshot writes what is in memory, and links files.
const LONGEST_SNAPSHOT: Duration = Duration::from_mins(30);
/// A flush writes what is in memory.
const LONGEST_FLUSH: Duration = Duration::from_mins(15);

/// `ScyllaDB` in this pod.
#[derive(Clone, Debug)]
pub(super) struct Scylla {
    http: reqwest::Client,
    base: String,
}

/// `[{"key": …, "value": …}]`, how the API writes maps.
#[derive(Deserialize)]
struct Pair<V> {
    key: String,
    value: V,
}

/// A table, as `/column_family/` lists it.
#[derive(Deserialize)]
struct Table {
    #[serde(rename = "ks")]
    keyspace: String,
    #[serde(rename = "cf")]
    name: String,
}

#[derive(Deserialize)]
struct Range {
    endpoints: Vec<String>,
}

impl Scylla {
    /// The API at `base`, such as `http://127.0.0.1:10000`.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub(super) fn new(base: impl Into<String>) -> reqwest::Result<Self> {
        Ok(Self {
            // Plain HTTP on loopback: the container may have no CAs to look for.
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .build()?,
            base: base.into(),
        })
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
        patience: Duration,
        what: &'static str,
    ) -> Result<T, EngineError> {
        let lost =
            |error: reqwest::Error| EngineError::Unreachable(error.without_url().to_string());
        let answer = request.timeout(patience).send().await.map_err(lost)?;
        let refused = !answer.status().is_success();
        let text = answer.text().await.map_err(lost)?;
        if refused {
            return Err(EngineError::Refused(complaint(&text)));
        }
        // What answers nothing answers an empty body.
        let json = if text.trim().is_empty() {
            "null"
        } else {
            &text
        };
        serde_json::from_str(json).map_err(|_| EngineError::Odd {
            what,
            text: text.chars().take(200).collect(),
        })
    }

    async fn get<T: DeserializeOwned>(&self, path: &'static str) -> Result<T, EngineError> {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request, PATIENCE, path).await
    }

    async fn map<V: DeserializeOwned>(
        &self,
        path: &'static str,
    ) -> Result<BTreeMap<String, V>, EngineError> {
        let pairs: Vec<Pair<V>> = self.get(path).await?;
        Ok(pairs.into_iter().map(|p| (p.key, p.value)).collect())
    }

    async fn clear_snapshot(&self, name: &str) -> Result<(), EngineError> {
        self.snapshots(reqwest::Method::DELETE, name).await
    }

    /// Takes or removes the snapshot of this name of every keyspace.
    async fn snapshots(&self, method: reqwest::Method, name: &str) -> Result<(), EngineError> {
        let path = "/storage_service/snapshots";
        let url = format!("{}{path}?tag={name}", self.base);
        let request = self.http.request(method, url);
        self.send::<serde_json::Value>(request, LONGEST_SNAPSHOT, path)
            .await
            .map(drop)
    }

    /// On how many nodes a row of this table is. A keyspace has no ring of its own where its tables are made of
    /// tablets, and one of vnodes answers for a table as well.
    async fn factor(&self, table: &Table) -> Result<i32, EngineError> {
        let Table { keyspace, name } = table;
        let path = "/storage_service/describe_ring";
        let url = format!("{}{path}/{keyspace}?table={name}", self.base);
        let ring: Vec<Range> = self.send(self.http.get(url), PATIENCE, path).await?;
        let most = ring.iter().map(|r| r.endpoints.len()).max();
        Ok(i32::try_from(most.unwrap_or_default()).unwrap_or(i32::MAX))
    }
}

#[async_trait]
impl LocalNode for Scylla {
    async fn look(&self) -> Result<Look, EngineError> {
        let mode: String = self.get("/storage_service/operation_mode").await?;
        let own: String = self.get("/storage_service/hostid/local").await?;
        let ids: BTreeMap<String, String> = self.map("/storage_service/host_id").await?;
        let live: Vec<String> = self.get("/gossiper/endpoint/live").await?;
        let joining: Vec<String> = self.get("/storage_service/nodes/joining").await?;
        let leaving: Vec<String> = self.get("/storage_service/nodes/leaving").await?;
        let load: BTreeMap<String, f64> = self.map("/storage_service/load_map").await?;
        let nodes = ids.into_iter().map(|(address, host_id)| Node {
            host_id,
            up: live.contains(&address),
            state: if joining.contains(&address) {
                NodeState::Joining
            } else if leaving.contains(&address) {
                NodeState::Leaving
            } else {
                NodeState::Normal
            },
            load_bytes: load.get(&address).and_then(|l| whole(*l)),
            address: canonical(&address),
        });
        Ok(Look {
            host_id: Some(own).filter(|id| !id.is_empty()),
            mode: parse_mode(&mode),
            progress: None,
            nodes: nodes.collect(),
        })
    }

    async fn facts(&self) -> Result<Facts, EngineError> {
        let versions: BTreeMap<String, Vec<String>> =
            self.map("/storage_proxy/schema_versions").await?;
        // The engine's own keyspaces are left out: some have as many copies as there are nodes, and the rest is history
        // of which a lost copy does not matter.
        let users: Vec<String> = self.get("/storage_service/keyspaces?type=user").await?;
        let tables: Vec<Table> = self.get("/column_family/").await?;
        let mut factors = BTreeMap::new();
        for table in tables.iter().filter(|t| users.contains(&t.keyspace)) {
            let factor = self.factor(table).await?;
            let most: &mut i32 = factors.entry(table.keyspace.clone()).or_default();
            *most = factor.max(*most);
        }
        let keyspaces = factors
            .into_iter()
            .map(|(name, replication_factor)| Keyspace {
                name,
                replication_factor,
            });
        Ok(Facts {
            schema_versions: versions.keys().cloned().collect(),
            schema_nodes: versions.into_iter().map(of_nodes).collect(),
            keyspaces: keyspaces.collect(),
        })
    }

    /// One call that is never repeated here: it outlives most things.
    async fn decommission(&self) -> Result<(), EngineError> {
        let path = "/storage_service/decommission";
        let request = self.http.post(format!("{}{path}", self.base));
        self.send::<serde_json::Value>(request, LONGEST_DECOMMISSION, path)
            .await
            .map(drop)
    }

    /// Of keyspaces of vnodes: of tablets, each is dropped as it moves.
    async fn cleanup(&self) -> Result<(), EngineError> {
        let keyspaces: Vec<String> = self
            .get("/storage_service/keyspaces?type=user&replication=vnodes")
            .await?;
        let path = "/storage_service/keyspace_cleanup";
        for keyspace in keyspaces {
            let request = self.http.post(format!("{}{path}/{keyspace}", self.base));
            self.send::<serde_json::Value>(request, LONGEST_CLEANUP, path)
                .await?;
        }
        Ok(())
    }

    async fn repair(
        &self,
        ranges: Ranges,
        progress: &(dyn Fn(String) + Send + Sync),
    ) -> Result<(), EngineError> {
        repair::repair(self, ranges, progress).await
    }

    /// A snapshot that is there already was cut off: it is taken again. Its upgrade guides have no step that writes data in
    /// a new format: compaction does that.
    async fn upgrade(&self, step: &UpgradeStep) -> Result<(), EngineError> {
        match step {
            UpgradeStep::Snapshot(name) => {
                self.clear_snapshot(name).await?;
                self.snapshots(reqwest::Method::POST, name).await
            }
            UpgradeStep::Rewrite => Ok(()),
            UpgradeStep::Release(name) => {
                self.clear_snapshot(name).await?;
                let there: BTreeMap<String, IgnoredAny> =
                    self.map("/storage_service/snapshots").await?;
                for left in there.keys().filter(|name| name.starts_with(SNAPSHOTS)) {
                    self.clear_snapshot(left).await?;
                }
                Ok(())
            }
        }
    }

    async fn flush(&self) -> Result<(), EngineError> {
        let keyspaces: Vec<String> = self.get("/storage_service/keyspaces").await?;
        let path = "/storage_service/keyspace_flush";
        for keyspace in keyspaces {
            let request = self.http.post(format!("{}{path}/{keyspace}", self.base));
            self.send::<serde_json::Value>(request, LONGEST_FLUSH, path)
                .await?;
        }
        Ok(())
    }

    async fn drain(&self) -> Result<(), EngineError> {
        let path = "/storage_service/drain";
        let request = self.http.post(format!("{}{path}", self.base));
        self.send::<serde_json::Value>(request, LONGEST_DRAIN, path)
            .await
            .map(drop)
    }

    async fn pools(&self) -> Result<Option<Pools>, EngineError> {
        Ok(None)
    }

    async fn alive(&self) -> bool {
        self.get::<u64>("/system/uptime_ms").await.is_ok()
    }
}

/// A version of the schema and the nodes that have it.
fn of_nodes((version, nodes): (String, Vec<String>)) -> (String, Vec<String>) {
    (version, nodes.iter().map(|node| canonical(node)).collect())
}

/// `{"message": "…", "code": 500}`.
fn complaint(text: &str) -> String {
    #[derive(Deserialize)]
    struct Complaint {
        message: String,
    }
    serde_json::from_str::<Complaint>(text).map_or_else(
        |_| text.trim().chars().take(400).collect(),
        |complaint| complaint.message,
    )
}

fn parse_mode(word: &str) -> Mode {
    match word {
        "STARTING" => Mode::Starting,
        "JOINING" | "BOOTSTRAP" => Mode::Joining,
        "NORMAL" => Mode::Normal,
        "LEAVING" | "DECOMMISSIONING" => Mode::Leaving,
        "DECOMMISSIONED" => Mode::Decommissioned,
        "DRAINED" => Mode::Drained,
        _ => Mode::Other,
    }
}

/// A number of bytes that the API writes as a float; none where it cannot be one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "held within what a u64 and an exact float can be"
)]
fn whole(bytes: f64) -> Option<u64> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    (1.0..=LARGEST).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests;
