//! Where requests go: the newest ring with the destination of each member, and the seeds.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use readstates_api::{Id, Problem, RingMember};
use tokio::sync::watch;

use crate::{
    config::{Config, Translate, plain_url},
    exchange::Destination,
    ring::Ring,
};

/// A ring and where its members answer.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) ring: Ring,
    /// For each member of the ring; `None` for one that cannot be reached from here.
    destinations: Vec<Option<Arc<Destination>>>,
}

impl Table {
    /// Where the owner of a user answers, if it can be reached.
    pub(crate) fn owner(&self, user: Id) -> Option<Arc<Destination>> {
        self.destinations[self.ring.owner_index(user)?].clone()
    }
}

/// A sign that there is a newer ring: the number, and a member that works by it.
#[derive(Debug, Clone)]
pub(crate) struct Hint {
    pub(crate) number: u64,
    pub(crate) at: Arc<Destination>,
}

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Routes {
    seeds: Vec<Arc<Destination>>,
    next_seed: AtomicUsize,
    translate: Option<Translate>,
    config: Config,
    /// All destinations, by URL: a member has one, however it was named.
    known: Mutex<HashMap<String, Arc<Destination>>>,
    table: watch::Sender<Option<Arc<Table>>>,
    hint: watch::Sender<Option<Hint>>,
}

impl Routes {
    pub(crate) fn new(config: &Config) -> Self {
        let seed = |url: &String| (url.clone(), Destination::new(url.clone(), config));
        let known: HashMap<_, _> = config.seeds.iter().map(seed).collect();
        let seeds = config.seeds.iter().map(|url| Arc::clone(&known[url]));
        Self {
            seeds: seeds.collect(),
            // Not every client asks the first seed first.
            next_seed: AtomicUsize::new(rand::random_range(0..config.seeds.len().max(1))),
            translate: config.translate.clone(),
            config: config.clone(),
            known: Mutex::new(known),
            table: watch::Sender::new(None),
            hint: watch::Sender::new(None),
        }
    }

    /// One of the seeds, each in turn.
    pub(crate) fn seed(&self) -> Arc<Destination> {
        let turn = self.next_seed.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.seeds[turn % self.seeds.len()])
    }

    /// The owner of a user by the newest ring.
    pub(crate) fn owner(&self, user: Id) -> Option<Arc<Destination>> {
        self.table.borrow().as_ref()?.owner(user)
    }

    /// The member that a 421 names, where it can be reached.
    pub(crate) fn named(&self, problem: &Problem) -> Option<Arc<Destination>> {
        let member = RingMember {
            name: problem.owner.clone()?,
            incarnation: None,
            url: problem.owner_url.clone()?,
            zone: None,
        };
        self.destination(&member)
    }

    /// The newest ring.
    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        self.table.borrow().clone()
    }

    /// The number of the newest ring, 0 before there is one.
    pub(crate) fn number(&self) -> u64 {
        self.table
            .borrow()
            .as_ref()
            .map_or(0, |table| table.ring.number())
    }

    /// Tells when there is a newer ring.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Arc<Table>>> {
        self.table.subscribe()
    }

    /// Takes a ring if it is newer than the current one; with `anyway`, in any case.
    pub(crate) fn adopt(&self, ring: Ring, anyway: bool) -> bool {
        if !anyway && ring.number() <= self.number() {
            return false;
        }
        let destinations: Vec<_> = ring
            .members()
            .iter()
            .map(|member| self.destination(member))
            .collect();
        tracing::debug!(
            number = ring.number(),
            members = ring.members().len(),
            "new ring"
        );
        let table = Arc::new(Table { ring, destinations });
        self.table.send_replace(Some(Arc::clone(&table)));
        self.forget_others(&table);
        true
    }

    /// A member answered that works by this ring.
    pub(crate) fn seen(&self, number: u64, at: &Arc<Destination>) {
        // Almost every answer says what is known.
        if number <= self.number() {
            return;
        }
        self.hint.send_if_modified(|hint| {
            let newer = hint.as_ref().is_none_or(|hint| hint.number < number);
            if newer {
                let at = Arc::clone(at);
                *hint = Some(Hint { number, at });
            }
            newer
        });
    }

    /// The newest hint, and when there is a newer one.
    pub(crate) fn hints(&self) -> watch::Receiver<Option<Hint>> {
        self.hint.subscribe()
    }

    /// The ring has started over: hints of the one before mean nothing.
    pub(crate) fn forget_hints(&self) {
        self.hint.send_replace(None);
    }

    fn destination(&self, member: &RingMember) -> Option<Arc<Destination>> {
        let url = match &self.translate {
            Some(Translate(translate)) => translate(member)?,
            None => member.url.clone(),
        };
        let url = plain_url(&url)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Destination::new(url.clone(), &self.config);
        Some(Arc::clone(known.entry(url.clone()).or_insert_with(new)))
    }

    /// Members come and go; what is kept of them does not grow.
    fn forget_others(&self, table: &Table) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, destination| {
            let mut kept = self.seeds.iter().chain(table.destinations.iter().flatten());
            kept.any(|other| Arc::ptr_eq(other, destination)) || Arc::strong_count(destination) > 1
        });
    }
}
