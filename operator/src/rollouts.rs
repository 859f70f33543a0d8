//! Which clusters restart serving pods, over all clusters of this operator, and how many may at once.
//!
//! A cluster restarts its first pod once its status says that it rolls out (condition `RollingOut`), so another process
//! of the operator finds the same places taken. The watch that tells of statuses lags behind what this process has
//! decided: that counts first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, runtime::reflector::Store};
use readstates_operator_api::{
    ReadStateCluster, ReadStateClusterStatus, conditions::ConditionType,
};

/// The places as one cluster sees them. The default: any number of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// How many there are; none: as many as clusters.
    pub limit: Option<usize>,
    /// Whether the status of this cluster says that it has one.
    pub ours: bool,
    /// The other clusters that have one, longest first; `None` while not all clusters are known.
    pub others: Option<Vec<Holder>>,
}

/// A cluster that has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its namespace and name.
    pub name: String,
    /// Since when, if its status says so already.
    pub since: Option<Timestamp>,
    /// Whether something is wrong with it that will not recover by itself.
    pub degraded: bool,
}

/// Who has the places. The default: any number of them.
#[derive(Clone, Debug, Default)]
pub struct Rollouts {
    limit: Option<usize>,
    /// Watches of clusters; before each of them has read its own, not all clusters are known.
    watches: usize,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    stores: Vec<Store<ReadStateCluster>>,
    /// What this process has decided about a cluster last, by its UID.
    decided: HashMap<String, bool>,
}

impl Rollouts {
    /// `limit`: how many clusters may restart pods at once; 0: any number. `watches`: how many there will be.
    #[must_use]
    pub fn new(limit: u16, watches: usize) -> Self {
        Self {
            limit: (limit > 0).then(|| usize::from(limit)),
            watches,
            known: Arc::default(),
        }
    }

    /// Counts the clusters of one more watch.
    pub fn add(&self, store: Store<ReadStateCluster>) {
        self.known().stores.push(store);
    }

    /// The places as this cluster sees them.
    #[must_use]
    pub fn places(&self, cluster: &ReadStateCluster) -> Places {
        let others = match self.limit {
            None => Some(Vec::new()),
            Some(_) => self.known().others(&uid(cluster), self.watches),
        };
        Places {
            limit: self.limit,
            ours: cluster.status.as_ref().is_some_and(rolls_out),
            others,
        }
    }

    /// Takes a place for a cluster, if one is free.
    #[must_use]
    pub fn take(&self, cluster: &ReadStateCluster) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let mut known = self.known();
        let others = known.others(&uid(cluster), self.watches);
        let free = others.is_some_and(|others| others.len() < limit);
        if free {
            known.decided.insert(uid(cluster), true);
        }
        free
    }

    /// The status of the cluster was written: by it, the cluster has a place or none.
    pub fn written(&self, cluster: &ReadStateCluster, status: &ReadStateClusterStatus) {
        if self.limit.is_some() {
            let has = rolls_out(status);
            self.known().decided.insert(uid(cluster), has);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change to it is one call: there is no half of one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The other clusters that have a place, longest first; `None` while not all clusters are known.
    fn others(&mut self, but: &str, watches: usize) -> Option<Vec<Holder>> {
        let read = |store: &Store<_>| {
            let ready = store.wait_until_ready().now_or_never();
            ready.is_some_and(|ready| ready.is_ok())
        };
        if self.stores.len() < watches || !self.stores.iter().all(read) {
            return None;
        }
        let clusters = self.stores.iter().flat_map(Store::state);
        let clusters: HashMap<_, _> = clusters.map(|cluster| (uid(&cluster), cluster)).collect();
        // A deleted cluster has no place.
        self.decided.retain(|uid, _| clusters.contains_key(uid));
        let has = |(uid, cluster): &(&String, &Arc<ReadStateCluster>)| {
            let said = || cluster.status.as_ref().is_some_and(rolls_out);
            let deleted = cluster.metadata.deletion_timestamp.is_some();
            let decided = self.decided.get(*uid).copied();
            *uid != but && !deleted && decided.unwrap_or_else(said)
        };
        let holders = clusters.iter().filter(has);
        let mut holders: Vec<_> = holders.map(|(_, cluster)| holder(cluster)).collect();
        holders.sort_by_key(|holder| (holder.since.is_none(), holder.since, holder.name.clone()));
        Some(holders)
    }
}

fn uid(cluster: &ReadStateCluster) -> String {
    cluster.uid().unwrap_or_default()
}

fn rolls_out(status: &ReadStateClusterStatus) -> bool {
    that_holds(status, ConditionType::RollingOut).is_some()
}

fn that_holds(status: &ReadStateClusterStatus, type_: ConditionType) -> Option<&Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|c| c.type_ == type_.as_str() && c.status == "True")
}

