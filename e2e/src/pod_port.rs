//! One port of one pod, asked in the clear, over TLS without a certificate, or with one.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Pod, Secret};
use readstates_identity::{ClusterName, Identity, Pems, Role};
use reqwest::{Client, ClientBuilder, Response};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::de::DeserializeOwned;

use crate::{
    cluster::Cluster,
    forward::Forward,
    wait::{Look, until},
};

/// A handshake through a port-forward on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// A pod that was just replaced accepts no connections for a while.
const COMES_BACK: Duration = Duration::from_mins(2);

/// What a caller proves.
#[derive(Clone, Debug)]
pub enum Proof {
    /// Plain HTTP.
    Clear,
    /// TLS, and no certificate of the caller's.
    Nothing,
    /// TLS with this certificate.
    Certificate(Box<Pems>),
}

/// How far a request came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was answered.
    Answered(StatusCode),
    /// There was no connection to send it over, or it was cut.
    Refused(String),
}

impl From<reqwest::Result<Response>> for Reached {
    fn from(sent: reqwest::Result<Response>) -> Self {
        match sent {
            Ok(response) => Self::Answered(response.status()),
            Err(error) => Self::Refused(format!("{:#}", anyhow::Error::from(error))),
        }
    }
}

impl Reached {
    /// The status, where there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Answered(status) => Some(status.as_u16()),
            Self::Refused(_) => None,
        }
    }
}

/// A port of a pod.
#[derive(Debug)]
pub struct PodPort {
    forward: Forward,
    serves: Role,
    cluster: ClusterName,
    /// The CAs that the server is checked against.
    ca: String,
}

impl Cluster {
    /// The name in this cluster's certificates.
    ///
    /// # Errors
    /// When it has none.
    pub fn identity(&self) -> Result<ClusterName> {
        Ok(format!("{}.{}", self.name, self.place.name).parse()?)
    }

    /// The certificate and key that the operator has issued for a role.
    ///
    /// # Errors
    /// When there is no such Secret.
    pub async fn pems(&self, role: Role) -> Result<Pems> {
        let name = format!("{}-{role}-tls", self.name);
        let secret = self.api::<Secret>().get(&name).await?;
        let mut data = secret.data.unwrap_or_default();
        let mut text = |key: &str| -> Result<String> {
            let bytes = data.remove(key);
            let bytes = bytes.with_context(|| format!("Secret {name} has no {key}"))?;
            Ok(String::from_utf8(bytes.0)?)
        };
        Ok(Pems {
            ca: text("ca.crt")?,
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
        })
    }

    /// A port of a pod, behind which a process of this role serves.
    ///
    /// # Errors
    /// When no local port can be listened on, or the cluster has no certificates.
    pub async fn pod_port(&self, pod: &str, port: u16, serves: Role) -> Result<PodPort> {
        Ok(PodPort {
            forward: Forward::quiet(self.api::<Pod>(), pod, port).await?,
            serves,
            cluster: self.identity()?,
            ca: self.pems(Role::Operator).await?.ca,
        })
    }
}

impl PodPort {
    /// Sends one request on a connection of its own.
    ///
    /// # Errors
    /// When the caller's certificate cannot be used.
    pub async fn ask(&self, proof: &Proof, method: Method, path: &str) -> Result<Reached> {
        let sent = self.request(proof, method, path)?.send().await;
        Ok(Reached::from(sent))
    }

    /// Asks until there is an answer: the pod may just have been replaced.
    ///
    /// # Errors
    /// When the answer is a refusal, or there is none for too long.
    pub async fn told<T: DeserializeOwned>(
        &self,
        proof: &Proof,
        method: Method,
        path: &str,
    ) -> Result<T> {
        let what = format!("{method} {path}");
        let (status, body) = until(&what, COMES_BACK, async || {
            let sent = self.request(proof, method.clone(), path)?.send().await;
            let response = match sent {
                Ok(response) => response,
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    return Ok(Look::NotYet(format!("{error:#}")));
                }
            };
            let status = response.status();
            let body = response.bytes().await?;
            Ok(match status.as_u16() {
                429 | 502..=504 => Look::NotYet(status.to_string()),
                _ => Look::Done((status, body)),
            })
        })
        .await?;
        if !status.is_success() {
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(serde_json::from_slice(&body)?)
    }

    fn request(
        &self,
        proof: &Proof,
        method: Method,
        path: &str,
    ) -> Result<reqwest::RequestBuilder> {
        let address = self.forward.address;
        let host = self.serves.host(&self.cluster);
        let (scheme, config) = match proof {
            Proof::Clear => ("http", without_certificate(&self.ca)?),
            Proof::Nothing => ("https", without_certificate(&self.ca)?),
            Proof::Certificate(pems) => {
                let identity = Identity::new((**pems).clone())?;
                ("https", identity.client_config(self.serves)?)
            }
        };
        let client = client(config, &host, address)?;
        let url = format!("{scheme}://{host}:{}{path}", address.port());
        Ok(client.request(method, url).timeout(PATIENCE))
    }
}

/// Every request has a connection, and so a handshake, of its own.
fn client(config: ClientConfig, host: &str, address: SocketAddr) -> Result<Client> {
    Ok(ClientBuilder::new()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .resolve(host, address)
        .tls_backend_preconfigured(config)
        .build()?)
}

fn without_certificate(ca: &str) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    Ok(
        ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
}
