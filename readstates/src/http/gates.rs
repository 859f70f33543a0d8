//! The limits of a member, in one place: what is admitted, and what is refused at once.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use http::HeaderMap;
use readstates_api::{Problem, ProblemType};

use super::{FORWARDED, connections::Connections, crowd::Crowd, problem::Refusal};
use crate::{
    limit::{Limit, Permit},
    limits::Limits,
    metrics::Text,
    operation::Class,
    ownership::{MOST_BYTES, Peer, Routes},
};

/// Connections to the operator's port at once: one operator keeps a few, and people a port-forward.
const MOST_ADMINS: usize = 64;
/// Connections to the port for probes and Prometheus at once.
const MOST_WATCHERS: usize = 64;
/// Deletions of users that wait for the database at once: each looks a few hundred times a second. More are answered
/// at once, with 202.
const MOST_DELETIONS: usize = 256;
/// Bytes of messages from other members in memory at once: eight of the longest. Nearly all have less than 1 MiB.
const MOST_MESSAGE_BYTES: usize = 8 * MOST_BYTES;

/// The limits, and what is taken of them.
#[derive(Debug)]
pub(crate) struct Gates {
    pub(crate) limits: Limits,
    pub(super) connections: Arc<Connections>,
    pub(crate) member_connections: Arc<Limit>,
    pub(crate) admin_connections: Arc<Limit>,
    pub(super) watchers: Arc<Crowd>,
    /// Bytes of clients' bodies, and of answers, that are not small.
    pub(crate) buffered: Arc<Limit>,
    /// Bytes of messages from other members that are not small: clients that take all of the above keep no slot from moving
    /// and no change from its backup.
    pub(super) messages: Arc<Limit>,
    reads: Limit,
    changes: Limit,
    batches: Limit,
    mentions: Limit,
    ring_waiters: Limit,
    /// Deletions of users that wait for the database.
    pub(super) deletions: Limit,
    /// Requests that say they are from a member that owns nothing: it is new, or does not exist.
    from_strangers: Limit,
}

/// The limit for requests from one member.
pub(super) enum From<'a> {
    Peer(Arc<Peer>),
    Stranger(&'a Limit),
}

impl Deref for From<'_> {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        match self {
            Self::Peer(peer) => &peer.from,
            Self::Stranger(limit) => limit,
        }
    }
}

