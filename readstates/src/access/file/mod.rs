//! The access file: who may call the API, how a caller proves itself, and what it may do.
//!
//! Comes in: YAML or JSON. Goes out: callers that contradict neither themselves nor each other, or an error that
//! names the place. Pure. An error never repeats a token: a file may hold one by mistake, and errors are logged.

mod tokens;

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use tokens::Tokens;

/// The largest file: 1 MiB is some three thousand callers.
pub const MAX_BYTES: usize = 1 << 20;
/// Callers in one file.
pub const MAX_CALLERS: usize = 1024;
/// Tokens, service accounts and certificates of one caller, each.
const MAX_PROOFS: usize = 64;
/// The most that `maxConcurrent` can say: far above what a member can do.
const MAX_CONCURRENT: usize = 1_000_000;
const MAX_NAME: usize = 63;
const HASH_PREFIX: &str = "sha256:";

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Read states and summaries of users, and the ring.
    Read,
    /// Acknowledge and mention.
    Write,
    /// Import read states of another system, together with `write`.
    Import,
    /// Delete read states and users.
    Delete,
    /// Read the status of members.
    AdminRead,
}

impl Verb {
    /// As the file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Import => "import",
            Self::Delete => "delete",
            Self::AdminRead => "admin-read",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of verbs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verbs(u8);

impl Verbs {
    /// Whether the verb is one of them.
    #[must_use]
    pub fn have(self, verb: Verb) -> bool {
        self.0 & verb.bit() != 0
    }
}

/// The SHA-256 hash of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASH_PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerEntry {
    /// Its name, for logs, metrics and audit lines.
    pub name: String,
    /// What it may do.
    pub verbs: Verbs,
    /// The hashes of its tokens.
    pub tokens: Vec<TokenHash>,
    /// Kubernetes service accounts, as `NAMESPACE/NAME`.
    pub service_accounts: Vec<String>,
    /// DNS names of client certificates, in lower case.
    pub certificates: Vec<String>,
    /// Requests it may have under way at one member.
    pub max_concurrent: Option<usize>,
}

/// A file that makes sense.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessFile {
    /// The callers, in the order of the file.
    pub callers: Vec<CallerEntry>,
}

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Larger than [`MAX_BYTES`].
    #[error("the file has {0} bytes, and may have {MAX_BYTES}")]
    TooLarge(usize),
    /// Neither YAML nor JSON of this form.
    #[error("{place}: {problem}")]
    Malformed {
        /// Where: the path of the field, or the file.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// There is no list.
    #[error("callers: the list is missing; write callers: [] to admit none")]
    NoCallers,
    /// More than [`MAX_CALLERS`].
    #[error("callers: there are {0}, and at most {MAX_CALLERS}")]
    TooManyCallers(usize),
    /// A value of one caller makes no sense.
    #[error("callers[{index}] {name:?}: {field}: {problem}")]
    Caller {
        /// Its place in the list.
        index: usize,
        name: String,
        field: &'static str,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// The same thing stands for two callers, or twice for one.
    #[error(
        "callers[{index}] {name:?}: {field}[{place}] is also that of {other:?}; each stands for one caller, once"
    )]
    Twice {
        /// The place of the second in the list.
        index: usize,
        /// The name of the second.
        name: String,
        /// Which list.
        field: &'static str,
        /// The place in that list.
        place: usize,
        /// The name of the first.
        other: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// `None` also for `callers:` with nothing behind it, which a file that is cut off looks like.
    callers: Option<Vec<WrittenCaller>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WrittenCaller {
    name: String,
    verbs: Vec<Verb>,
    #[serde(default)]
    tokens: Tokens,
    #[serde(default)]
    service_accounts: Vec<String>,
    #[serde(default)]
    certificates: Vec<String>,
    #[serde(default)]
    max_concurrent: Option<usize>,
}

impl AccessFile {
    /// Reads a file: JSON when it begins with a brace, YAML otherwise.
    ///
    /// # Errors
    /// When it is not of the form, or contradicts itself; the text names the place and never a token.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_BYTES {
            return Err(FileError::TooLarge(bytes.len()));
        }
        let malformed = |place: String, problem: String| FileError::Malformed {
            place: if place == "." {
                "the file".to_owned()
            } else {
                place
            },
            problem,
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|error| malformed(".".to_owned(), error.to_string()))?;
        let written: Written = if text.trim_start().starts_with('{') {
            let mut json = serde_json::Deserializer::from_str(text);
            let written = serde_path_to_error::deserialize(&mut json).map_err(|error| {
                malformed(error.path().to_string(), error.into_inner().to_string())
            })?;
            json.end()
                .map_err(|error| malformed(".".to_owned(), error.to_string()))?;
            written
        } else {
            let yaml = serde_yaml_ng::Deserializer::from_str(text);
            serde_path_to_error::deserialize(yaml).map_err(|error| {
                malformed(error.path().to_string(), error.into_inner().to_string())
            })?
        };
        Self::checked(written)
    }

    fn checked(Written { callers }: Written) -> Result<Self, FileError> {
        let callers = callers.ok_or(FileError::NoCallers)?;
        if callers.len() > MAX_CALLERS {
            return Err(FileError::TooManyCallers(callers.len()));
        }
        let callers = callers
            .into_iter()
            .enumerate()
            .map(|(index, caller)| checked(index, caller))
            .collect::<Result<Vec<_>, _>>()?;
        let names = |caller: &CallerEntry| vec![caller.name.clone()];
        once(&callers, "name", names)?;
        once(&callers, "tokens", |caller| caller.tokens.clone())?;
        once(&callers, "serviceAccounts", |caller| {
            caller.service_accounts.clone()
        })?;
        once(&callers, "certificates", |caller| {
            caller.certificates.clone()
        })?;
        Ok(Self { callers })
    }

    /// Whether a caller proves itself by a Kubernetes service account.
    #[must_use]
    pub fn names_service_accounts(&self) -> bool {
        let mut callers = self.callers.iter();
        callers.any(|caller| !caller.service_accounts.is_empty())
    }
}

