//! The callers that are admitted now: an immutable snapshot that requests look up.

use std::{collections::HashMap, sync::Arc};

use super::{
    file::{AccessFile, CallerEntry, TokenHash, Verb, Verbs},
    token::Key,
};
use crate::{limit::Limit, limits::Limits, ration::Ration};

/// Requests that a caller may have under way at one member when its entry does not say.
pub const DEFAULT_MAX_CONCURRENT: usize = 1024;

/// A caller that is admitted.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) name: String,
    verbs: Verbs,
    pub(crate) limits: CallerLimits,
    /// Audit lines about what it was refused.
    pub(super) refusals: Ration,
}

/// What one caller may have under way: requests of all kinds together, and of each kind at most half of what the
/// member takes, so that one caller leaves room for another.
#[derive(Debug)]
pub(crate) struct CallerLimits {
    pub(crate) requests: Arc<Limit>,
    pub(crate) reads: Arc<Limit>,
    pub(crate) changes: Arc<Limit>,
    pub(crate) batches: Arc<Limit>,
    pub(crate) mentions: Arc<Limit>,
    /// Requests that wait for the next ring count here and not among the others: they take nothing but a place.
    pub(crate) ring_waiters: Arc<Limit>,
}

impl CallerLimits {
    fn new(most: usize, member: &Limits) -> Self {
        let half = |of: usize| Arc::new(Limit::new((of / 2).clamp(1, most)));
        Self {
            requests: Arc::new(Limit::new(most)),
            reads: half(member.max_reads),
            changes: half(member.max_changes),
            batches: half(member.max_batches),
            mentions: half(member.max_mentions),
            ring_waiters: half(member.max_ring_waiters),
        }
    }

    /// How often the caller was refused because of them.
    pub(crate) fn refused(&self) -> u64 {
        let Self {
            requests,
            reads,
            changes,
            batches,
            mentions,
            ring_waiters,
        } = self;
        let all = [requests, reads, changes, batches, mentions, ring_waiters];
        all.iter().map(|limit| limit.refused()).sum()
    }
}

impl Caller {
    pub(crate) fn may(&self, verb: Verb) -> bool {
        self.verbs.have(verb)
    }
}

/// The callers of one version of the file.
#[derive(Debug, Default)]
pub(crate) struct Table {
    callers: Vec<Arc<Caller>>,
    tokens: HashMap<Key, Arc<Caller>>,
    service_accounts: HashMap<String, Arc<Caller>>,
    certificates: HashMap<String, Arc<Caller>>,
}

impl Table {
    /// The callers of a file. Those that are in `before` with the same limits keep what they have under way.
    pub(super) fn new(file: &AccessFile, member: &Limits, before: &Self) -> Self {
        let mut table = Self::default();
        for entry in &file.callers {
            let caller = Arc::new(caller(entry, member, before));
            let keys = entry.tokens.iter().map(|&hash| Key(hash));
            table
                .tokens
                .extend(keys.map(|key| (key, Arc::clone(&caller))));
            let named = |names: &[String]| -> Vec<(String, Arc<Caller>)> {
                let with = |name: &String| (name.clone(), Arc::clone(&caller));
                names.iter().map(with).collect()
            };
            table
                .service_accounts
                .extend(named(&entry.service_accounts));
            table.certificates.extend(named(&entry.certificates));
            table.callers.push(caller);
        }
        table
    }

    pub(crate) fn callers(&self) -> &[Arc<Caller>] {
        &self.callers
    }

    pub(super) fn by_token(&self, hash: TokenHash) -> Option<&Arc<Caller>> {
        self.tokens.get(&Key(hash))
    }

    pub(super) fn by_service_account(&self, account: &str) -> Option<&Arc<Caller>> {
        self.service_accounts.get(account)
    }

    /// The caller that one of the names of a certificate stands for; `None` also when two stand for different ones.
    pub(super) fn by_certificate(&self, names: &[String]) -> Option<&Arc<Caller>> {
        let mut found = names.iter().filter_map(|name| self.certificates.get(name));
        let first = found.next()?;
        found
            .all(|other| Arc::ptr_eq(first, other))
            .then_some(first)
    }
}

fn caller(entry: &CallerEntry, member: &Limits, before: &Table) -> Caller {
    let CallerEntry {
        name,
        verbs,
        max_concurrent,
        tokens: _,
        service_accounts: _,
        certificates: _,
    } = entry;
    let most = max_concurrent.unwrap_or(DEFAULT_MAX_CONCURRENT);
    let known = before.callers.iter().find(|known| known.name == *name);
    let limits = match known {
        Some(known) if known.limits.requests.most() == most => known.limits.share(),
        Some(_) | None => CallerLimits::new(most, member),
    };
    Caller {
        name: name.clone(),
        verbs: *verbs,
        limits,
        refusals: Ration::default(),
    }
}

impl CallerLimits {
    /// The same limits, with what is taken of them.
    fn share(&self) -> Self {
        Self {
            requests: Arc::clone(&self.requests),
            reads: Arc::clone(&self.reads),
            changes: Arc::clone(&self.changes),
            batches: Arc::clone(&self.batches),
            mentions: Arc::clone(&self.mentions),
            ring_waiters: Arc::clone(&self.ring_waiters),
        }
    }
}
