//! The ring of a cluster in Kubernetes: a `ReadStateRing` object, and a Lease for each process.
//!
//! The object's spec is the ring's JSON. It is read from the API server itself (never from a cache) and
//! replaced with the resourceVersion that was read, so that the API server refuses all but one of several
//! concurrent swaps. Requests are not repeated by the client: if a swap was accepted and then repeated,
//! the answer would be that it was refused.
//!
//! What a member needs to be allowed: get, list, watch and update of the one `readstaterings` object
//! (create, where no operator makes it), and get, list, create, update and delete of `leases`.

mod presence;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures::{
    future::{BoxFuture, FutureExt, ready},
    stream::{BoxStream, StreamExt},
};
use jiff::{Timestamp, fmt::rfc2822};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    client::ClientBuilder,
    core::{ApiResource, NotUsed, Object},
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, watch_object},
    },
};
use parking_lot::Mutex;
use rand::Rng;
use readstates_ring::{
    Incarnation, RingTable,
    record::{RecordError, RingRecord},
};
use tokio::time::timeout;
use tower::util::MapResponseLayer;

use self::presence::Leases;
use super::{Presence, RingStore, RingStoreError, Swapped, Version, Versioned};
use crate::store::chain;

/// How long the API server may take to answer: a lease is renewed every few seconds, and an answer that
/// comes later is of no use.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// The writer's name, as the API server records it.
const FIELD_MANAGER: &str = "readstates";

/// The object: its spec is the record, the same JSON. The schema that the API server checks it by is
/// the operator's.
type RingObject = Object<RingRecord, NotUsed>;

/// What the API server calls it.
fn resource() -> ApiResource {
    ApiResource {
        group: "readstates.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "readstates.dev/v1alpha1".to_owned(),
        kind: "ReadStateRing".to_owned(),
        plural: "readstaterings".to_owned(),
    }
}

/// Keeps the ring of one cluster.
pub struct KubernetesRing {
    rings: Api<RingObject>,
    leases: Leases,
    name: String,
    limit: AnswerLimit,
    /// Everything of the object but its spec, as it was last read or written: it is written back.
    seen: Mutex<Option<ObjectMeta>>,
    date: Arc<ServerDate>,
}

