//! A database that speaks CQL over TLS only, and whose certificate changes: `hack/e2e --full tls`.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Authority, Told, World, cassandra_spec, is_ready};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use readstates_operator_api::TlsSpec;

const MEMBER: &str = "chat-db-a-0";
const SECRET: &str = "certificates";
/// The kubelet brings the files, the old process ends, the new one starts.
const CHANGES: Duration = Duration::from_mins(6);

#[tokio::test]
#[ignore = "a database that starts twice: four minutes"]
async fn a_database_speaks_cql_over_tls_only_and_follows_its_certificate() -> Result<()> {
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
    let mut spec = cassandra_spec();
    spec.replicas = 1;
    spec.database.tls = Some(TlsSpec {
        secret_name: Some(SECRET.to_owned()),
        issuer_ref: None,
    });
    cluster.apply(spec).await?;
    cluster.available().await?;
    let told = Told::by(&cluster.service()?, 60).await?;
    cluster.flush(0).await?;
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
    cluster.available().await?;
    cluster.replace_pod(0).await?;
    told.holds(&cluster.service()?).await?;
    cluster.delete().await
}
