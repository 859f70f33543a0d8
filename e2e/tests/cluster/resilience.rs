//! Pods go, members change, children are deleted: nothing acknowledged is lost, and everything comes back.

use anyhow::{Result, ensure};
use e2e::{Cluster, Told, World};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Service, ServiceAccount},
    policy::v1::PodDisruptionBudget,
};

#[tokio::test]
async fn a_cache_pod_deleted_after_its_flush_loses_nothing() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let told = Told::by(&service, 60).await?;
    let flushed = cluster.flush(0).await?;
    ensure!(
        flushed > 0,
        "none of 60 users belonged to the first of three members"
    );
    cluster.replace_pod(0).await?;
    told.holds(&service).await?;
    told.holds(&cluster.member(0)?).await
}

#[tokio::test]
async fn a_cache_pod_that_is_told_to_stop_writes_what_it_holds() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let told = Told::by(&service, 60).await?;
    let meanwhile = Told::during(&service, Box::pin(cluster.replace_pod(1))).await?;
    meanwhile.holds(&service).await?;
    told.holds(&service).await
}

#[tokio::test]
async fn scaling_down_and_up_loses_nothing() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let before = Told::by(&service, 60).await?;
    let meanwhile = Told::during(&service, async {
        cluster.scale(2).await?;
        cluster.has_members(2).await?;
        before.holds(&service).await?;
        cluster.scale(3).await?;
        cluster.has_members(3).await
    })
    .await?;
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;
    // The member that came last serves, too.
    Told::by(&cluster.member(2)?, 20)
        .await?
        .holds(&cluster.member(0)?)
        .await
}

#[tokio::test]
async fn children_that_are_deleted_come_back() -> Result<()> {
    let cluster = World::chat().await?;
    let told = Told::by(&cluster.service()?, 30).await?;
    for name in ["chat", "chat-members", "chat-db"] {
        cluster
            .delete_and_see_again::<Service>(name, |_| true)
            .await?;
    }
    for name in ["chat", "chat-db"] {
        consent(&cluster, "pdb", name).await?;
        cluster
            .delete_and_see_again::<PodDisruptionBudget>(name, |_| true)
            .await?;
        cluster
            .delete_and_see_again::<ServiceAccount>(name, |_| true)
            .await?;
    }
    let ready = |set: &StatefulSet| {
        set.status
            .as_ref()
            .is_some_and(|status| status.ready_replicas == Some(3))
    };
    consent(&cluster, "statefulset", "chat").await?;
    cluster
        .delete_and_see_again::<StatefulSet>("chat", ready)
        .await?;
    cluster.has_members(3).await?;
    told.holds(&cluster.service()?).await
}

/// Without the annotation it is refused to delete what protects or holds data.
async fn consent(cluster: &Cluster, kind: &str, name: &str) -> Result<()> {
    let allowed = "readstates.dev/allow-deletion=true";
    cluster.kubectl(&["annotate", kind, name, allowed]).await?;
    Ok(())
}

#[tokio::test]
async fn what_would_harm_a_cluster_is_refused_with_words_that_help() -> Result<()> {
    let cluster = World::chat().await?;
    let refusals: [(&[&str], &str); 6] = [
        (
            &["rollout", "restart", "statefulset", "chat"],
            "readstates.dev/restart-cache",
        ),
        (
            &["scale", "statefulset", "chat", "--replicas=0"],
            "kubectl scale readstatecluster chat",
        ),
        (
            &["delete", "statefulset", "chat-db-a"],
            "delete the ReadStateCluster",
        ),
        (
            &["delete", "readstatering", "chat"],
            "every cache pod of its ReadStateCluster stops",
        ),
        (&["delete", "pdb", "chat"], "protects a ReadStateCluster"),
        (
            &[
                "patch",
                "pdb",
                "chat",
                "--patch",
                r#"{"spec":{"maxUnavailable":3}}"#,
            ],
            "operator alone",
        ),
    ];
    for (arguments, words) in refusals {
        let refusal = cluster.refused(arguments).await?;
        ensure!(refusal.contains(words), "{arguments:?}: {refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn children_that_are_changed_are_put_back() -> Result<()> {
    let cluster = World::chat().await?;
    let patch = r#"{"spec":{"ports":[{"port":7400,"name":"http","targetPort":9999}]}}"#;
    cluster
        .kubectl(&["patch", "service", "chat", "--patch", patch])
        .await?;
    cluster
        .sees::<Service>("chat", "has its port back", |service| {
            let spec = serde_json::to_value(&service.spec).unwrap_or_default();
            spec["ports"][0]["targetPort"] == 7400
        })
        .await?;
    Ok(())
}
