//! One pod of a component at a time, for whoever drains nodes. A pod that is not ready anyway may
//! always go. None at all while a move of slots is between seal and commit.

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use readstates_operator_api::labels::Component;

use super::{pod, service_account};
use crate::validate::ValidatedCluster;

pub(super) fn of(
    cluster: &ValidatedCluster,
    component: Component,
    max_unavailable: i32,
) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: cluster
            .id
            .child(service_account::name(cluster, component), component),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(max_unavailable)),
            selector: Some(pod::selector(&cluster.id.selector(component))),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
