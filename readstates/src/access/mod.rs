//! Who may call the API: callers by name, how they prove themselves, and what they may do.
//!
//! ```text
//! Authorization: Bearer TOKEN ─┬─ its SHA-256 is in the file ─────────────────────┐
//!                              └─ it claims a service account of the file ─ review ┼─▶ caller ─ verb? ─ limit? ─▶ in
//! no header ─ DNS name of the client certificate is in the file ───────────────────┘      └ 403      └ 429
//!      └ none of them: 401
//! ```
//! Comes in: the file, again whenever it changes, and what a request has to prove who sends it. Goes out: the
//! caller, or why there is none. A file that is broken changes nothing: the callers of the one before stay.

pub(crate) mod audit;
pub mod file;
pub mod header;
mod review;
mod table;
#[cfg(test)]
mod tests;
pub mod token;

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use http::{HeaderMap, header as names};
use parking_lot::Mutex;

use self::table::{CallerLimits, Table};
use self::{
    audit::Subject,
    file::{AccessFile, FileError, MAX_BYTES},
    header::NoToken,
    review::{Claims, Reviewed, Reviews},
};
pub(crate) use self::{file::Verb, table::Caller};
pub use self::{
    review::{AUDIENCE, ApiServer, NotInKubernetes, ReviewError, TokenReviewer},
    table::DEFAULT_MAX_CONCURRENT,
};
use crate::{
    limits::Limits,
    metrics::{Counter, Gauge, Text},
    ration::Ration,
    store::chain,
};

/// How often the file is looked at. A token that is taken out of it is refused this much later.
pub const RELOAD_EVERY: Duration = Duration::from_secs(5);

/// What access is made with.
#[derive(Debug, Clone)]
pub struct AccessConfig {
    /// The file with the callers.
    pub file: PathBuf,
    /// How often it is looked at.
    pub reload_every: Duration,
    /// Who checks tokens of service accounts; `None`: the API server of the cluster that the process is a pod of.
    pub reviewer: Option<Arc<dyn TokenReviewer>>,
}

impl AccessConfig {
    /// The callers of this file.
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        Self {
            file,
            reload_every: RELOAD_EVERY,
            reviewer: None,
        }
    }
}

/// Why the callers of a file cannot be admitted.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error("failed to read {file:?}")]
    Read { file: PathBuf, source: io::Error },
    /// It makes no sense.
    #[error("{file:?}")]
    File {
        file: PathBuf,
        /// What is wrong with it.
        source: FileError,
    },
    /// It names service accounts, and there is no API server that knows them.
    #[error("{file:?}")]
    NotInKubernetes {
        file: PathBuf,
        /// What to do instead.
        source: NotInKubernetes,
    },
}

/// Why a request has no caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoCaller {
    #[error(
        "the request does not say who sends it; send Authorization: Bearer TOKEN, or a client certificate"
    )]
    NoProof,
    #[error("{0}; send one header Authorization: Bearer TOKEN")]
    Header(#[from] NoToken),
    #[error("the request has more than one Authorization header; send one")]
    Headers,
    #[error("the token is not, or not any more, one of a caller")]
    UnknownToken,
    #[error("the client certificate is not, or not any more, one of a caller")]
    UnknownCertificate,
    /// Not refused for good: it may be a caller's.
    #[error("the token of a service account cannot be checked now; try again later")]
    NotReviewed,
}

/// Who may call the API.
#[derive(Debug)]
pub struct Access {
    config: AccessConfig,
    /// Of the member, of which a caller gets a part.
    limits: Limits,
    table: ArcSwap<Table>,
    /// Made when the file first names a service account.
    reviews: OnceLock<Arc<Reviews>>,
    /// What was last found in the file, good or not.
    seen: Mutex<Option<Vec<u8>>>,
    /// Audit lines about requests without a caller.
    unauthenticated: Ration,
    reloads: Counter,
    reload_failures: Counter,
    /// 1 while what is in force is what is in the file.
    current: Gauge,
}

