//! Rights of cache pods at the API server: to read and replace the ring of their cluster, and to keep a Lease each, by
//! which others see that they live. No other rights, and no other pods have even these.
//!
//! Leases cannot be told apart by RBAC: they are made under names with an incarnation in them. The chart's admission
//! policy for Leases keeps each account to those of its own ring, and knows the account by this Role: it may write the
//! ring of its own name, and not all rings. Reads no policy sees: a cache pod may look at other Leases of its namespace.

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use readstates_operator_api::{GROUP, ReadStateRing, labels::Component};

use crate::{spec::ValidatedCluster, templates::service_account};

pub(super) fn of_members(cluster: &ValidatedCluster) -> Role {
    let words = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
    let ring = PolicyRule {
        api_groups: Some(words(&[GROUP])),
        resources: Some(words(&[&ReadStateRing::plural(&())])),
        resource_names: Some(vec![cluster.id.cache()]),
        // Listed and watched one by one, by name.
        verbs: words(&["get", "list", "watch", "update"]),
        ..PolicyRule::default()
    };
    let leases = PolicyRule {
        api_groups: Some(words(&["coordination.k8s.io"])),
        resources: Some(words(&["leases"])),
        verbs: words(&["get", "list", "create", "update", "delete"]),
        ..PolicyRule::default()
    };
    Role {
        metadata: metadata(cluster),
        rules: Some(vec![ring, leases]),
    }
}

pub(super) fn binding(cluster: &ValidatedCluster) -> RoleBinding {
    RoleBinding {
        metadata: metadata(cluster),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: cluster.id.cache(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: service_account::name(cluster, Component::Cache),
            namespace: Some(cluster.id.namespace.clone()),
            api_group: None,
        }]),
    }
}

fn metadata(cluster: &ValidatedCluster) -> ObjectMeta {
    cluster.id.child(cluster.id.cache(), Component::Cache)
}