fn holder(cluster: &ReadStateCluster) -> Holder {
    let namespace = cluster.namespace().unwrap_or_default();
    let holds = |type_| that_holds(cluster.status.as_ref()?, type_);
    Holder {
        name: format!("{namespace}/{}", cluster.name_any()),
        since: holds(ConditionType::RollingOut).map(|c| c.last_transition_time.0),
        degraded: holds(ConditionType::Degraded).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher::Event};
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, rolling_out: Option<&str>) -> ReadStateCluster {
        let condition = |type_: &str, since: &str| {
            json!({
                "type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": since,
            })
        };
        let mut conditions: Vec<_> = rolling_out
            .map(|at| condition("RollingOut", at))
            .into_iter()
            .collect();
        if name == "ill" {
            conditions.push(condition("Degraded", "2026-11-26T00:00:00Z"));
        }
        serde_json::from_value(json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
            "metadata": { "name": name, "namespace": "talk", "uid": format!("uid-of-{name}") },
            "spec": { "database": { "embedded": {} } },
            "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    type Watch = reflector::store::Writer<ReadStateCluster>;

    /// A watch that has told of these, among those of an operator.
    fn watch(rollouts: &Rollouts, clusters: &[ReadStateCluster]) -> Watch {
        let (reader, mut writer) = reflector::store();
        rollouts.add(reader);
        writer.apply_watcher_event(&Event::Init);
        for cluster in clusters {
            writer.apply_watcher_event(&Event::InitApply(cluster.clone()));
        }
        writer.apply_watcher_event(&Event::InitDone);
        writer
    }

    /// An operator whose only watch has told of these.
    fn knowing(limit: u16, clusters: &[ReadStateCluster]) -> (Rollouts, Watch) {
        let rollouts = Rollouts::new(limit, 1);
        let watch = watch(&rollouts, clusters);
        (rollouts, watch)
    }

    fn names(rollouts: &Rollouts, of: &ReadStateCluster) -> Option<Vec<String>> {
        let others = rollouts.places(of).others?;
        Some(others.into_iter().map(|holder| holder.name).collect())
    }

    const EARLY: Option<&str> = Some("2026-11-26T01:00:00Z");
    const LATE: Option<&str> = Some("2026-11-26T02:00:00Z");

    #[test]
    fn what_statuses_say_counts_for_an_operator_that_has_just_started() {
        let all = [
            cluster("late", LATE),
            cluster("ill", EARLY),
            cluster("idle", None),
        ];
        let (rollouts, _writer) = knowing(2, &all);
        let places = rollouts.places(&all[2]);
        assert!(!places.ours && places.limit == Some(2));
        let seen: Vec<_> = places
            .others
            .unwrap()
            .into_iter()
            .map(|h| (h.name, h.degraded))
            .collect();
        assert_eq!(
            seen,
            [
                ("talk/ill".to_owned(), true),
                ("talk/late".to_owned(), false)
            ]
        );
        assert!(!rollouts.take(&all[2]));
        // One that has a place is not in its own way.
        assert!(rollouts.places(&all[0]).ours);
        assert_eq!(names(&rollouts, &all[0]).unwrap(), ["talk/ill"]);
        assert!(rollouts.take(&all[0]));
    }

    #[test]
    fn a_place_is_taken_and_given_back_before_the_watch_tells_of_it() {
        let all = [cluster("one", None), cluster("two", None)];
        let (rollouts, _writer) = knowing(1, &all);
        assert!(rollouts.take(&all[0]));
        assert!(!rollouts.take(&all[1]));
        assert_eq!(names(&rollouts, &all[1]).unwrap(), ["talk/one"]);
        rollouts.written(&all[0], cluster("one", EARLY).status.as_ref().unwrap());
        assert!(!rollouts.take(&all[1]));
        rollouts.written(&all[0], all[0].status.as_ref().unwrap());
        assert!(rollouts.take(&all[1]));
    }

    #[test]
    fn a_deleted_cluster_has_no_place() {
        let all = [cluster("one", EARLY), cluster("two", None)];
        let (rollouts, mut writer) = knowing(1, &all);
        assert!(!rollouts.take(&all[1]));
        writer.apply_watcher_event(&Event::Delete(all[0].clone()));
        assert!(rollouts.take(&all[1]));
        let mut going = cluster("two", EARLY);
        going.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-11-26T03:00:00Z")).unwrap();
        writer.apply_watcher_event(&Event::Apply(going));
        let new = cluster("new", None);
        writer.apply_watcher_event(&Event::Apply(new.clone()));
        assert!(rollouts.take(&new));
    }

    #[test]
    fn nobody_gets_a_place_before_every_watch_has_read_its_clusters() {
        let one = cluster("one", None);
        let rollouts = Rollouts::new(1, 2);
        let _first = watch(&rollouts, std::slice::from_ref(&one));
        assert!(!rollouts.take(&one), "the second watch is not there yet");
        let (reader, mut second) = reflector::store();
        rollouts.add(reader);
        assert_eq!(names(&rollouts, &one), None);
        second.apply_watcher_event(&Event::Init);
        assert!(
            !rollouts.take(&one),
            "the second watch has not read its own"
        );
        second.apply_watcher_event(&Event::InitDone);
        assert!(rollouts.take(&one));
    }

    #[test]
    fn without_a_limit_nobody_is_counted() {
        let one = cluster("one", None);
        let rollouts = Rollouts::new(0, 1);
        let places = rollouts.places(&one);
        assert_eq!((places.limit, places.others), (None, Some(Vec::new())));
        assert!(rollouts.take(&one));
    }
}