impl fmt::Debug for KubernetesRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesRing")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The API server did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the API server refused or could not be reached")]
    Refused(#[from] kube::Error),
    #[error("the API server did not answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("the object is no ring")]
    NoRing(#[from] RecordError),
    #[error("failed to write the presence as JSON")]
    NoJson(#[from] serde_json::Error),
    #[error("the lease {name} is not what members write")]
    NoPresence {
        name: String,
        source: serde_json::Error,
    },
}

impl KubernetesRing {
    /// The ring of this name, with the access that the process has: a pod's service account, or a
    /// kubeconfig file.
    ///
    /// # Errors
    /// When there is no such access.
    pub async fn connect(namespace: &str, name: &str) -> Result<Self, RingStoreError> {
        let error = |source: Box<dyn std::error::Error + Send + Sync>| {
            RingStoreError::new("find access to a Kubernetes API server", source)
        };
        let config = Config::infer().await.map_err(|e| error(e.into()))?;
        Self::with_config(config, namespace, name).map_err(|e| error(e.into()))
    }

    /// The ring of this name, with this access.
    ///
    /// # Errors
    /// When the access makes no sense.
    pub fn with_config(mut config: Config, namespace: &str, name: &str) -> kube::Result<Self> {
        config.default_retry = false;
        let date = Arc::default();
        let client = client(config.clone(), &date)?;
        let leases = Api::<Lease>::namespaced(client.clone(), namespace);
        Ok(Self {
            rings: Api::namespaced_with(client, namespace, &resource()),
            leases: Leases::new(leases, config, name),
            name: name.to_owned(),
            limit: AnswerLimit(ANSWER_TIMEOUT),
            seen: Mutex::new(None),
            date,
        })
    }

    /// The same ring of an API server that may take this long to answer, four seconds otherwise: for tests on a busy
    /// machine. A member's lease does not wait longer.
    #[must_use]
    pub fn answered_within(self, limit: Duration) -> Self {
        let limit = AnswerLimit(limit);
        Self {
            leases: self.leases.answered_within(limit),
            limit,
            ..self
        }
    }

    async fn read(&self) -> Result<Option<Versioned>, Trouble> {
        let read = self.limit.answer(self.rings.get_opt(&self.name)).await?;
        if read.is_none() {
            // Presences must not go with a ring that was deleted while its members live.
            *self.seen.lock() = None;
        }
        read.map(|ring| self.versioned(ring)).transpose()
    }

    /// The ring of an object, of which the rest is kept.
    fn versioned(&self, ring: RingObject) -> Result<Versioned, Trouble> {
        let RingObject { metadata, spec, .. } = ring;
        let table = Arc::new(RingTable::try_from(spec)?);
        let version = Version(metadata.resource_version.clone().unwrap_or_default());
        *self.seen.lock() = Some(ObjectMeta {
            // The API server keeps these itself.
            managed_fields: None,
            ..metadata
        });
        Ok(Versioned { table, version })
    }

    async fn swap(&self, expected: Option<Version>, next: RingTable) -> Result<Swapped, Trouble> {
        let mut ring = RingObject::new(&self.name, &resource(), RingRecord::from(&next));
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = match expected {
            None => self.limit.answer(self.rings.create(&params, &ring)).await,
            Some(expected) => {
                let Some(metadata) = self.metadata(&expected).await? else {
                    return Ok(Swapped::Conflict);
                };
                ring.metadata = metadata;
                self.limit
                    .answer(self.rings.replace(&self.name, &params, &ring))
                    .await
            }
        };
        match written {
            Ok(ring) => Ok(Swapped::Taken(self.versioned(ring)?)),
            Err(Trouble::Refused(kube::Error::Api(status)))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                Ok(Swapped::Conflict)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Everything but the spec of the object at this version; `None` when it is at another.
    async fn metadata(&self, expected: &Version) -> Result<Option<ObjectMeta>, Trouble> {
        let is_expected = |seen: &ObjectMeta| seen.resource_version.as_ref() == Some(&expected.0);
        if let Some(seen) = self.seen.lock().clone().filter(is_expected) {
            return Ok(Some(seen));
        }
        self.read().await?;
        Ok(self.seen.lock().clone().filter(is_expected))
    }

    /// With the ring gone, presences have no use: they go with it.
    fn owner(&self) -> Option<OwnerReference> {
        let seen = self.seen.lock();
        let ApiResource {
            api_version, kind, ..
        } = resource();
        Some(OwnerReference {
            api_version,
            kind,
            name: self.name.clone(),
            uid: seen.as_ref()?.uid.clone()?,
            ..OwnerReference::default()
        })
    }
}

/// A client that takes note of the API server's time.
fn client(config: Config, date: &Arc<ServerDate>) -> kube::Result<Client> {
    let date = Arc::clone(date);
    let note = move |answer: http::Response<_>| {
        date.note(answer.headers(), Timestamp::now());
        answer
    };
    let client = ClientBuilder::try_from(config)?;
    Ok(client.with_layer(&MapResponseLayer::new(note)).build())
}

/// How far the API server's clock is ahead of this machine's, as its answers say in their `Date`.
#[derive(Debug, Default)]
struct ServerDate(Mutex<Option<i64>>);

impl ServerDate {
    fn note(&self, headers: &http::HeaderMap, now: Timestamp) {
        let date = headers.get(http::header::DATE);
        let date = date.and_then(|date| date.to_str().ok());
        // A server that tells no time cannot contradict.
        let Some(theirs) = date.and_then(|date| rfc2822::parse(date).ok()) else {
            return;
        };
        let theirs = theirs.timestamp().as_microsecond();
        *self.0.lock() = Some(theirs.saturating_sub(now.as_microsecond()));
    }
}

/// How long the API server may take to answer.
#[derive(Clone, Copy)]
struct AnswerLimit(Duration);

impl AnswerLimit {
    async fn answer<T>(self, asked: impl Future<Output = kube::Result<T>>) -> Result<T, Trouble> {
        match timeout(self.0, asked).await {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(Trouble::Late(self.0)),
        }
    }
}

/// Between two attempts to watch: about a second. It is one object, and a few members watch it.
struct AboutASecond;

impl Iterator for AboutASecond {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(rand::rng().random_range(500..1500)))
    }
}

impl Backoff for AboutASecond {
    fn reset(&mut self) {}
}

/// The table that a watch yielded. An error is logged and needs no other handling.
fn told(seen: watcher::Result<Option<RingObject>>) -> Option<Arc<RingTable>> {
    let ring = match seen {
        Ok(ring) => ring?,
        Err(error) => {
            tracing::warn!(error = chain(&error), "failed to watch the ring");
            return None;
        }
    };
    match RingTable::try_from(ring.spec) {
        Ok(table) => Some(Arc::new(table)),
        Err(error) => {
            tracing::warn!(
                error = chain(&error),
                "the ring that was watched makes no sense"
            );
            None
        }
    }
}

impl RingStore for KubernetesRing {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        let read = self.read();
        read.map(|read| read.map_err(|e| RingStoreError::new("read the ring", e)))
            .boxed()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        let swap = self.swap(expected, next);
        swap.map(|swapped| swapped.map_err(|e| RingStoreError::new("swap the ring", e)))
            .boxed()
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        watch_object(self.rings.clone(), &self.name)
            .backoff(AboutASecond)
            .filter_map(|seen| ready(told(seen)))
            .boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let owner = self.owner();
        async move {
            let renewed = self.leases.renew(&presence, owner).await;
            renewed.map_err(|e| RingStoreError::new("renew the presence", e))
        }
        .boxed()
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        let read = self.leases.presences();
        read.map(|read| read.map_err(|e| RingStoreError::new("read who is there", e)))
            .boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let forgotten = self.leases.forget(incarnation);
        forgotten
            .map(|done| done.map_err(|e| RingStoreError::new("forget a process", e)))
            .boxed()
    }

    fn clock_ahead(&self) -> Option<i64> {
        *self.date.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::DATE};

    use super::*;

    #[test]
    fn the_servers_date_tells_how_far_its_clock_is_ahead() {
        let (date, now) = (
            ServerDate::default(),
            "2026-11-24T10:00:00Z".parse().unwrap(),
        );
        let note = |text| {
            let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_static(text))]);
            date.note(&headers, now);
            *date.0.lock()
        };
        assert_eq!(note("later"), None);
        assert_eq!(note("Tue, 24 Nov 2026 10:00:01 GMT"), Some(1_000_000));
        assert_eq!(note("Tue, 24 Nov 2026 08:00:00 GMT"), Some(-7_200_000_000));
        date.note(&HeaderMap::new(), now);
        assert_eq!(*date.0.lock(), Some(-7_200_000_000), "what is known stays");
    }
}
