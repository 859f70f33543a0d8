//! The token that a client sends: a fixed one, or one from a file that is read again when it changes.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::HeaderValue;

/// How often the file is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a token cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("failed to read {file:?}")]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Empty, or with characters that a header cannot have.
    #[error("the token is empty, or has characters that a header cannot have")]
    NotSendable,
}

/// A token, never shown.
#[derive(Clone)]
pub(crate) enum Token {
    Fixed(HeaderValue),
    File(Arc<TokenFile>),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

pub(crate) struct TokenFile {
    file: PathBuf,
    last: Mutex<Last>,
}

/// What was last read, and when.
struct Last {
    header: HeaderValue,
    looked: Instant,
}

impl Token {
    pub(crate) fn fixed(token: &str) -> Result<Self, TokenError> {
        header(token).map(Self::Fixed)
    }

    pub(crate) fn of_file(file: &Path) -> Result<Self, TokenError> {
        let header = read(file)?;
        let looked = Instant::now();
        Ok(Self::File(Arc::new(TokenFile {
            file: file.to_owned(),
            last: Mutex::new(Last { header, looked }),
        })))
    }

    /// The value of the `Authorization` header. A file that cannot be read any more changes nothing.
    pub(crate) fn header(&self) -> HeaderValue {
        match self {
            Self::Fixed(header) => header.clone(),
            Self::File(file) => file.header(),
        }
    }
}

impl TokenFile {
    fn header(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.looked.elapsed() >= LOOK_EVERY {
            last.looked = Instant::now();
            match read(&self.file) {
                Ok(header) => last.header = header,
                Err(error) => tracing::warn!("the token from before is sent: {error}"),
            }
        }
        last.header.clone()
    }
}

/// A file of a line, in memory where Kubernetes mounts it: not worth a thread. It is read although its time of change is
/// the same: another file can have the time of the one before, for a kernel's clock of files goes by steps of milliseconds.
fn read(file: &Path) -> Result<HeaderValue, TokenError> {
    let text = fs::read_to_string(file).map_err(|source| TokenError::Read {
        file: file.to_owned(),
        source,
    })?;
    header(text.trim())
}

fn header(token: &str) -> Result<HeaderValue, TokenError> {
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| TokenError::NotSendable)?;
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(TokenError::NotSendable);
    }
    header.set_sensitive(true);
    Ok(header)
}
