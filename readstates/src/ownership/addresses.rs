//! The address of each other member's port for members, as its presence says it.
//!
//! Looked up for every request that is forwarded, without a lock; updated from the presences that are
//! read anyway, and read again when one is missing.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use readstates_ring::{Incarnation, RingMember};

use super::{
    Ownership, Peer,
    store::{Presence, RingStore},
};
use crate::{clock, store::chain};

/// By process.
#[derive(Debug, Default)]
pub(super) struct Addresses(ArcSwap<HashMap<Incarnation, Address>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    /// The base URL of its port for members.
    Members(Arc<str>),
    /// A process of the release before: its clients' port takes forwarded requests, and nothing takes slots.
    Clients(Arc<str>),
}

/// A process that slots can be handed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// How the ring lists it.
    pub member: RingMember,
    /// The base URL of its port for members.
    pub url: String,
}

/// Slots cannot go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no live member of this ring that takes slots has the incarnation {0}")]
pub struct NoDestination(Incarnation);

impl Destination {
    /// The process that says this of itself; `None` when it cannot be listed or takes no slots.
    #[must_use]
    pub fn of(presence: &Presence) -> Option<Self> {
        Some(Self {
            member: presence.member().ok()?,
            url: base(presence.members.as_ref()?),
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.member.name()
    }
}

impl Addresses {
    /// `proven`: only where members prove what they are.
    pub(super) fn learn(&self, presences: &[Presence], proven: bool) {
        let address = |presence: &Presence| match &presence.members {
            Some(url) if proven && !url.starts_with("https://") => None,
            Some(url) => Some(Address::Members(base(url).into())),
            // Without encryption, as that release speaks it.
            None if presence.url.starts_with("http://") => {
                Some(Address::Clients(base(&presence.url).into()))
            }
            None => None,
        };
        let addresses = presences
            .iter()
            .filter_map(|presence| Some((presence.incarnation, address(presence)?)));
        let addresses: HashMap<_, _> = addresses.collect();
        if **self.0.load() != addresses {
            self.0.store(Arc::new(addresses));
        }
    }

    fn of(&self, member: Incarnation) -> Option<Arc<str>> {
        match self.0.load().get(&member)? {
            Address::Members(url) | Address::Clients(url) => Some(Arc::clone(url)),
        }
    }
}

impl Ownership {
    /// Where another member takes forwarded requests, without a slash at the end.
    pub(crate) async fn address(&self, member: &Peer) -> Option<Arc<str>> {
        if let Some(url) = self.addresses.of(member.incarnation) {
            return Some(url);
        }
        self.see_the_others().await;
        self.addresses.of(member.incarnation)
    }

    /// A live process that has a presence in this ring's store and takes slots.
    pub(super) async fn destination(&self, to: Incarnation) -> Result<Destination, NoDestination> {
        if let Some(known) = self.known_destination(to) {
            return Ok(known);
        }
        self.see_the_others().await;
        self.known_destination(to).ok_or(NoDestination(to))
    }

    fn known_destination(&self, to: Incarnation) -> Option<Destination> {
        let watch = self.watch.lock();
        let presence = watch
            .presence(to)
            .filter(|it| !it.draining && !it.gone && !watch.is_dead(to, clock::now()))?;
        Destination::of(presence)
    }

    /// A live process that frames can be sent to, also while it hands its own slots on.
    pub(super) fn reachable(&self, to: Incarnation) -> Option<Destination> {
        let watch = self.watch.lock();
        let presence = watch.presence(to)?;
        let is_over = presence.gone || watch.is_dead(to, clock::now());
        Destination::of(presence).filter(|_| !is_over)
    }

    /// Reads the presences because a caller is in doubt.
    pub(super) async fn see_the_others(&self) {
        let read = async {
            match self.store.presences().await {
                Ok(presences) => self.observe(presences),
                Err(error) => {
                    self.watch.lock().missed();
                    tracing::debug!("failed to read the presences: {}", chain(&error));
                }
            }
        };
        self.unseen.settle(read).await;
    }

    /// Takes in the presences of all members.
    pub(super) fn observe(&self, presences: Vec<Presence>) {
        let mine = self.config.members.as_deref();
        let proven = mine.is_some_and(|url| url.starts_with("https://"));
        self.addresses.learn(&presences, proven);
        let table = Arc::clone(self.routes.load().table());
        let (now, unix_micros) = (clock::now(), self.config.unix_clock.micros());
        let mut others = {
            let mut watch = self.watch.lock();
            watch.observe(presences, &table, now, unix_micros);
            watch.clocks(now)
        };
        others.store = self.store.clock_ahead();
        self.check_clock(others, now, unix_micros);
    }
}

fn base(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}
