//! Prometheus gauges of resources that belong to a cluster. In: how each is, as it was last told. Out: gauges, computed for
//! every scrape, so that ages grow also while nothing happens, and those of a deleted resource disappear.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::{
    Resource,
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store},
};
use readstates_metrics::Text;

use crate::spec::Identity;

/// Of the resources `K` that this process reconciles, a value of each.
pub(crate) struct Told<K: Resource<DynamicType = ()> + 'static, T>(Arc<Mutex<Inner<K, T>>>);

struct Inner<K: Resource<DynamicType = ()> + 'static, T> {
    /// Those that are there, as the watches tell.
    there: Vec<Store<PartialObjectMeta<K>>>,
    /// What was told of each, by namespace and name.
    told: BTreeMap<(String, String), One<T>>,
}

#[derive(Clone, Debug)]
struct One<T> {
    cluster: String,
    how: T,
}

/// The value of a gauge, and the label that tells it from others of the resource, where it has one.
pub(crate) type Sample = (Option<(&'static str, &'static str)>, f64);

/// Those that were there at one moment.
#[derive(Debug)]
pub(crate) struct All<T>(BTreeMap<(String, String), One<T>>);

impl<K: Resource<DynamicType = ()> + 'static, T> Default for Told<K, T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            there: Vec::new(),
            told: BTreeMap::new(),
        })))
    }
}

impl<K: Resource<DynamicType = ()> + 'static, T> Clone for Told<K, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()> + 'static, T: fmt::Debug> fmt::Debug for Told<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.inner().told).finish()
    }
}

impl<K, T> Told<K, T>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
    T: Clone,
{
    /// And those of one more watch.
    pub(crate) fn add(&self, store: Store<PartialObjectMeta<K>>) {
        self.inner().there.push(store);
    }

    /// Takes in how one of this cluster is.
    pub(crate) fn tell(&self, id: &Identity, cluster: &str, how: T) {
        let key = (id.namespace.clone(), id.name.clone());
        let cluster = cluster.to_owned();
        self.inner().told.insert(key, One { cluster, how });
    }

    /// Those that are there.
    pub(crate) fn all(&self) -> All<T> {
        let mut inner = self.inner();
        let Inner { there, told } = &mut *inner;
        told.retain(|(namespace, name), _| {
            let key = ObjectRef::new(name).within(namespace);
            there.iter().any(|store| store.get(&key).is_some())
        });
        All(told.clone())
    }
}

impl<T> All<T> {
    /// A gauge of each of which its value is known.
    pub(crate) fn gauge(
        &self,
        text: &mut Text,
        (name, help): (&str, &str),
        of: impl Fn(&T) -> Option<Sample>,
    ) {
        text.family(name, help, "gauge");
        for ((namespace, resource), One { cluster, how }) in &self.0 {
            let Some((label, value)) = of(how) else {
                continue;
            };
            let mut labels = vec![
                ("namespace", namespace.as_str()),
                ("name", resource),
                ("cluster", cluster),
            ];
            labels.extend(label);
            text.sample(name, &labels, value);
        }
    }
}

impl<K: Resource<DynamicType = ()> + 'static, T> Told<K, T> {
    fn inner(&self) -> MutexGuard<'_, Inner<K, T>> {
        // Every change to it is one call: there is no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tests of such gauges have in common.
#[cfg(test)]
pub(crate) mod fixtures {
    use kube::{
        Resource,
        core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt},
        runtime::{
            reflector::{self, Store},
            watcher::Event,
        },
    };

    /// A watch that has reported `talk/chat`, and what has it report that this is gone.
    pub(crate) fn watch<K>() -> (Store<PartialObjectMeta<K>>, impl FnOnce())
    where
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        let (there, mut watch) = reflector::store();
        let object = ObjectMeta {
            name: Some("chat".to_owned()),
            namespace: Some("talk".to_owned()),
            ..ObjectMeta::default()
        };
        let object: PartialObjectMeta<K> = object.into_response_partial();
        watch.apply_watcher_event(&Event::Apply(object.clone()));
        (there, move || {
            watch.apply_watcher_event(&Event::Delete(object));
        })
    }

    /// The samples of `talk/chat` of the cluster `mail`, without what is the same in all.
    pub(crate) fn samples(text: &str, prefix: &str) -> Vec<String> {
        let of = r#"{namespace="talk",name="chat",cluster="mail""#;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.replace(prefix, "").replace(of, "{"))
            .collect()
    }
}
