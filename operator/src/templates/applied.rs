//! The hash by which an object that was applied before is told from the one that is wanted now.

use kube::Resource;
use readstates_operator_api::fingerprint::fingerprint;
use serde::Serialize;

/// Hash of what an object says, whatever version of the live one its decision rests on.
#[must_use]
pub fn hash<K: Resource + Clone + Serialize>(wish: &K) -> String {
    let mut wish = wish.clone();
    wish.meta_mut().resource_version = None;
    fingerprint(&wish)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::apps::v1::StatefulSet, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    use super::*;

    fn set(name: &str, version: Option<&str>) -> StatefulSet {
        StatefulSet {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: version.map(str::to_owned),
                ..ObjectMeta::default()
            },
            ..StatefulSet::default()
        }
    }

    #[test]
    fn an_object_has_the_same_hash_whatever_version_it_was_decided_by() {
        assert_eq!(hash(&set("chat", None)), hash(&set("chat", Some("7"))));
        assert_ne!(hash(&set("chat", None)), hash(&set("chats", None)));
    }
}
