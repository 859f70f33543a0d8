//! How a client behaves: where it starts, how long it tries, how much it has under way.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use http::Uri;
use readstates_api::{RingDocument, RingMember};

use crate::{
    tls::{Tls, TlsError},
    token::{Token, TokenError},
};

/// Idle connections to a member are closed before the member itself closes them (75 s), so that no request
/// is written into a connection that is just being closed.
pub(crate) const POOL_IDLE: Duration = Duration::from_secs(60);

/// How a client behaves. [`Config::new`] has what suits most; the methods change one thing each.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) seeds: Vec<String>,
    pub(crate) routing: Routing,
    pub(crate) translate: Option<Translate>,
    pub(crate) token: Option<Token>,
    pub(crate) tls: Option<Tls>,
    pub(crate) deadline: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) max_in_flight_per_member: usize,
    pub(crate) retry_reserve: u32,
    pub(crate) retries_per_call: f64,
}

/// Whom a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routing {
    /// The owner of the user, by the newest ring: no hop. This is what a client is for.
    Owners,
    /// Any of the seeds, which forwards: where the members' own addresses cannot be reached.
    Seeds,
    /// The owner of the user by this ring, which never changes; each wrong guess costs one more request. For a
    /// short job that has the ring from elsewhere, and for tests of what a stale ring costs.
    Fixed(Box<RingDocument>),
}

/// Where a member answers, as seen from here.
#[derive(Clone)]
pub(crate) struct Translate(pub(crate) Arc<Translation>);

type Translation = dyn Fn(&RingMember) -> Option<String> + Send + Sync;

impl fmt::Debug for Translate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Translate")
    }
}

/// Why a client was not made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no service to ask.
    #[error("a client needs at least one URL of the service")]
    NoSeeds,
    /// Not the URL of a service.
    #[error("{0:?} is not http://HOST[:PORT] or https://HOST[:PORT]")]
    BadUrl(String),
    /// This client does not understand the ring of [`Routing::Fixed`].
    #[error("failed to use the fixed ring")]
    BadRing(#[from] crate::RingError),
    /// The token cannot be sent.
    #[error("failed to use the token")]
    Token(#[from] TokenError),
    /// The files of TLS cannot be used.
    #[error("failed to use the TLS files")]
    Tls(#[from] TlsError),
    /// The HTTP client was not set up.
    #[error("failed to set up the HTTP client")]
    Http(#[from] reqwest::Error),
}

impl Config {
    /// The behaviour that suits most, starting from these URLs: that of the Service, or those of some
    /// members. `http://HOST[:PORT]`, or `https://HOST[:PORT]` where the service speaks TLS.
    ///
    /// # Errors
    /// When there is no URL, or one that is not of this form.
    pub fn new<U: AsRef<str>>(seeds: impl IntoIterator<Item = U>) -> Result<Self, ConfigError> {
        let seeds = seeds
            .into_iter()
            .map(|seed| plain_url(seed.as_ref()).ok_or(seed))
            .collect::<Result<Vec<_>, U>>()
            .map_err(|bad| ConfigError::BadUrl(bad.as_ref().to_owned()))?;
        if seeds.is_empty() {
            return Err(ConfigError::NoSeeds);
        }
        Ok(Self {
            seeds,
            routing: Routing::Owners,
            translate: None,
            token: None,
            tls: None,
            deadline: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(7),
            connect_timeout: Duration::from_secs(1),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(2),
            max_in_flight: 1024,
            max_in_flight_per_member: 256,
            retry_reserve: 100,
            retries_per_call: 0.2,
        })
    }

    /// Whom to ask: the owners ([`Routing::Owners`]) unless said otherwise.
    #[must_use]
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = routing;
        self
    }

    /// Where members answer as seen from here, when that is not where the ring says: a URL like those of
    /// the seeds, or `None` for a member that cannot be reached, whose users then go through the seeds.
    #[must_use]
    pub fn translate(
        mut self,
        translate: impl Fn(&RingMember) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.translate = Some(Translate(Arc::new(translate)));
        self
    }

    /// The token that identifies the caller: the same for the life of the client.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn token(mut self, token: &str) -> Result<Self, ConfigError> {
        self.token = Some(Token::fixed(token)?);
        Ok(self)
    }

    /// The token that identifies the caller, from a file that is read again within a second of a change.
    ///
    /// # Errors
    /// When the file cannot be read, or what is in it cannot be sent.
    pub fn token_file(mut self, file: impl AsRef<Path>) -> Result<Self, ConfigError> {
        self.token = Some(Token::of_file(file.as_ref())?);
        Ok(self)
    }

    /// Which servers to trust over TLS, and which certificate to show. Without it, the system's CAs are trusted.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How long a call may take with all its attempts and pauses: 10 s unless said otherwise.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long one attempt may take: 7 s unless said otherwise, which is more than a member waits for its
    /// database or for another member.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// How long a member may take to accept a connection: 1 s unless said otherwise.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The pause after the first failed attempt, doubled after each further one up to the longest: 20 ms
    /// and 2 s unless said otherwise. Half of a pause is drawn by lot. A `Retry-After` is waited out.
    #[must_use]
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first_pause = first;
        self.longest_pause = longest;
        self
    }

    /// Requests under way at once, to all members together and to each: 1024 and 256 unless said
    /// otherwise. A call waits for its turn until its deadline.
    #[must_use]
    pub fn in_flight(mut self, at_once: usize, per_member: usize) -> Self {
        self.max_in_flight = at_once.max(1);
        self.max_in_flight_per_member = per_member.max(1);
        self
    }

    /// What retries may come to: a reserve of so many, to which every call adds a part of one; 100 and 0.2
    /// unless said otherwise. A service in trouble gets a fifth more requests then, not a multiple.
    #[must_use]
    pub fn retry_budget(mut self, reserve: u32, per_call: f64) -> Self {
        self.retry_reserve = reserve;
        self.retries_per_call = per_call.max(0.0);
        self
    }
}

impl Config {
    /// Whether no seed speaks TLS: then no member does.
    pub(crate) fn is_plain(&self) -> bool {
        self.seeds.iter().all(|seed| seed.starts_with("http:"))
    }
}

/// A URL of the form that members have, without the slash at its end.
pub(crate) fn plain_url(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let plain = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.host().is_some_and(|host| !host.is_empty())
        && uri.path() == "/"
        && uri.query().is_none();
    plain.then(|| url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_url_of_scheme_host_and_port() {
        let config = Config::new(["http://chat:7400/", "https://127.0.0.1"]).unwrap();
        assert_eq!(config.seeds, ["http://chat:7400", "https://127.0.0.1"]);
        for bad in ["chat:7400", "ftp://chat", "http://chat/v1", "http://"] {
            let refusal = Config::new([bad]).unwrap_err().to_string();
            assert!(refusal.contains(bad), "{refusal}");
        }
        let nobody: [&str; 0] = [];
        assert!(matches!(Config::new(nobody), Err(ConfigError::NoSeeds)));
    }
}
