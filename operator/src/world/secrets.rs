//! What was seen of Secrets: whether they are there and complete, and no key or password of them.

use jiff::Timestamp;

/// A Secret with a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSeen {
    /// There is no such Secret.
    Absent,
    /// It lacks these keys.
    Incomplete(Vec<&'static str>),
    /// It has what is needed.
    Complete,
}

/// A Secret with certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatesSeen {
    /// There is no such Secret.
    Absent {
        /// What cert-manager says of it, where it is to make it.
        words: Option<String>,
    },
    /// It lacks these keys.
    Incomplete(Vec<&'static str>),
    /// What it holds cannot be used, for this reason.
    Broken(String),
    /// There is no way to cert-manager, for this reason.
    NoManager(String),
    /// It has what is needed.
    Complete {
        /// Changes whenever what members show changes.
        mark: String,
        /// Whether there is a certificate to show to an external database.
        client: bool,
        /// When the first of them expires.
        expires: Option<Timestamp>,
    },
}

/// The CAs of clients' certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCaSeen {
    /// The CAs for cache pods, in PEM form: those of the spec's source, or else the last valid ones; `None`: neither.
    pub pem: Option<String>,
    /// When the last of what the spec names expires, or why it cannot be used.
    pub source: Result<Option<Timestamp>, String>,
}

/// What was seen of the tokens of a caller that is to have one: their hashes, never empty.
pub type Tokens = Result<Vec<String>, TokenProblem>;

/// Why there is no token of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenProblem {
    /// There is no such Secret.
    NoSecret,
    /// It lacks the key, or there is nothing under it.
    NoKey,
    /// What is there could be guessed.
    TooShort,
}
