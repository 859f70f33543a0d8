//! Tokens of Kubernetes service accounts, which only the API server can check.
//!
//! ```text
//! token ─ claims name an account of the file? ─ known? ─ asked already? ─ review ─▶ known for a minute
//!              no: refused, no review              └ at once    └ waits along
//! ```
//! What a token claims decides only whether asking is worth it: the API server decides whether it is true. So
//! invented tokens cost it nothing, unless they claim to be of an account of the file; and then no more than a few
//! reviews at once.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::{Api, Client, Config, api::PostParams};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, timeout},
};

use super::token::{self, Key};
use crate::{
    limit::{Limit, Permit},
    metrics::Counter,
    store::chain,
};

/// Whom tokens have to be for: one that is meant for the API server itself is not accepted, so that no caller has
/// to send a token with which others could act in its name elsewhere.
pub const AUDIENCE: &str = "readstates";
/// How long an answer holds, in either direction.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Answers kept, in each direction.
const MOST_KNOWN: usize = 4096;
/// Reviews under way at once.
const MOST_REVIEWS: usize = 8;
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Says whose a token is.
#[async_trait]
pub trait TokenReviewer: fmt::Debug + Send + Sync {
    /// The user that a token for the audience [`AUDIENCE`] is of; `None` when it is not valid.
    ///
    /// # Errors
    /// When it cannot be said now.
    async fn review(&self, token: &str) -> Result<Option<String>, ReviewError>;
}

/// Why it is not known whose a token is.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The API server refused to review, or could not be reached.
    #[error("failed to ask the API server to review a token")]
    Refused(#[from] kube::Error),
    /// It took too long.
    #[error("the API server did not review a token within {REVIEW_TIMEOUT:?}")]
    Late,
}

/// This process is not in a pod.
#[derive(Debug, thiserror::Error)]
#[error(
    "serviceAccounts can only be checked in a pod of Kubernetes; leave them out, and give the callers tokens or certificates"
)]
pub struct NotInKubernetes(#[source] Box<dyn std::error::Error + Send + Sync>);

pub struct ApiServer(Api<TokenReview>);

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiServer")
    }
}

impl ApiServer {
    /// The API server of the cluster that this process is a pod of.
    ///
    /// # Errors
    /// When it is none.
    pub fn of_this_pod() -> Result<Self, NotInKubernetes> {
        let config = Config::incluster().map_err(|error| NotInKubernetes(error.into()))?;
        Self::with_config(config).map_err(|error| NotInKubernetes(error.into()))
    }

    /// The API server that this access is for.
    ///
    /// # Errors
    /// When the access makes no sense.
    pub fn with_config(config: Config) -> kube::Result<Self> {
        Ok(Self(Api::all(Client::try_from(config)?)))
    }
}

#[async_trait]
impl TokenReviewer for ApiServer {
    async fn review(&self, token: &str) -> Result<Option<String>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![AUDIENCE.to_owned()]),
                token: token.to_owned(),
            },
            ..TokenReview::default()
        };
        let reviewed = self.0.create(&PostParams::default(), &review).await?;
        let status = reviewed.status.unwrap_or_default();
        // A server that does not know audiences leaves them out, and has not checked them.
        let for_us = status
            .audiences
            .is_some_and(|list| list.iter().any(|audience| audience == AUDIENCE));
        let valid = status.authenticated == Some(true) && for_us;
        Ok(status.user.and_then(|user| user.username).filter(|_| valid))
    }
}

/// Whose a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reviewed {
    /// Of this service account, as `NAMESPACE/NAME`.
    Account(Arc<str>),
    /// Of none.
    Nobody,
    /// The API server could not be asked.
    Unknown,
}

/// Reviews and their results.
#[derive(Debug)]
pub(crate) struct Reviews {
    reviewer: Arc<dyn TokenReviewer>,
    runtime: Handle,
    at_once: Arc<Limit>,
    known: Mutex<Known>,
    /// Reviews that gave an answer.
    pub(crate) answered: Counter,
    /// Reviews that failed, and those not begun because too many were under way.
    pub(crate) failed: Counter,
}

#[derive(Debug, Default)]
struct Known {
    asked: HashMap<Key, watch::Receiver<Option<Reviewed>>>,
    /// Apart, so that tokens that are refused do not push out those that are not.
    accounts: Answers,
    nobody: Answers,
}

/// Answers in the order in which they were given, which is nearly that in which they expire.
#[derive(Debug, Default)]
struct Answers {
    by_token: HashMap<Key, (Instant, Reviewed)>,
    order: VecDeque<Key>,
}

