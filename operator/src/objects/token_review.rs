//! The ClusterRoleBinding that lets cache pods create TokenReviews. TokenReviews are cluster-scoped, so the role (made by
//! the chart) and its bindings (one for each ReadStateCluster with service accounts as callers) are, too.
//!
//! A namespaced object cannot own a cluster-scoped one, so a binding is not garbage-collected with its ReadStateCluster:
//! `reviews` deletes it. The role owns it, so that uninstalling the chart removes it.

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};
use readstates_operator_api::labels::{self, Component};

use crate::spec::Identity;

/// Binds the cache pods of a cluster to the role.
#[must_use]
pub fn binding(id: &Identity, role: &ClusterRole) -> ClusterRoleBinding {
    let owner = OwnerReference {
        api_version: ClusterRole::api_version(&()).into_owned(),
        kind: ClusterRole::kind(&()).into_owned(),
        name: role.name_any(),
        uid: role.uid().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    };
    ClusterRoleBinding {
        metadata: ObjectMeta {
            name: Some(id.token_review_binding()),
            labels: Some(labels::all(&id.name, Component::Cache)),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.name_any(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            // As `service_account` names it.
            name: id.cache(),
            namespace: Some(id.namespace.clone()),
            api_group: None,
        }]),
    }
}
