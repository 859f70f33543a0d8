//! Versions of our objects, as the watches have reported them. In: events. Out: whether an object is still at the
//! version that was found to be as wanted, so that it need not be read again.
//!
//! It answers "nothing to write here" and nothing else: decisions rest on what is read from the API server. A watch
//! that lags delays a repair until its event comes, and an event is followed by a reconcile.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::{Resource, ResourceExt, core::PartialObjectMeta, runtime::watcher::Event};

/// One controller's knowledge. Empty for what is not watched.
#[derive(Clone, Debug, Default)]
pub struct Known(Arc<Mutex<HashMap<Key, Entry>>>);

/// Kind, namespace, name.
type Key = (&'static str, String, String);

#[derive(Debug)]
struct Entry {
    /// The newest version that was told of.
    version: String,
    /// The version that was found to be as wanted, and the hash of that wish.
    held: Option<(String, String)>,
}

impl Known {
    /// Takes in what a watch tells of one kind, all of which it watches.
    pub fn note<K: Resource<DynamicType = ()>>(&self, event: &Event<PartialObjectMeta<K>>) {
        let kind = kind::<K>();
        let mut entries = self.entries();
        match event {
            // The watch starts over: it lists every object again.
            Event::Init => entries.retain(|(k, _, _), _| *k != kind),
            Event::InitDone => {}
            Event::InitApply(object) | Event::Apply(object) => {
                let key = key(object);
                let version = object.resource_version().unwrap_or_default();
                match entries.get_mut(&key) {
                    Some(entry) => entry.version = version,
                    None => {
                        let held = None;
                        entries.insert(key, Entry { version, held });
                    }
                }
            }
            Event::Delete(object) => {
                entries.remove(&key(object));
            }
        }
    }

    /// Whether the object has not changed since it was found to be what the wish of this hash says.
    #[must_use]
    pub fn holds<K: Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        name: &str,
        hash: &str,
    ) -> bool {
        let key = (kind::<K>(), namespace.to_owned(), name.to_owned());
        self.entries().get(&key).is_some_and(|entry| {
            let held = entry.held.as_ref();
            held.is_some_and(|(version, wish)| *version == entry.version && wish == hash)
        })
    }

    /// It was read, and is what the wish of this hash says.
    pub fn found<K: Resource<DynamicType = ()>>(&self, object: &K, hash: &str) {
        if let Some(entry) = self.entries().get_mut(&key(object)) {
            entry.held = object
                .resource_version()
                .map(|version| (version, hash.to_owned()));
        }
    }

    /// To be called before a write: what was found before no longer counts, and the watch may report the write only
    /// after the wish has changed back.
    pub fn forget<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        let key = (kind::<K>(), namespace.to_owned(), name.to_owned());
        if let Some(entry) = self.entries().get_mut(&key) {
            entry.held = None;
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        // Every change to it is one call: there is no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> Key {
    (
        kind::<K>(),
        object.namespace().unwrap_or_default(),
        object.name_any(),
    )
}

/// The name of a kind, which is a constant of its type.
pub(crate) fn kind<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "other",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    use kube::core::{ObjectMeta, PartialObjectMetaExt};

    use super::*;

    fn meta(version: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some("chat".to_owned()),
            namespace: Some("ns".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn told(version: &str) -> PartialObjectMeta<Service> {
        meta(version).into_response_partial()
    }

    fn read(version: &str) -> Service {
        Service {
            metadata: meta(version),
            ..Service::default()
        }
    }

    fn holds(known: &Known) -> bool {
        known.holds::<Service>("ns", "chat", "wish")
    }

    #[test]
    fn an_object_holds_until_the_watch_tells_of_another_version() {
        let known = Known::default();
        known.note(&Event::Apply(told("1")));
        assert!(!holds(&known), "it was never read");
        known.found(&read("1"), "wish");
        assert!(holds(&known));
        assert!(!known.holds::<Service>("ns", "chat", "another wish"));
        assert!(!known.holds::<ConfigMap>("ns", "chat", "wish"));
        known.note(&Event::Apply(told("2")));
        assert!(!holds(&known));
    }

    #[test]
    fn what_was_read_before_the_watch_had_told_of_it_does_not_hold_until_it_has() {
        let known = Known::default();
        known.note(&Event::Apply(told("1")));
        known.found(&read("2"), "wish");
        assert!(!holds(&known));
        known.note(&Event::Apply(told("2")));
        assert!(holds(&known));
    }

    #[test]
    fn what_is_written_does_not_hold_by_what_was_found_before() {
        let known = Known::default();
        known.note(&Event::Apply(told("1")));
        known.found(&read("1"), "wish");
        known.forget::<ConfigMap>("ns", "chat");
        assert!(holds(&known), "it is another object that was written");
        known.forget::<Service>("ns", "chat");
        assert!(!holds(&known), "the watch lags behind the write");
        known.note(&Event::Apply(told("2")));
        known.found(&read("2"), "wish");
        assert!(holds(&known));
    }

    #[test]
    fn nothing_holds_that_is_not_watched_was_deleted_or_is_told_anew() {
        let known = Known::default();
        known.found(&read("1"), "wish");
        assert!(!holds(&known));
        for forget in [Event::Delete(told("1")), Event::Init] {
            known.note(&Event::InitApply(told("1")));
            known.found(&read("1"), "wish");
            assert!(holds(&known));
            known.note(&forget);
            assert!(!holds(&known));
        }
    }
}
