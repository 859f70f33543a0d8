//! A database that speaks CQL over TLS only, and whose certificate changes: `hack/e2e --full tls`.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Told, World, cassandra_spec, is_ready};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use readstates_operator_api::TlsSpec;
use serde_json::json;

const MEMBER: &str = "chat-db-a-0";
const SECRET: &str = "certificates";
/// The kubelet brings the files, the old process ends, the new one starts.
const CHANGES: Duration = Duration::from_mins(6);

/// A CA that signs certificates for one host.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    host: String,
}

impl Authority {
    fn of(host: String) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, pem, host })
    }

    /// A new certificate with a new key, as a Secret.
    fn secret(&self) -> Result<String> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![self.host.clone()])?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": SECRET },
            "stringData": { "tls.crt": certificate, "tls.key": key.serialize_pem(), "ca.crt": self.pem },
        });
        Ok(secret.to_string())
    }
}

#[tokio::test]
#[ignore = "a database that starts twice: four minutes"]
async fn a_database_speaks_cql_over_tls_only_and_follows_its_certificate() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("tls").await?;
    let cluster = world.cluster(&place, "chat");
    let authority = Authority::of(format!("chat-db.{}.svc", place.name))?;
    let put = async || {
        let arguments = ["apply", "-n", &place.name, "-f", "-"];
        let secret = authority.secret()?;
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
    // Who starts with nothing in memory reads what the database has.
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
