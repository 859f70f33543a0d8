//! Disruption budgets: evictions take one pod of a component at a time. A cache pod that is evicted drains by itself,
//! and one that is not ready may always go. A database pod that is not ready may go only while the others are ready:
//! its agent may only be too busy to answer, and otherwise several pods that serve could be evicted at once.

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::{apis::meta::v1::LabelSelectorRequirement, util::intstr::IntOrString},
};
use readstates_operator_api::labels::Component;

use crate::{
    plan::Evictions,
    spec::ValidatedCluster,
    templates::{pod, service_account},
};

/// The label that a StatefulSet gives each of its pods.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Of the database: with a super-disk at risk, no other pod may go.
pub(super) fn database(cluster: &ValidatedCluster, evictions: &Evictions) -> PodDisruptionBudget {
    let component = Component::Database;
    match evictions {
        Evictions::OneAtATime => of(cluster, component, 1),
        Evictions::None => of(cluster, component, 0),
        Evictions::Only(pod) => {
            let mut budget = of(cluster, component, 0);
            // A pod that no budget selects may be evicted, and two budgets may not select one pod.
            let others = LabelSelectorRequirement {
                key: POD_NAME.to_owned(),
                operator: "NotIn".to_owned(),
                values: Some(vec![pod.clone()]),
            };
            if let Some(selector) = budget.spec.as_mut().and_then(|s| s.selector.as_mut()) {
                selector.match_expressions = Some(vec![others]);
            }
            budget
        }
    }
}

fn unhealthy(component: Component) -> &'static str {
    match component {
        Component::Database => "IfHealthyBudget",
        Component::Cache | Component::Schema | Component::Backup => "AlwaysAllow",
    }
}

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
            unhealthy_pod_eviction_policy: Some(unhealthy(component).to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
