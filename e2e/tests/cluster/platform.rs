//! Pods that run as a user of their namespace, in root's group, whom no image knows: as on OpenShift.
//! `hack/e2e --full platform`.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Cluster, Told, World, cassandra_spec, is_ready};
use k8s_openapi::api::core::v1::{Pod, PodSecurityContext};
use kube::ResourceExt;
use readstates_operator_api::PodTemplate;

/// The first user of a namespace's range, which is the group of its volumes, too.
const ASSIGNED: i64 = 1_000_650_000;
const NODE: &str = "chat-db-a-0";
/// A database that stops and starts again.
const CHANGES: Duration = Duration::from_mins(6);

fn running_as(security: PodSecurityContext) -> Option<Box<PodTemplate>> {
    let template = PodTemplate {
        security_context: Some(security),
        ..PodTemplate::default()
    };
    Some(Box::new(template))
}

/// User, group and further groups of the processes that are started in a pod.
async fn who(cluster: &Cluster, pod: &str) -> Result<String> {
    let script = "id -u; id -g; id -G";
    let said = cluster
        .kubectl(&["exec", pod, "--", "sh", "-c", script])
        .await?;
    Ok(said.lines().collect::<Vec<_>>().join(", "))
}

#[tokio::test]
#[ignore = "a database that starts twice: four minutes"]
async fn cache_and_database_run_as_a_user_that_their_images_do_not_know() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("platform").await?;
    let cluster = world.cluster(&place, "chat");
    let assigned = PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(ASSIGNED),
        run_as_group: Some(0),
        fs_group: Some(ASSIGNED),
        ..PodSecurityContext::default()
    };
    let mut spec = cassandra_spec();
    spec.replicas = 1;
    spec.cache.pod_template = running_as(assigned.clone());
    spec.database.pod_template = running_as(assigned);
    cluster.apply(spec.clone()).await?;
    cluster.available().await?;
    for pod in ["chat-0", NODE] {
        let who = who(&cluster, pod).await?;
        ensure!(
            who == format!("{ASSIGNED}, 0, 0 {ASSIGNED}"),
            "{pod}: {who}"
        );
    }
    let told = Told::by(&cluster.service()?, 60).await?;
    cluster.flush(0).await?;

    let before = cluster.api::<Pod>().get(NODE).await?.uid();
    cluster
        .kubectl(&["delete", "pod", NODE, "--wait=false"])
        .await?;
    let another = |pod: &Pod| pod.uid() != before && is_ready(pod);
    cluster
        .sees_within(NODE, "comes back", CHANGES, another)
        .await?;
    cluster.replace_pod(0).await?;
    told.holds(&cluster.service()?).await?;

    println!("    a user that the image says, and no group for the files of volumes");
    spec.cache.pod_template = running_as(PodSecurityContext {
        run_as_non_root: Some(true),
        ..PodSecurityContext::default()
    });
    cluster.apply(spec).await?;
    let without = |pod: &Pod| {
        let security = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.security_context.as_ref());
        security.is_some_and(|security| security.fs_group.is_none()) && is_ready(pod)
    };
    cluster
        .sees("chat-0", "runs without a group", without)
        .await?;
    told.holds(&cluster.service()?).await?;
    cluster.delete().await
}
