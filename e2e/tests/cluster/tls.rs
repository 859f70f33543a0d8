//! A database that speaks CQL over TLS only, and between its two nodes once that is asked for, and whose certificate changes:
//! `hack/e2e --full tls`.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Authority, Cluster, Told, World, is_ready};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use readstates_operator_api::{InternodeTls, ReadStateCluster, TlsSpec};
use serde_json::json;

use crate::database::{has_nodes, spec};

const MEMBER: &str = "chat-db-a-0";
const OTHER: &str = "chat-db-b-0";
const SECRET: &str = "certificates";
/// The kubelet brings the files; of one node after the other, the old process ends and the new one starts.
const CHANGES: Duration = Duration::from_mins(12);

#[tokio::test]
#[ignore = "a database of two nodes that starts five times: fifteen minutes"]
async fn a_database_speaks_over_tls_only_and_follows_its_certificate() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("tls").await?;
    let cluster = world.cluster(&place, "chat");
    let authority = Authority::new()?;
    let host = format!("chat-db.{}.svc", place.name);
    let put = async || {
        let arguments = ["apply", "-n", &place.name, "-f", "-"];
        let secret = authority.secret(SECRET, std::slice::from_ref(&host))?;
        world.kubectl_with(&arguments, &secret).await?.success()
    };
    put().await?;
    let mut spec = spec(2, 1, 1);
    spec.database.tls = Some(TlsSpec {
        secret_name: Some(SECRET.to_owned()),
        issuer_ref: None,
        internode: None,
    });
    cluster.apply(spec).await?;
    has_nodes(&cluster, 2).await?;
    cluster.available().await?;
    let told = Told::by(&cluster.service()?, 60).await?;
    cluster.flush(0).await?;
    Box::pin(encrypt_between_nodes(&cluster)).await?;
    speak_over_tls_only(&cluster).await?;
    ensure!(
        cluster.cassandra().await.is_err(),
        "the database answers in the clear"
    );
    // A pod that starts with an empty cache reads what the database has.
    cluster.replace_pod(0).await?;
    told.holds(&cluster.service()?).await?;

    let before = cluster.api::<Pod>().get(MEMBER).await?.uid();
    put().await?;
    let another = |pod: &Pod| pod.uid() != before && is_ready(pod);
    cluster
        .sees_within(MEMBER, "has the new certificate", CHANGES, another)
        .await?;
    has_nodes(&cluster, 2).await?;
    cluster.available().await?;
    speak_over_tls_only(&cluster).await?;
    cluster.replace_pod(0).await?;
    told.holds(&cluster.service()?).await?;
    cluster.delete().await
}

/// Switched on while the nodes serve: in three rounds of restarts.
async fn encrypt_between_nodes(cluster: &Cluster) -> Result<()> {
    let stage = |chat: &ReadStateCluster| {
        let status = chat.status.as_ref();
        status.and_then(|status| status.database_internode_tls)
    };
    let chat = cluster.api::<ReadStateCluster>().get("chat").await?;
    ensure!(
        stage(&chat) == Some(InternodeTls::Disabled),
        "{:?}",
        stage(&chat)
    );
    let patch = json!({ "spec": { "database": { "tls": { "internode": true } } } });
    let patch = patch.to_string();
    cluster
        .kubectl(&[
            "patch",
            "readstatecluster/chat",
            "--type=merge",
            "--patch",
            &patch,
        ])
        .await?;
    for wanted in [
        InternodeTls::Accepted,
        InternodeTls::Preferred,
        InternodeTls::Required,
    ] {
        let reached = move |chat: &ReadStateCluster| stage(chat) == Some(wanted);
        let words = format!("has stage {wanted:?} of TLS between nodes");
        cluster
            .sees_within("chat", &words, CHANGES, reached)
            .await?;
    }
    has_nodes(cluster, 2).await?;
    cluster.available().await
}

/// Both nodes log each connection between them, and how it is encrypted.
async fn speak_over_tls_only(cluster: &Cluster) -> Result<()> {
    for pod in [MEMBER, OTHER] {
        let log = cluster.kubectl(&["logs", pod, "-c", "database"]).await?;
        let encrypted = log.matches("encryption = encrypted(").count();
        ensure!(encrypted > 0, "{pod} has no encrypted connection:\n{log}");
        let in_the_clear = log
            .lines()
            .find(|line| line.contains("encryption = unencrypted"));
        ensure!(in_the_clear.is_none(), "{pod}: {in_the_clear:?}");
    }
    Ok(())
}
