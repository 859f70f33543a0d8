//! The three files of an identity: CAs, certificate and private key, in PEM form.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// The file of the CAs that are trusted.
pub const CA_FILE: &str = "ca.crt";
/// The file of the certificate that is shown.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// The file of its private key.
pub const KEY_FILE: &str = "tls.key";
/// The longest file. A certificate has about one kilobyte.
const MAX_BYTES: u64 = 1 << 20;

/// Certificates and a key, in PEM form, unchecked.
#[derive(Clone, PartialEq, Eq)]
pub struct Pems {
    /// The CAs that are trusted, one behind the other.
    pub ca: String,
    /// The certificate that is shown, and any between it and a CA.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A file of an identity cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}", file.display())]
pub struct PemsError {
    file: PathBuf,
    source: io::Error,
}

impl Pems {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` in a folder.
    ///
    /// # Errors
    /// When one of them cannot be read, is longer than a megabyte, or is not text.
    pub fn read(folder: &Path) -> Result<Self, PemsError> {
        Ok(Self {
            ca: read(folder.join(CA_FILE))?,
            certificate: read(folder.join(CERTIFICATE_FILE))?,
            key: read(folder.join(KEY_FILE))?,
        })
    }
}

fn read(file: PathBuf) -> Result<String, PemsError> {
    let text = fs::metadata(&file).and_then(|metadata| {
        if metadata.len() > MAX_BYTES {
            let why = "it is longer than a megabyte, which no certificate is";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        fs::read_to_string(&file)
    });
    text.map_err(|source| PemsError { file, source })
}

impl fmt::Debug for Pems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pems")
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}
