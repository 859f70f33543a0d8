//! What the pods of all Jobs have in common: they run as the cache pods do, whose image they have, and end.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec, Volume},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{cache, overlay, pod};
use crate::spec::ValidatedCluster;

/// A pod that the Job replaces when a container fails. Of the cluster's `podTemplate` it has the security context alone:
/// a sidecar, say, would keep it from ending. Nothing in it asks the Kubernetes API.
pub(super) fn pod(
    cluster: &ValidatedCluster,
    account: String,
    containers: Vec<Container>,
    volumes: Vec<Volume>,
) -> PodSpec {
    let placement = &cluster.cache.placement;
    let mut pod = PodSpec {
        restart_policy: Some("Never".to_owned()),
        service_account_name: Some(account),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod::restricted(cache::USER)),
        image_pull_secrets: Some(cluster.pull_secrets.clone()).filter(|s| !s.is_empty()),
        node_selector: placement.node_selector.clone(),
        tolerations: placement.tolerations.clone(),
        volumes: Some(volumes).filter(|v| !v.is_empty()),
        containers,
        ..PodSpec::default()
    };
    overlay::run_as(&mut pod, cluster.cache.overlay.as_deref());
    pod
}

/// The template of such pods.
pub(super) fn template(labels: BTreeMap<String, String>, pod: PodSpec) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            ..ObjectMeta::default()
        }),
        spec: Some(pod),
    }
}
