//! Certificate and key for Cassandra, which reads both from one file in PEM form.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::Context as _;
use readstates_identity::{CERTIFICATE_FILE, KEY_FILE};

/// Replaces `file`, readable by its owner only, with the certificate and key in `folder`.
///
/// # Errors
/// When one of the files cannot be read, or this one not be written.
pub(super) fn write(folder: &Path, file: &Path) -> anyhow::Result<()> {
    let read = |key: &str| {
        let file = folder.join(key);
        fs::read(&file).with_context(|| format!("failed to read {}", file.display()))
    };
    let (certificate, key) = (read(CERTIFICATE_FILE)?, read(KEY_FILE)?);
    replace(file, &[&certificate, b"\n", &key])
        .with_context(|| format!("failed to write {}", file.display()))
}

fn replace(file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(file)?;
    parts.iter().try_for_each(|part| out.write_all(part))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn certificate_and_key_come_into_one_file_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.pem");
        let absent = write(folder.path(), &file).unwrap_err();
        assert!(absent.to_string().contains("tls.crt"), "{absent}");
        for (certificate, key) in [("one", "two\n"), ("three\n", "four")] {
            fs::write(folder.path().join("tls.crt"), certificate).unwrap();
            fs::write(folder.path().join("tls.key"), key).unwrap();
            write(folder.path(), &file).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(text, format!("{certificate}\n{key}"));
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o400);
        }
    }
}