/// Each value stands for one caller, once.
fn once<K: Ord>(
    callers: &[CallerEntry],
    field: &'static str,
    of: impl Fn(&CallerEntry) -> Vec<K>,
) -> Result<(), FileError> {
    let mut seen: BTreeMap<K, &str> = BTreeMap::new();
    for (index, caller) in callers.iter().enumerate() {
        for (place, value) in of(caller).into_iter().enumerate() {
            if let Some(other) = seen.insert(value, &caller.name) {
                return Err(FileError::Twice {
                    index,
                    name: caller.name.clone(),
                    field,
                    place,
                    other: other.to_owned(),
                });
            }
        }
    }
    Ok(())
}

fn checked(index: usize, written: WrittenCaller) -> Result<CallerEntry, FileError> {
    let WrittenCaller {
        name,
        verbs,
        tokens: Tokens(tokens),
        service_accounts,
        certificates,
        max_concurrent,
    } = written;
    let wrong = |field, problem: String| FileError::Caller {
        index,
        name: name.clone(),
        field,
        problem,
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
        let problem = format!("use 1 to {MAX_NAME} of a-z A-Z 0-9 . _ -");
        return Err(wrong("name", problem));
    }
    let set = verb_set(&verbs).map_err(|problem| wrong("verbs", problem))?;
    let proofs = [tokens.len(), service_accounts.len(), certificates.len()];
    if proofs.iter().all(|&count| count == 0) {
        let problem = "the caller has no token, no service account and no certificate, so nobody can be it; give one";
        return Err(wrong("tokens", problem.to_owned()));
    }
    if let Some(count) = proofs.iter().find(|&&count| count > MAX_PROOFS) {
        let problem = format!("a list has {count} entries, and may have {MAX_PROOFS}");
        return Err(wrong("tokens, serviceAccounts, certificates", problem));
    }
    for account in &service_accounts {
        let parts = account.split_once('/');
        if !parts.is_some_and(|(namespace, name)| is_label(namespace) && is_dns_name(name)) {
            return Err(wrong(
                "serviceAccounts",
                format!("{account:?} is not NAMESPACE/NAME"),
            ));
        }
    }
    let certificates: Vec<_> = certificates
        .iter()
        .map(|dns| dns.to_ascii_lowercase())
        .collect();
    if let Some(dns) = certificates.iter().find(|dns| !is_dns_name(dns)) {
        let problem = format!("{dns:?} is no DNS name; write the one of the certificate");
        return Err(wrong("certificates", problem));
    }
    if let Some(most) = max_concurrent
        && !(1..=MAX_CONCURRENT).contains(&most)
    {
        let problem = format!("{most} is out of range; give 1 to {MAX_CONCURRENT}");
        return Err(wrong("maxConcurrent", problem));
    }
    Ok(CallerEntry {
        name,
        verbs: set,
        tokens,
        service_accounts,
        certificates,
        max_concurrent,
    })
}

/// The verbs of a list that is not empty and has each once; or what is wrong with it.
fn verb_set(verbs: &[Verb]) -> Result<Verbs, String> {
    let mut set = Verbs::default();
    for &verb in verbs {
        if set.have(verb) {
            return Err(format!("{verb} is there twice"));
        }
        set.0 |= verb.bit();
    }
    if verbs.is_empty() {
        return Err(
            "the list is empty; give one or more of read, write, import, delete, admin-read"
                .to_owned(),
        );
    }
    Ok(set)
}

/// RFC 1123, as Kubernetes checks names of namespaces.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}
