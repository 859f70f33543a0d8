//! Many clusters at once, each in a namespace of its own, and everything but the operator: StatefulSet and Job
//! controllers, kubelets, members and agents, which act as soon as there is something to do.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, future::join_all, stream};
use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job};
use kube::{
    Api, Resource, ResourceExt,
    api::ListParams,
    runtime::{WatchStreamExt, watcher},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, Semaphore};

use crate::{
    chat::cluster,
    world::{World, waiting},
};

/// Namespaces that are worked on at once.
const AT_ONCE: usize = 16;
/// Interval of the checks that no event triggers.
const LOOK: Duration = Duration::from_secs(2);

pub(crate) struct Crowd {
    worlds: BTreeMap<String, Place>,
}

struct Place {
    world: World,
    changed: Notify,
    up: AtomicBool,
}

impl Crowd {
    pub(crate) async fn new(first: World, count: usize) -> Self {
        let more: Vec<World> = stream::iter(1..count)
            .map(|_| first.another())
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let worlds = std::iter::once(first).chain(more).map(|mut world| {
            world.agents_listen = true;
            let place = Place {
                changed: Notify::new(),
                up: AtomicBool::new(false),
                world,
            };
            (place.world.namespace.clone(), place)
        });
        Self {
            worlds: worlds.collect(),
        }
    }

    /// From now on the cache pods of all clusters serve clients.
    pub(crate) fn has_traffic(&self) {
        for place in self.worlds.values() {
            place.world.fleet.has_traffic();
        }
    }

    pub(crate) fn namespaces(&self) -> Vec<&str> {
        self.worlds.keys().map(String::as_str).collect()
    }

    /// A cluster of two racks and two cache pods in each namespace, up and at rest; the time that took.
    pub(crate) async fn come_up(&self) -> Duration {
        let began = Instant::now();
        let make = async {
            stream::iter(self.worlds.values())
                .for_each_concurrent(AT_ONCE, async |place| {
                    place.world.create(&cluster(2)).await.unwrap();
                })
                .await;
        };
        let permits = Semaphore::new(AT_ONCE);
        let work = join_all(self.worlds.values().map(|place| place.work(&permits)));
        tokio::select! {
            // Dropping the watch loses nothing: every cluster is up.
            _ = async { tokio::join!(make, work) } => {}
            () = self.watch() => panic!("the watches ended"),
        }
        began.elapsed()
    }

    /// Tells each namespace what happens in it.
    async fn watch(&self) {
        let client = self.worlds.values().next().unwrap().world.client.clone();
        let changed = |namespace: Option<String>| {
            if let Some(place) = namespace.and_then(|n| self.worlds.get(&n)) {
                place.changed.notify_one();
            }
        };
        let sets = seen(Api::<StatefulSet>::all(client.clone()))
            .for_each(async |set| changed(set.namespace()));
        let jobs =
            seen(Api::<Job>::all(client.clone())).for_each(async |job| changed(job.namespace()));
        let rings = seen(Api::<ReadStateRing>::all(client.clone()))
            .for_each(async |ring| changed(ring.namespace()));
        let clusters = seen(Api::<ReadStateCluster>::all(client)).for_each(async |cluster| {
            if let Some(place) = self.worlds.get(&cluster.namespace().unwrap()) {
                place.up.store(at_rest(&cluster), Ordering::SeqCst);
                place.changed.notify_one();
            }
        });
        tokio::join!(sets, jobs, rings, clusters);
    }
}

/// What a watch sees. One that fails is started again: the API server may have forgotten already what it began from
/// (410).
fn seen<K>(api: Api<K>) -> impl Stream<Item = K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(async |seen| match seen {
            Ok(object) => Some(object),
            Err(error) => {
                eprintln!("a watch starts again: {error}");
                None
            }
        })
}

fn at_rest(cluster: &ReadStateCluster) -> bool {
    let available = |status: &readstates_operator_api::ReadStateClusterStatus| {
        let is = |type_: &str| {
            status
                .conditions
                .iter()
                .any(|c| c.type_ == type_ && c.status == "True")
        };
        is("Available") && is("CacheReady") && is("DatabaseReady")
    };
    waiting(cluster).is_none() && cluster.status.as_ref().is_some_and(available)
}

impl Place {
    /// Until the cluster is up.
    async fn work(&self, permits: &Semaphore) {
        while !self.up.load(Ordering::SeqCst) {
            let permit = permits.acquire().await.unwrap();
            let sets = self.world.api::<StatefulSet>();
            for set in sets.list(&ListParams::default()).await.unwrap() {
                let seen = set.status.as_ref().and_then(|s| s.observed_generation);
                if seen != set.metadata.generation {
                    self.world.settle_set(&set).await;
                }
            }
            self.world.finish_jobs().await;
            self.world.fleet.act().await;
            drop(permit);
            // Looked at again in any case.
            let _ = tokio::time::timeout(LOOK, self.changed.notified()).await;
        }
    }
}
