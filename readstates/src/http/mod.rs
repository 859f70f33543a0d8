//! The HTTP surface: what comes in, in the order in which it is looked at.
//!
//! ```text
//! connection ─ TLS? ─ route ─ caller? ─ owner? ─ limit ─ body ─ permit ─ handler ─ engine ─ answer
//!                                                                └─ another member: forward once
//! ```
//!
//! There is no framework between hyper and the handlers: a request is a match over the operations of
//! `route`, so that what it costs is what is written here.

mod access;
mod admin;
mod asked;
mod batch;
mod body;
mod changes;
mod checked_mention;
mod connection;
mod connections;
mod crowd;
mod deadline;
pub(crate) mod ending;
mod entry;
mod fan_out;
mod forward;
mod gates;
mod handoff;
mod head;
mod json;
mod listen;
mod mentions;
mod openapi;
mod owner;
mod packing;
mod pages;
mod paging;
mod passed;
mod precondition;
mod probes;
mod problem;
mod read_states;
mod received_singles;
pub(crate) mod reply;
mod representation;
mod requests;
mod route;
mod rows;
mod schemas;
mod selection;
mod served;
mod singles;
mod slow;
mod snapshots;
mod target;
mod tls;

use std::sync::{Arc, OnceLock};

use access::Peer;
pub use forward::Forwarder;
use gates::Gates;
use http::HeaderName;
pub(crate) use listen::{Entrance, listen};
pub use openapi::{admin_document as admin_openapi_document, document as openapi_document};
use packing::Packer;
use pages::Page;
pub(crate) use problem::UNKNOWN;
use readstates_api::headers;
pub(crate) use reply::Body;
use slow::Slow;
use snapshots::Snapshots;
pub(crate) use tls::ApiTls;
pub use tls::{RELOAD_EVERY as TLS_RELOAD_EVERY, TlsFiles};
use tokio::{runtime::Handle, sync::watch};

use crate::{
    access::Access,
    engine::Engine,
    health::Health,
    limits::Limits,
    metrics::Metrics,
    operation::Operation,
    ownership::Ownership,
    trace::{ObserveConfig, Tracing},
};

const RING: HeaderName = HeaderName::from_static(headers::RING);
const FORWARDED: HeaderName = HeaderName::from_static(headers::FORWARDED);
const INCARNATION: HeaderName = HeaderName::from_static(headers::INCARNATION);

/// What handlers work with.
pub struct App {
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) forwarder: Forwarder,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    gates: Gates,
    /// Who may call; `None`: anyone.
    access: Option<Arc<Access>>,
    /// TLS with clients; `None`: they speak plain HTTP.
    tls: Option<Arc<ApiTls>>,
    snapshots: Arc<Snapshots>,
    packer: Arc<Packer>,
    metrics_page: Page,
    status_page: Page,
    slow: Slow,
    /// Makes spans of requests; `None`: there are none.
    tracing: Option<Tracing>,
    /// The runtime that answers clients, once it is there.
    pub(crate) workers: OnceLock<Handle>,
    /// True when the member stops listening.
    closed: watch::Receiver<bool>,
}

impl App {
    /// Brings the parts together.
    #[must_use]
    pub fn new(
        ownership: Arc<Ownership>,
        engine: Arc<Engine>,
        forwarder: Forwarder,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
        limits: Limits,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let gates = Gates::new(limits);
        let packer = Arc::new(Packer::new(Arc::clone(&gates.buffered)));
        Self {
            snapshots: Snapshots::new(Arc::clone(&gates.buffered), Arc::clone(&packer)),
            packer,
            metrics_page: Page::default(),
            status_page: Page::default(),
            gates,
            ownership,
            engine,
            forwarder,
            metrics,
            health,
            access: None,
            tls: None,
            slow: Slow::default(),
            tracing: None,
            workers: OnceLock::new(),
            closed,
        }
    }

    /// The same, for callers who are admitted and over TLS, where there are such.
    pub(crate) fn guarded(self, access: Option<Arc<Access>>, tls: Option<Arc<ApiTls>>) -> Self {
        Self {
            access,
            tls,
            ..self
        }
    }

    /// The same, that says this about requests.
    pub(crate) fn observed(self, observe: ObserveConfig) -> Self {
        let ObserveConfig {
            slow_request,
            tracing,
        } = observe;
        Self {
            slow: Slow::new(slow_request),
            tracing,
            ..self
        }
    }

    /// The DNS names that the other end of a connection has proven to have.
    fn names_of<'a>(&self, peer: &'a Peer) -> Option<&'a [String]> {
        let certificate = peer.certificate.as_ref()?;
        self.tls.as_ref()?.names(certificate)
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("me", self.ownership.me())
            .finish_non_exhaustive()
    }
}
