//! What users lay over pods: `podTemplate` of cache and database. Ours stays where it is needed for the data: labels by
//! which pods are found, that no two database pods share a machine, and our containers and volumes, whose names
//! `validate::extras` refuses to others.

use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity,
    PodAntiAffinity, PodSecurityContext, PodSpec, PodTemplateSpec,
};
use readstates_operator_api::PodTemplate;

use super::pod::restricted_container;

/// Of files in a volume that only containers of ours mount.
const READABLE: i32 = 0o444;

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Lays it over the pods; its environment over the container of this name.
pub(super) fn over(template: &mut PodTemplateSpec, overlay: Option<&PodTemplate>, container: &str) {
    let Some(PodTemplate {
        labels,
        annotations,
        env,
        affinity,
        topology_spread_constraints,
        security_context: _,
        containers,
        init_containers,
        volumes,
        volume_mounts,
    }) = overlay
    else {
        return;
    };
    let metadata = template.metadata.get_or_insert_default();
    for (ours, theirs) in [
        (&mut metadata.labels, labels),
        (&mut metadata.annotations, annotations),
    ] {
        for (key, value) in theirs.iter().flatten() {
            let ours = ours.get_or_insert_default();
            ours.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let Some(spec) = template.spec.as_mut() else {
        return;
    };
    if let Some(main) = spec.containers.iter_mut().find(|c| c.name == container) {
        let ours = main.env.get_or_insert_default();
        for variable in env.iter().flatten() {
            if ours.iter().all(|v| v.name != variable.name) {
                ours.push(variable.clone());
            }
        }
        extend(&mut main.volume_mounts, volume_mounts.as_deref());
    }
    if containers.iter().flatten().next().is_some() {
        // The container that `kubectl logs` and `kubectl exec` use by default.
        let annotations = metadata.annotations.get_or_insert_default();
        let key = DEFAULT_CONTAINER.to_owned();
        annotations.entry(key).or_insert(container.to_owned());
    }
    let added = |all: &Option<Vec<Container>>| -> Vec<Container> {
        all.iter().flatten().map(unprivileged).collect()
    };
    run_as(spec, overlay);
    spec.containers.extend(added(containers));
    extend(&mut spec.init_containers, Some(&added(init_containers)));
    extend(&mut spec.volumes, volumes.as_deref());
    if let Some(theirs) = affinity {
        let ours = spec.affinity.take().unwrap_or_default();
        spec.affinity = Some(both(ours, theirs.clone()));
    }
    if let Some(theirs) = topology_spread_constraints {
        spec.topology_spread_constraints = Some(theirs.clone()).filter(|all| !all.is_empty());
    }
}

/// Appends; an absent list stays absent when there is nothing to append, so that templates keep their hashes.
fn extend<T: Clone>(ours: &mut Option<Vec<T>>, theirs: Option<&[T]>) {
    let theirs = theirs.unwrap_or_default();
    if !theirs.is_empty() {
        ours.get_or_insert_default().extend_from_slice(theirs);
    }
}

/// A container of the user's, as the `restricted` pod security standard wants it where the user says nothing.
fn unprivileged(container: &Container) -> Container {
    let mut container = container.clone();
    let security = container.security_context.take();
    container.security_context = Some(security.unwrap_or_else(|| restricted_container(false)));
    container
}

/// As whom a pod runs: as the user says, or as we do.
pub(super) fn security(
    overlay: Option<&PodTemplate>,
    ours: PodSecurityContext,
) -> PodSecurityContext {
    let theirs = overlay.and_then(|overlay| overlay.security_context.clone());
    theirs.unwrap_or(ours)
}

/// The pod, which has no containers and volumes but ours yet, runs as the user says.
pub(super) fn run_as(spec: &mut PodSpec, overlay: Option<&PodTemplate>) {
    let theirs = overlay.and_then(|overlay| overlay.security_context.clone());
    let Some(theirs) = theirs else {
        return;
    };
    if theirs.fs_group.is_none() {
        // The platform may give the pod a group, or not: then the files of Secrets are root's and of root's group.
        let secrets = spec.volumes.iter_mut().flatten();
        for secret in secrets.filter_map(|volume| volume.secret.as_mut()) {
            secret.default_mode = Some(READABLE);
        }
    }
    spec.security_context = Some(theirs);
}

/// Both must hold.
fn both(ours: Affinity, theirs: Affinity) -> Affinity {
    Affinity {
        node_affinity: one_or_both(ours.node_affinity, theirs.node_affinity, nodes),
        pod_affinity: one_or_both(ours.pod_affinity, theirs.pod_affinity, |a, b| PodAffinity {
            preferred_during_scheduling_ignored_during_execution: joined(
                a.preferred_during_scheduling_ignored_during_execution,
                b.preferred_during_scheduling_ignored_during_execution,
            ),
            required_during_scheduling_ignored_during_execution: joined(
                a.required_during_scheduling_ignored_during_execution,
                b.required_during_scheduling_ignored_during_execution,
            ),
        }),
        pod_anti_affinity: one_or_both(ours.pod_anti_affinity, theirs.pod_anti_affinity, |a, b| {
            PodAntiAffinity {
                preferred_during_scheduling_ignored_during_execution: joined(
                    a.preferred_during_scheduling_ignored_during_execution,
                    b.preferred_during_scheduling_ignored_during_execution,
                ),
                required_during_scheduling_ignored_during_execution: joined(
                    a.required_during_scheduling_ignored_during_execution,
                    b.required_during_scheduling_ignored_during_execution,
                ),
            }
        }),
    }
}

fn nodes(ours: NodeAffinity, theirs: NodeAffinity) -> NodeAffinity {
    NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: joined(
            ours.preferred_during_scheduling_ignored_during_execution,
            theirs.preferred_during_scheduling_ignored_during_execution,
        ),
        required_during_scheduling_ignored_during_execution: one_or_both(
            ours.required_during_scheduling_ignored_during_execution,
            theirs.required_during_scheduling_ignored_during_execution,
            |ours, theirs| NodeSelector {
                node_selector_terms: every_pair(&ours, &theirs),
            },
        ),
    }
}

/// Terms are alternatives: a node is of one of ours and of one of theirs when it is of one of these.
fn every_pair(ours: &NodeSelector, theirs: &NodeSelector) -> Vec<NodeSelectorTerm> {
    let pair = |a: &NodeSelectorTerm, b: &NodeSelectorTerm| NodeSelectorTerm {
        match_expressions: joined(a.match_expressions.clone(), b.match_expressions.clone()),
        match_fields: joined(a.match_fields.clone(), b.match_fields.clone()),
    };
    let ours = ours.node_selector_terms.iter();
    ours.flat_map(|a| theirs.node_selector_terms.iter().map(move |b| pair(a, b)))
        .collect()
}

fn one_or_both<T>(ours: Option<T>, theirs: Option<T>, both: impl Fn(T, T) -> T) -> Option<T> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(both(ours, theirs)),
        (ours, theirs) => ours.or(theirs),
    }
}

fn joined<T>(ours: Option<Vec<T>>, theirs: Option<Vec<T>>) -> Option<Vec<T>> {
    one_or_both(ours, theirs, |mut ours, theirs| {
        ours.extend(theirs);
        ours
    })
}
