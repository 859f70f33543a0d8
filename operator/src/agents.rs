//! The operator's side of the agents in database pods. In: pods with addresses. Out: their reports, or
//! why there is none. A trait, so that tests can stand in for a whole database.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use futures::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    build::ports,
    engine::{Facts, Report, Start, Target},
    observe::PodSeen,
    super_disk::Answer,
};

/// A fresh answer takes Cassandra a JVM, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(2);

/// What agents are asked and told. Errors are words for a person.
pub trait Agents: Send + Sync {
    /// How the node is; an answer may be so old.
    fn report<'a>(
        &'a self,
        pod: &'a PodSeen,
        max_age: Duration,
    ) -> BoxFuture<'a, Result<Report, String>>;

    /// How the pod's super-disk is, by the agent that minds it.
    fn super_disk<'a>(&'a self, pod: &'a PodSeen) -> BoxFuture<'a, Result<Answer, String>>;

    /// What must be known before a node leaves.
    fn facts<'a>(&'a self, pod: &'a PodSeen) -> BoxFuture<'a, Result<Facts, String>>;

    /// Start on the disk there is.
    fn start<'a>(
        &'a self,
        pod: &'a PodSeen,
        token: &'a str,
        order: &'a Start,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Give the data away and leave.
    fn decommission<'a>(
        &'a self,
        pod: &'a PodSeen,
        token: &'a str,
        order: &'a Target,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Agents in pods.
#[derive(Clone, Debug)]
pub struct HttpAgents {
    http: reqwest::Client,
}

impl HttpAgents {
    /// A client. Pods are reached directly: proxies from the environment are for elsewhere.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new() -> reqwest::Result<Self> {
        Ok(Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .connect_timeout(CONNECT)
                .timeout(PATIENCE)
                .build()?,
        })
    }

    async fn get<T: DeserializeOwned>(&self, pod: &PodSeen, path: &str) -> Result<T, String> {
        self.get_at(pod, ports::AGENT, path).await
    }

    async fn get_at<T: DeserializeOwned>(
        &self,
        pod: &PodSeen,
        port: u16,
        path: &str,
    ) -> Result<T, String> {
        let request = self.http.get(url(pod, port, path)?);
        let answer = send(request).await?;
        answer.json().await.map_err(words)
    }

    async fn post(
        &self,
        pod: &PodSeen,
        path: &str,
        token: &str,
        order: &impl Serialize,
    ) -> Result<(), String> {
        let request = self.http.post(url(pod, ports::AGENT, path)?);
        send(request.bearer_auth(token).json(order)).await.map(drop)
    }
}

impl Agents for HttpAgents {
    fn report<'a>(
        &'a self,
        pod: &'a PodSeen,
        max_age: Duration,
    ) -> BoxFuture<'a, Result<Report, String>> {
        Box::pin(async move {
            let path = format!("/v1/node?max_age={}", max_age.as_secs());
            self.get(pod, &path).await
        })
    }

    fn super_disk<'a>(&'a self, pod: &'a PodSeen) -> BoxFuture<'a, Result<Answer, String>> {
        Box::pin(self.get_at(pod, ports::DISK, "/state"))
    }

    fn facts<'a>(&'a self, pod: &'a PodSeen) -> BoxFuture<'a, Result<Facts, String>> {
        Box::pin(self.get(pod, "/v1/facts"))
    }

    fn start<'a>(
        &'a self,
        pod: &'a PodSeen,
        token: &'a str,
        order: &'a Start,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.post(pod, "/v1/start", token, order))
    }

    fn decommission<'a>(
        &'a self,
        pod: &'a PodSeen,
        token: &'a str,
        order: &'a Target,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.post(pod, "/v1/decommission", token, order))
    }
}

fn url(pod: &PodSeen, port: u16, path: &str) -> Result<String, String> {
    let ip = pod.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let ip = ip.ok_or("it has no address yet")?;
    Ok(format!("http://{}{path}", SocketAddr::new(ip, port)))
}

async fn send(request: reqwest::RequestBuilder) -> Result<reqwest::Response, String> {
    let answer = request.send().await.map_err(words)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let said = answer.text().await.unwrap_or_default();
    Err(format!("{status}: {}", said.trim()))
}

fn words(error: reqwest::Error) -> String {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let own = error.without_url().to_string();
    source.map_or(own.clone(), |cause| format!("{own}: {cause}"))
}
