//! The operator's side of the agents in database pods. In: pods with addresses. Out: their reports, or
//! why there is none. A trait, so that tests can stand in for a whole database.

use std::{net::SocketAddr, time::Duration};

use futures::future::BoxFuture;
use readstates_identity::Role;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    answers, connections::PodClients, names::ports, super_disk::AgentState, words::chain,
    world::PodSeen,
};
use readstates_agent::wire::{Cleanup, Facts, Flush, Repair, Report, Start, Target, Upgrade};

/// A fresh answer takes Cassandra a JVM, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of the longest answer: a report has 200 for each node of the database, of which there are hundreds at most.
const LONGEST: usize = 256 << 10;

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
    read(send(http.get(format!("{base}{path}"))).await?).await
}

async fn disk(clients: &PodClients, pod: &PodSeen) -> Result<AgentState, String> {
    let address = SocketAddr::new(pod.peer()?.ip, ports::DISK);
    let request = clients.plain().get(format!("http://{address}/state"));
    read(send(request).await?).await
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
    Err(format!("{status}: {}", answers::words(answer).await))
}

async fn read<T: DeserializeOwned>(answer: reqwest::Response) -> Result<T, String> {
    let read = answers::json(answer, LONGEST).await;
    read.map_err(|unread| chain(&unread))
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

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;
    use crate::{
        answers::fixtures::{answering, elsewhere, endless},
        connections::Connections,
    };

    /// A pod of the release before at this address.
    fn pod(ip: &str) -> PodSeen {
        PodSeen {
            ip: Some(ip.to_owned()),
            has_agent: true,
            ..PodSeen::default()
        }
    }

    #[tokio::test]
    async fn an_agent_is_heard_no_longer_than_an_honest_one_speaks() {
        let (says, refuses) = ("127.0.13.11", "127.0.13.12");
        for port in [ports::AGENT, ports::DISK] {
            answering(says, port, || endless(StatusCode::OK)).await;
        }
        answering(refuses, ports::AGENT, || endless(StatusCode::CONFLICT)).await;
        let clients = Connections::new().unwrap().of("uid", None);
        let (says, refuses) = (pod(says), pod(refuses));
        let too_long = "its answer is longer than 262144 bytes";
        let report = HttpAgents.report(&clients, &says, Duration::ZERO).await;
        assert_eq!(report.unwrap_err(), too_long);
        let disk = HttpAgents.super_disk(&clients, &says).await;
        assert_eq!(disk.unwrap_err(), too_long);
        let refused = HttpAgents.report(&clients, &refuses, Duration::ZERO).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused, format!("409 Conflict: {}", "x".repeat(400)));
    }

    #[tokio::test]
    async fn an_agent_that_points_elsewhere_is_not_followed() {
        let (here, there) = ("127.0.13.13", "127.0.13.14");
        let url = format!("http://{there}:{}/", ports::AGENT);
        answering(here, ports::AGENT, move || elsewhere(&url)).await;
        answering(there, ports::AGENT, || panic!("it was asked")).await;
        let clients = Connections::new().unwrap().of("uid", None);
        let asked = HttpAgents.facts(&clients, &pod(here)).await;
        assert_eq!(asked.unwrap_err(), "302 Found: ");
    }
}