impl Access {
    /// Admits the callers of a file. To be called in a runtime that stays as long as this does.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn open(config: AccessConfig, limits: &Limits) -> Result<Arc<Self>, AccessError> {
        let access = Self {
            config,
            limits: limits.clone(),
            table: ArcSwap::default(),
            reviews: OnceLock::new(),
            seen: Mutex::default(),
            unauthenticated: Ration::default(),
            reloads: Counter::default(),
            reload_failures: Counter::default(),
            current: Gauge::default(),
        };
        let bytes = access.read()?;
        access.adopt(&bytes)?;
        *access.seen.lock() = Some(bytes);
        access.current.set(1.0);
        Ok(Arc::new(access))
    }

    /// Looks at the file for ever. Cancel-safe: a table is taken whole or not.
    pub async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.config.reload_every).await;
            self.look();
        }
    }

    /// Takes what is in the file, if that is new and makes sense.
    fn look(&self) {
        let read = self.read();
        let bytes = read.as_ref().ok().cloned();
        let mut seen = self.seen.lock();
        if *seen == bytes {
            return;
        }
        let adopted = read.and_then(|bytes| self.adopt(&bytes));
        *seen = bytes;
        drop(seen);
        match adopted {
            Ok(()) => {
                self.reloads.increment(1);
                self.current.set(1.0);
                let callers = self.table.load().callers().len();
                tracing::info!(callers, "the access file was read again");
            }
            Err(error) => {
                self.reload_failures.increment(1);
                self.current.set(0.0);
                tracing::error!(
                    "the access file is broken, and the callers from before stay: {}",
                    chain(&error)
                );
            }
        }
    }

    /// A file of a few kilobytes, in memory where Kubernetes mounts it: not worth a thread.
    fn read(&self) -> Result<Vec<u8>, AccessError> {
        read_bounded(&self.config.file).map_err(|source| AccessError::Read {
            file: self.config.file.clone(),
            source,
        })
    }

    fn adopt(&self, bytes: &[u8]) -> Result<(), AccessError> {
        let file = AccessFile::parse(bytes).map_err(|source| AccessError::File {
            file: self.config.file.clone(),
            source,
        })?;
        if file.callers.is_empty() {
            tracing::warn!("the access file names no caller: every request to the API is refused");
        }
        if file.names_service_accounts() && self.reviews.get().is_none() {
            let reviewer = self.reviewer()?;
            // Another call may have been first, with the same reviewer.
            let _ = self.reviews.set(Reviews::new(reviewer));
        }
        let table = Table::new(&file, &self.limits, &self.table.load());
        self.table.store(Arc::new(table));
        Ok(())
    }

    fn reviewer(&self) -> Result<Arc<dyn TokenReviewer>, AccessError> {
        if let Some(reviewer) = &self.config.reviewer {
            return Ok(Arc::clone(reviewer));
        }
        let server = ApiServer::of_this_pod().map_err(|source| AccessError::NotInKubernetes {
            file: self.config.file.clone(),
            source,
        })?;
        Ok(Arc::new(server))
    }

    /// The caller of a request: by its token, or without one by the DNS names of the client certificate of its
    /// connection. A certificate does not make up for a wrong token.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&[String]>,
    ) -> Result<Arc<Caller>, NoCaller> {
        let mut sent = headers.get_all(names::AUTHORIZATION).iter();
        let Some(first) = sent.next() else {
            let certificate = certificate.ok_or(NoCaller::NoProof)?;
            let table = self.table.load();
            let caller = table.by_certificate(certificate);
            return caller.cloned().ok_or(NoCaller::UnknownCertificate);
        };
        if sent.next().is_some() {
            return Err(NoCaller::Headers);
        }
        let token = header::bearer(first.as_bytes())?;
        if let Some(caller) = self.table.load().by_token(token::hash(token)) {
            return Ok(Arc::clone(caller));
        }
        match self.reviews.get() {
            // Rare and slow: in a box, so that the others need not carry its state.
            Some(reviews) => Box::pin(self.review(reviews, token)).await,
            None => Err(NoCaller::UnknownToken),
        }
    }

    async fn review(&self, reviews: &Arc<Reviews>, token: &str) -> Result<Arc<Caller>, NoCaller> {
        let claims = Claims::of(token).ok_or(NoCaller::UnknownToken)?;
        let named = |account: &str| self.table.load().by_service_account(account).cloned();
        if named(&claims.account).is_none() {
            return Err(NoCaller::UnknownToken);
        }
        match reviews.review(token, &claims).await {
            // The file may have changed meanwhile.
            Reviewed::Account(account) => named(&account).ok_or(NoCaller::UnknownToken),
            Reviewed::Nobody => Err(NoCaller::UnknownToken),
            Reviewed::Unknown => Err(NoCaller::NotReviewed),
        }
    }

    /// Writes the audit line of a request without a caller, or of a caller without the right.
    pub(crate) fn audit_refusal(
        &self,
        caller: Option<&Caller>,
        subject: Subject<'_>,
        status: u16,
        why: &str,
    ) {
        let ration = caller.map_or(&self.unauthenticated, |caller| &caller.refusals);
        if let Some(left_out) = ration.take(std::time::Instant::now()) {
            audit::refused(subject, status, why, left_out);
        }
    }
}