impl Gates {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            connections: Connections::new(limits.max_connections, limits.per_source()),
            // A forwarded request takes one, and those are bounded by member.
            member_connections: Arc::new(Limit::new(limits.max_connections)),
            admin_connections: Arc::new(Limit::new(MOST_ADMINS)),
            watchers: Crowd::new(MOST_WATCHERS),
            buffered: Arc::new(Limit::new(limits.max_buffered_bytes)),
            messages: Arc::new(Limit::new(MOST_MESSAGE_BYTES)),
            reads: Limit::new(limits.max_reads),
            changes: Limit::new(limits.max_changes),
            batches: Limit::new(limits.max_batches),
            mentions: Limit::new(limits.max_mentions),
            ring_waiters: Limit::new(limits.max_ring_waiters),
            deletions: Limit::new(MOST_DELETIONS),
            from_strangers: Limit::new(limits.max_per_member),
            limits,
        }
    }

    fn of(&self, class: Class) -> Option<(&Limit, &'static str)> {
        match class {
            Class::Reads => Some((&self.reads, "reads")),
            Class::Changes => Some((&self.changes, "changes")),
            Class::Batches => Some((&self.batches, "batches")),
            Class::Mentions => Some((&self.mentions, "mentions")),
            Class::RingWaiters => Some((&self.ring_waiters, "clients waiting for the next ring")),
            Class::Open => None,
        }
    }

    /// Refuses when there is no room, before the body is read. No permit is taken yet: a client that
    /// is slow to send its body holds nothing that others could use.
    pub(super) fn look(&self, class: Class) -> Result<(), Refusal> {
        match self.of(class) {
            Some((limit, what)) if limit.is_full() => Err(over(limit, what)),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes a permit for the time of the work.
    pub(super) fn enter(&self, class: Class) -> Result<Option<Permit<&Limit>>, Refusal> {
        let Some((limit, what)) = self.of(class) else {
            return Ok(None);
        };
        Permit::take(limit, 1)
            .map(Some)
            .ok_or_else(|| over(limit, what))
    }

    /// Takes a permit of the member that has forwarded the request, if one has.
    pub(super) fn enter_from(
        &self,
        routes: &Routes,
        headers: &HeaderMap,
    ) -> Result<Option<Permit<From<'_>>>, Refusal> {
        let Some(name) = headers.get(FORWARDED) else {
            return Ok(None);
        };
        let mut peers = routes.peers().iter();
        let from = match peers.find(|peer| peer.name.as_bytes() == name.as_bytes()) {
            Some(peer) => From::Peer(Arc::clone(peer)),
            None => From::Stranger(&self.from_strangers),
        };
        let refusal = |most| over_most(most, "requests from this member");
        let most = from.most();
        Permit::take(from, 1).map(Some).ok_or_else(|| refusal(most))
    }

    /// The limits as metrics.
    pub(super) fn write(&self, text: &mut Text, routes: &Routes) {
        let Self {
            limits: _,
            connections,
            member_connections,
            admin_connections,
            watchers,
            buffered,
            messages,
            reads,
            changes,
            batches,
            mentions,
            ring_waiters,
            deletions,
            from_strangers,
        } = self;
        let own = [
            ("connections", &*connections.limit),
            ("member-connections", member_connections),
            ("admin-connections", admin_connections),
            ("buffered-bytes", buffered),
            ("message-bytes", messages),
            ("reads", reads),
            ("changes", changes),
            ("batches", batches),
            ("mentions", mentions),
            ("ring-waiters", ring_waiters),
            ("deletions", deletions),
            ("from-strangers", from_strangers),
        ];
        let own = own.map(|(name, limit)| (name.to_owned(), limit));
        // Two processes may have one name for a while.
        let peers: BTreeMap<&str, &Peer> = routes
            .peers()
            .iter()
            .map(|peer| (&*peer.name, &**peer))
            .collect();
        let from = peers.values();
        let from = from.map(|peer| (format!("from-{}", peer.name), &peer.from));
        let to = peers.values();
        let to = to.map(|peer| (format!("to-{}", peer.name), &peer.to));
        let all: Vec<_> = own.into_iter().chain(from).chain(to).collect();
        text.counter(
            "readstates_watchers_cut_total",
            "Connections to the port for probes that were cut because newer ones came.",
            watchers.pushed_out(),
        );
        connections.write(text);
        for (family, help, kind, value) in FAMILIES {
            text.family(family, help, kind);
            for (name, limit) in &all {
                text.sample(family, &[("limit", name)], value(limit));
            }
        }
    }
}

/// Name, meaning and kind of a family about limits, and what it shows of each.
type Family = (&'static str, &'static str, &'static str, fn(&Limit) -> f64);

const FAMILIES: [Family; 3] = [
    (
        "readstates_limit",
        "How much of what may be going on at once.",
        "gauge",
        |limit| limit.most() as f64,
    ),
    (
        "readstates_limit_in_use",
        "How much of it is going on now.",
        "gauge",
        |limit| limit.used() as f64,
    ),
    (
        "readstates_limit_refusals_total",
        "How often something was refused because of the limit.",
        "counter",
        |limit| limit.refused() as f64,
    ),
];

fn over(limit: &Limit, what: &str) -> Refusal {
    over_most(limit.most(), what)
}

fn over_most(most: usize, what: &str) -> Refusal {
    let detail = format!("{most} {what} are being handled, which is the limit; try again later");
    Problem::new(ProblemType::Overloaded, detail).into()
}
