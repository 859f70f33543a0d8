//! The same agents over mutual TLS, as an operator in a process of its own asks them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use readstates_agent::wire::{Facts, Report, Start};
use readstates_identity::Identity;
use readstates_operator::{names::ports, world::PodSeen};

use super::FakeAgents;
use crate::mutual::Operators;

type Here = State<(Arc<FakeAgents>, PodSeen)>;

/// The agent of this pod, from now on.
pub(crate) async fn serve(agents: Arc<FakeAgents>, pod: PodSeen, ip: IpAddr, identity: &Identity) {
    let address = SocketAddr::new(ip, ports::AGENT);
    let operators = Operators::listen(address, identity).await;
    let app = Router::new()
        .route("/v1/node", get(node))
        .route("/v1/facts", get(facts))
        .route("/v1/start", post(start))
        .with_state((agents, pod));
    // Not joined: it ends with the test.
    tokio::spawn(async { axum::serve(operators, app).await.unwrap() });
}

async fn node(State((agents, pod)): Here) -> Json<Report> {
    Json(agents.ring().report(&pod))
}

async fn facts(State((agents, _)): Here) -> Json<Facts> {
    Json(agents.ring().facts())
}

async fn start(State((agents, pod)): Here, Json(order): Json<Start>) -> StatusCode {
    assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
    agents.ring().join(&pod);
    StatusCode::ACCEPTED
}