/// Writes the metrics of callers, files and reviews; without an access file there are no callers.
pub(crate) fn write(access: Option<&Access>, text: &mut Text) {
    let table = access.map(|access| access.table.load_full());
    let callers = table.as_ref().map_or(&[][..], |table| table.callers());
    let families: [Family<'_>; 3] = [
        (
            "readstates_caller_limit",
            "Requests that a caller may have under way.",
            "gauge",
            |limits| limits.requests.most() as f64,
        ),
        (
            "readstates_caller_in_use",
            "Requests that a caller has under way.",
            "gauge",
            |limits| limits.requests.used() as f64,
        ),
        (
            "readstates_caller_limit_refusals_total",
            "Requests refused because a caller had as many under way as it may, of all kinds or of one.",
            "counter",
            |limits| limits.refused() as f64,
        ),
    ];
    for (family, help, kind, value) in families {
        text.family(family, help, kind);
        for caller in callers {
            text.sample(family, &[("caller", &caller.name)], value(&caller.limits));
        }
    }
    text.gauge(
        "readstates_access_file_current",
        "1 while the callers are those of the access file; 0 while it is broken, and those from before stay, and without one.",
        access.map_or(0.0, |access| access.current.get()),
    );
    text.counter(
        "readstates_access_reloads_total",
        "Access files that were taken in place of another.",
        access.map_or(0, |access| access.reloads.get()),
    );
    text.counter(
        "readstates_access_reload_failures_total",
        "Access files that were broken when they had changed.",
        access.map_or(0, |access| access.reload_failures.get()),
    );
    let reviews = access.and_then(|access| access.reviews.get());
    text.counter(
        "readstates_token_reviews_total",
        "Tokens of service accounts that the API server said yes or no to.",
        reviews.map_or(0, |reviews| reviews.answered.get()),
    );
    text.counter(
        "readstates_token_review_failures_total",
        "Tokens of service accounts that could not be checked.",
        reviews.map_or(0, |reviews| reviews.failed.get()),
    );
}

/// Name, meaning and kind of a family about callers, and what it shows of each.
type Family<'a> = (&'a str, &'a str, &'a str, fn(&CallerLimits) -> f64);

/// Reads a regular file, up to one byte more than [`MAX_BYTES`], so that a larger one is noticed.
fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    let open = fs::File::open(file)?;
    if !open.metadata()?.is_file() {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    let mut bytes = Vec::new();
    open.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