impl Answers {
    fn get(&self, key: &Key, now: Instant) -> Option<&Reviewed> {
        let (until, reviewed) = self.by_token.get(key)?;
        (now < *until).then_some(reviewed)
    }

    fn put(&mut self, key: Key, until: Instant, reviewed: Reviewed) {
        if self.by_token.insert(key, (until, reviewed)).is_some() {
            self.order.retain(|other| *other != key);
        }
        self.order.push_back(key);
        if self.order.len() > MOST_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_token.remove(&oldest);
        }
    }
}

impl Reviews {
    /// Asks this reviewer, on the runtime that this is called in.
    pub(super) fn new(reviewer: Arc<dyn TokenReviewer>) -> Arc<Self> {
        Arc::new(Self {
            reviewer,
            runtime: Handle::current(),
            at_once: Arc::new(Limit::new(MOST_REVIEWS)),
            known: Mutex::default(),
            answered: Counter::default(),
            failed: Counter::default(),
        })
    }

    /// Whose a token is. Requests with a token that is being reviewed wait for the same review.
    pub(super) async fn review(self: &Arc<Self>, token: &str, claims: &Claims) -> Reviewed {
        let key = Key(token::hash(token));
        let mut answer = {
            let now = Instant::now();
            let mut known = self.known.lock();
            let answer = known.accounts.get(&key, now);
            if let Some(reviewed) = answer.or_else(|| known.nobody.get(&key, now)) {
                return reviewed.clone();
            }
            match known.asked.get(&key) {
                Some(answer) => answer.clone(),
                None => {
                    let Some(permit) = Permit::take(Arc::clone(&self.at_once), 1) else {
                        self.failed.increment(1);
                        return Reviewed::Unknown;
                    };
                    let (sender, answer) = watch::channel(None);
                    known.asked.insert(key, answer.clone());
                    let asking = Arc::clone(self).ask(key, token.to_owned(), claims.clone());
                    // Ends after `REVIEW_TIMEOUT`, also when no request waits any more. It is not joined: its
                    // result is in the table.
                    self.runtime.spawn(async move {
                        sender.send_replace(Some(asking.await));
                        drop(permit);
                    });
                    answer
                }
            }
        };
        match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or(Reviewed::Unknown),
            Err(_) => Reviewed::Unknown,
        }
    }

    async fn ask(self: Arc<Self>, key: Key, token: String, claims: Claims) -> Reviewed {
        let asked = timeout(REVIEW_TIMEOUT, self.reviewer.review(&token)).await;
        let reviewed = match asked.unwrap_or(Err(ReviewError::Late)) {
            Ok(user) => match user.as_deref().and_then(account_of) {
                // The API server may know better, but never something else than what was asked for.
                Some(account) if account == claims.account => {
                    Reviewed::Account(account.as_str().into())
                }
                Some(_) | None => Reviewed::Nobody,
            },
            Err(error) => {
                tracing::warn!(
                    "{}; callers with new tokens are refused for now",
                    chain(&error)
                );
                Reviewed::Unknown
            }
        };
        let now = Instant::now();
        let mut known = self.known.lock();
        known.asked.remove(&key);
        match &reviewed {
            Reviewed::Account(_) => {
                let until = now + claims.left().min(KNOWN_FOR);
                known.accounts.put(key, until, reviewed.clone());
            }
            Reviewed::Nobody => known.nobody.put(key, now + KNOWN_FOR, reviewed.clone()),
            Reviewed::Unknown => {}
        }
        let counter = match &reviewed {
            Reviewed::Account(_) | Reviewed::Nobody => &self.answered,
            Reviewed::Unknown => &self.failed,
        };
        counter.increment(1);
        reviewed
    }
}

/// What a token says about itself. Nothing of it is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    /// The service account, as `NAMESPACE/NAME`.
    pub(super) account: String,
    /// When it expires, in Unix seconds.
    expires: Option<u64>,
}

impl Claims {
    /// The claims of a token of a service account; `None` when it is none, or has expired.
    pub(super) fn of(token: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Payload {
            sub: String,
            exp: Option<u64>,
        }
        let mut parts = token.split('.');
        let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let json = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let Payload { sub, exp } = serde_json::from_slice(&json).ok()?;
        let claims = Self {
            account: account_of(&sub)?,
            expires: exp,
        };
        (!claims.left().is_zero()).then_some(claims)
    }

    /// How long the token is still valid.
    fn left(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO);
        self.expires.map_or(Duration::MAX, |at| {
            Duration::from_secs(at).saturating_sub(now)
        })
    }
}

fn account_of(user: &str) -> Option<String> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    Some(format!("{namespace}/{name}"))
}
