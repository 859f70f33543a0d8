//! The operator's side of the agents in database pods. In: pods with addresses. Out: their reports, or
//! why there is none. A trait, so that tests can stand in for a whole database.

use std::{net::SocketAddr, time::Duration};

use futures::future::BoxFuture;
use readstates_identity::Role;
use serde::{Serialize, de::DeserializeOwned};

use crate::{connections::PodClients, names::ports, super_disk::AgentState, world::PodSeen};
use readstates_agent::wire::{Cleanup, Facts, Flush, Repair, Report, Start, Target, Upgrade};

/// A fresh answer takes Cassandra a JVM, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// What agents are asked and told, by the clients for their cluster. Errors are words for a person. The token is for
/// agents of the release before, which know no certificates.
pub trait Agents: Send + Sync {
    /// How the node is; an answer may be so old.
    fn report<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        max_age: Duration,
    ) -> BoxFuture<'a, Result<Report, String>>;

    /// State of the pod's super-disk, from its agent.
    fn super_disk<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
    ) -> BoxFuture<'a, Result<AgentState, String>>;

    /// What must be known before a node joins or leaves.
    fn facts<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
    ) -> BoxFuture<'a, Result<Facts, String>>;

    /// Start on the disk there is.
    fn start<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        token: Option<&'a str>,
        order: &'a Start,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Give the data away and leave.
    fn decommission<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        token: Option<&'a str>,
        order: &'a Target,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Drop what other nodes have taken over. Agents of the release before cannot, and say so.
    fn cleanup<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Cleanup,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Compare the data with the other copies. Agents of the release before cannot, and say so.
    fn repair<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Repair,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Write what is in memory to the disk. Agents of the release before cannot, and say so.
    fn flush<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Flush,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Take a step of a change to another release. Agents of the release before cannot, and say so.
    fn upgrade<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Upgrade,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Agents in pods.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpAgents;

async fn get<T: DeserializeOwned>(
    clients: &PodClients,
    pod: &PodSeen,
    path: &str,
) -> Result<T, String> {
    let (http, base) = clients.to(Role::Agent, pod.peer()?, ports::AGENT)?;
    let answer = send(http.get(format!("{base}{path}"))).await?;
    answer.json().await.map_err(words)
}

async fn disk(clients: &PodClients, pod: &PodSeen) -> Result<AgentState, String> {
    let address = SocketAddr::new(pod.peer()?.ip, ports::DISK);
    let request = clients.plain().get(format!("http://{address}/state"));
    send(request).await?.json().await.map_err(words)
}

async fn post(
    clients: &PodClients,
    pod: &PodSeen,
    path: &str,
    token: Option<&str>,
    order: &impl Serialize,
) -> Result<(), String> {
    let (http, base) = clients.to(Role::Agent, pod.peer()?, ports::AGENT)?;
    let request = http.post(format!("{base}{path}")).json(order);
    let request = match (pod.mutual_tls, token) {
        (true, _) => request,
        (false, Some(token)) => request.bearer_auth(token),
        (false, None) => return Err("its Secret with the token is missing".to_owned()),
    };
    send(request).await.map(drop)
}

impl Agents for HttpAgents {
    fn report<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        max_age: Duration,
    ) -> BoxFuture<'a, Result<Report, String>> {
        Box::pin(async move {
            let path = format!("/v1/node?max_age={}", max_age.as_secs());
            get(clients, pod, &path).await
        })
    }

    fn super_disk<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
    ) -> BoxFuture<'a, Result<AgentState, String>> {
        Box::pin(disk(clients, pod))
    }

    fn facts<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
    ) -> BoxFuture<'a, Result<Facts, String>> {
        Box::pin(get(clients, pod, "/v1/facts"))
    }

    fn start<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        token: Option<&'a str>,
        order: &'a Start,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(post(clients, pod, "/v1/start", token, order))
    }

    fn decommission<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        token: Option<&'a str>,
        order: &'a Target,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(post(clients, pod, "/v1/decommission", token, order))
    }

    fn cleanup<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Cleanup,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(post(clients, pod, "/v1/cleanup", None, order))
    }

    fn repair<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Repair,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(post(clients, pod, "/v1/repair", None, order))
    }

    fn flush<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Flush,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(post(clients, pod, "/v1/flush", None, order))
    }

    fn upgrade<'a>(
        &'a self,
        clients: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Upgrade,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(post(clients, pod, "/v1/upgrade", None, order))
    }
}

async fn send(request: reqwest::RequestBuilder) -> Result<reqwest::Response, String> {
    let answer = request.timeout(PATIENCE).send().await.map_err(words)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let said = answer.text().await.unwrap_or_default();
    Err(format!("{status}: {}", said.trim()))
}

/// The attempt without its address, and the first cause.
fn words(error: reqwest::Error) -> String {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let attempt = error.without_url().to_string();
    match cause {
        Some(cause) => format!("{attempt}: {cause}"),
        None => attempt,
    }
}
