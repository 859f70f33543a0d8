//! What the API server said at the last whole look at a cluster, for the looks that the clock brings while nothing happens.
//! In: events of the watches, and every answer at a whole look. Out: a client for one look.
//!
//! | look | asks | writes |
//! |---|---|---|
//! | whole | the API server, and remembers its answers if nothing was to be done | whatever is decided |
//! | quiet | the pods; of the API server, what is remembered | nothing: if something is to be written, a whole look follows |
//!
//! So nothing is decided by what is remembered but that there is nothing to do. An event of the cluster or of one of its
//! objects ends what is remembered; a watch that lags delays what its event would have brought, by ten minutes at most.

mod look;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{Client, Resource, ResourceExt, runtime::watcher::Event};
use readstates_operator_api::{ReadStateCluster, labels};
use tokio::time::Instant;

use self::look::Answers;
pub(crate) use self::look::Look;

/// A whole look is made so often, whatever the watches tell: nothing watches claims of volumes, and Secrets of ours.
const WHOLE: Duration = Duration::from_mins(10);
/// Secrets and ConfigMaps that others write are asked for so often: nothing watches them.
const OF_OTHERS: Duration = Duration::from_mins(1);

/// What is remembered of each cluster. Nothing, unless its watches tell of events.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    watched: bool,
    clusters: Arc<Mutex<HashMap<Key, Memory>>>,
}

/// Namespace and name.
type Key = (String, String);

#[derive(Debug)]
struct Memory {
    /// Events since this is kept.
    events: u64,
    /// The answers of a whole look at which nothing was to be done, and when it was.
    answers: Option<(Arc<Answers>, Instant)>,
}

impl Remembered {
    /// For a controller whose watches tell of everything: [`Remembered::note`], and [`Remembered::note_cluster`].
    #[must_use]
    pub fn watched() -> Self {
        Self {
            watched: true,
            ..Self::default()
        }
    }

    /// Takes in what a watch tells of the objects of clusters, of one kind.
    pub fn note<K: Resource<DynamicType = ()>>(&self, event: &Event<K>) {
        match event {
            // The watch starts over: what happened meanwhile is not told.
            Event::Init => self.memories().clear(),
            Event::InitDone => {}
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                let Some(cluster) = object.labels().get(labels::CLUSTER) else {
                    return;
                };
                self.happened(&(object.namespace().unwrap_or_default(), cluster.clone()));
            }
        }
    }

    /// Takes in what a watch tells of the clusters themselves.
    pub fn note_cluster(&self, event: &Event<ReadStateCluster>) {
        match event {
            Event::Init => self.memories().clear(),
            Event::InitDone => {}
            Event::InitApply(cluster) | Event::Apply(cluster) => self.happened(&key(cluster)),
            Event::Delete(cluster) => {
                self.memories().remove(&key(cluster));
            }
        }
    }

    /// A look at what is remembered, if that may still be so.
    pub(crate) fn quiet(&self, client: &Client, cluster: &ReadStateCluster) -> Option<Look> {
        let memories = self.memories();
        let (answers, since) = memories.get(&key(cluster))?.answers.as_ref()?;
        let valid = since.elapsed() < WHOLE;
        valid.then(|| Look::quiet(client.clone(), Arc::clone(answers)))
    }

    /// A look at the API server. It ends with [`Remembered::looked`].
    pub(crate) fn whole(&self, client: &Client, cluster: &ReadStateCluster) -> Look {
        if !self.watched {
            return Look::plain(client.clone());
        }
        let mut memories = self.memories();
        let memory = memories.entry(key(cluster)).or_insert(Memory {
            events: 0,
            answers: None,
        });
        memory.answers = None;
        Look::whole(client.clone(), memory.events)
    }

    /// Remembers what a whole look has read, unless something was or is to be done, or happened meanwhile.
    pub(crate) fn looked(&self, cluster: &ReadStateCluster, look: &Look, at_rest: bool) {
        let key = key(cluster);
        let mut memories = self.memories();
        let answers = look.answers().filter(|_| at_rest);
        let (Some((answers, events)), Some(memory)) = (answers, memories.get_mut(&key)) else {
            memories.remove(&key);
            return;
        };
        memory.answers = (memory.events == events).then(|| (Arc::new(answers), Instant::now()));
    }

    fn happened(&self, key: &Key) {
        // Of those of which nothing is kept, nothing is forgotten.
        if let Some(memory) = self.memories().get_mut(key) {
            memory.events += 1;
            memory.answers = None;
        }
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        // Every change to it is one call: there is no half of one.
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(cluster: &ReadStateCluster) -> Key {
    (cluster.namespace().unwrap_or_default(), cluster.name_any())
}
