//! A caller of an API that speaks TLS.

use anyhow::Result;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use reqwest::{Certificate, Client, Identity};

use crate::{
    authority::{Authority, Issued},
    cluster::{API, Cluster},
    forward::Forward,
    pod_port::{PATIENCE, Reached},
};

/// Believes one CA, and shows a certificate, a token or nothing to one pod.
#[derive(Debug)]
pub struct Caller {
    forward: Forward,
    client: Client,
    host: String,
    token: Option<String>,
}

impl Cluster {
    /// A caller of this pod that believes this CA and shows this certificate.
    ///
    /// # Errors
    /// When no local port can be listened on, or the certificate cannot be used.
    pub async fn caller(
        &self,
        pod: &str,
        believed: &Authority,
        shown: Option<&Issued>,
    ) -> Result<Caller> {
        let forward = Forward::quiet(self.api::<Pod>(), pod, API).await?;
        let host = format!("{}.{}.svc", self.name, self.place.name);
        let ca = Certificate::from_pem(believed.pem().as_bytes())?;
        // Every request has a connection, and so a handshake, of its own.
        let mut client = Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .timeout(PATIENCE)
            .resolve(&host, forward.address)
            .tls_certs_only([ca]);
        if let Some(Issued { certificate, key }) = shown {
            client = client.identity(Identity::from_pem(
                format!("{certificate}{key}").as_bytes(),
            )?);
        }
        Ok(Caller {
            client: client.build()?,
            forward,
            host,
            token: None,
        })
    }
}

impl Caller {
    /// The same caller with a token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self
        }
    }

    pub async fn ask(&self, method: Method, path: &str) -> Reached {
        let url = format!(
            "https://{}:{}{path}",
            self.host,
            self.forward.address.port()
        );
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        Reached::from(request.send().await)
    }
}
