//! `readstates certificates`: a certificate authority for processes outside of Kubernetes, and what it issues.
//!
//! A folder that has an authority keeps it: the command issues new certificates beside the old ones' names,
//! and processes that run take them within seconds.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use readstates_identity::{
    Authority, CA_FILE, CERTIFICATE_FILE, ClusterName, Identity, IdentityError, KEY_FILE,
    NotIssued, Pems, Role,
};

use crate::config::CertificatesArgs;

/// The private key of the authority.
const CA_KEY_FILE: &str = "ca.key";
/// An authority outlives what it issues.
const AUTHORITY_VALID: Duration = Duration::from_secs(20 * 365 * 86_400);
/// Who gets a certificate, each in a folder of this name.
const ROLES: [Role; 2] = [Role::Member, Role::Operator];

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// A file cannot be read or written.
    #[error("failed to {attempt} {}", file.display())]
    File {
        attempt: &'static str,
        file: PathBuf,
        source: io::Error,
    },
    /// One of the authority's two files is missing.
    #[error(
        "{} has only one of {CA_FILE} and {CA_KEY_FILE}; give a folder with both, or an empty one",
        .0.display()
    )]
    Half(PathBuf),
    /// The authority cannot issue.
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
    /// The authority in the folder is another cluster's, or too old.
    #[error("the authority in {} cannot issue for --cluster {cluster}", folder.display())]
    Unusable {
        folder: PathBuf,
        cluster: ClusterName,
        source: IdentityError,
    },
}

/// Runs the command.
///
/// # Errors
/// When a file cannot be written, or the authority in the folder is of no use for the cluster.
pub fn run(args: &CertificatesArgs) -> Result<(), CertificatesError> {
    let CertificatesArgs {
        folder,
        cluster,
        days,
    } = args;
    let now = SystemTime::now();
    let authority = authority(folder, cluster, now)?;
    let valid = Duration::from_secs(u64::from(*days) * 86_400);
    // All are made and verified before the first is written.
    let mut issued = Vec::new();
    for role in ROLES {
        let pems = authority.issue(role, cluster, now, valid)?;
        Identity::new(pems.clone()).map_err(|source| CertificatesError::Unusable {
            folder: folder.clone(),
            cluster: cluster.clone(),
            source,
        })?;
        issued.push((folder.join(role.as_str()), pems));
    }
    make(folder)?;
    write(&folder.join(CA_KEY_FILE), authority.key_pem(), 0o600)?;
    write(&folder.join(CA_FILE), authority.ca_pem(), 0o644)?;
    for (folder, pems) in issued {
        make(&folder)?;
        let Pems {
            ca,
            certificate,
            key,
        } = &pems;
        write(&folder.join(CA_FILE), ca, 0o644)?;
        write(&folder.join(CERTIFICATE_FILE), certificate, 0o644)?;
        write(&folder.join(KEY_FILE), key, 0o600)?;
        println!("{}", folder.display());
    }
    Ok(())
}

/// The one in the folder, or a new one.
fn authority(
    folder: &Path,
    cluster: &ClusterName,
    now: SystemTime,
) -> Result<Authority, CertificatesError> {
    let read = |name| {
        let file = folder.join(name);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CertificatesError::File {
                attempt: "read",
                file,
                source,
            }),
        }
    };
    match (read(CA_FILE)?, read(CA_KEY_FILE)?) {
        (Some(ca), Some(key)) => Ok(Authority::from_pem(&ca, &key)?),
        (None, None) => Ok(Authority::new(cluster, now, AUTHORITY_VALID)?),
        (Some(_), None) | (None, Some(_)) => Err(CertificatesError::Half(folder.to_owned())),
    }
}

fn make(folder: &Path) -> Result<(), CertificatesError> {
    fs::create_dir_all(folder).map_err(|source| CertificatesError::File {
        attempt: "make the folder",
        file: folder.to_owned(),
        source,
    })
}

/// Replaces a file atomically: a reader finds the old one or the new one.
fn write(file: &Path, text: &str, mode: u32) -> Result<(), CertificatesError> {
    let next = file.with_extension("new");
    let written = || {
        // With the mode from the first byte on; a file that is left over may have another.
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = fs::OpenOptions::new();
        let mut out = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&next)?;
        io::Write::write_all(&mut out, text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&next, file)
    };
    written().map_err(|source| CertificatesError::File {
        attempt: "write",
        file: file.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn args(folder: &Path, cluster: &str) -> CertificatesArgs {
        CertificatesArgs {
            folder: folder.to_owned(),
            cluster: cluster.parse().unwrap(),
            days: 365,
        }
    }

    #[test]
    fn a_folder_has_what_a_member_and_an_operator_need_and_its_authority_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        run(&args(&folder, "local")).unwrap();
        let ca = fs::read_to_string(folder.join(CA_FILE)).unwrap();
        for (name, role) in [("member", Role::Member), ("operator", Role::Operator)] {
            let identity = Identity::from_dir(&folder.join(name)).unwrap();
            assert_eq!(identity.role(), role);
            let key = fs::metadata(folder.join(name).join(KEY_FILE)).unwrap();
            assert_eq!(key.permissions().mode() & 0o777, 0o600);
        }
        let first = Identity::from_dir(&folder.join("member")).unwrap();
        run(&args(&folder, "local")).unwrap();
        assert_eq!(fs::read_to_string(folder.join(CA_FILE)).unwrap(), ca);
        let pems = Pems::read(&folder.join("member")).unwrap();
        assert!(first.replace(pems).unwrap(), "a renewed certificate");
        let error = run(&args(&folder, "other")).unwrap_err().to_string();
        assert!(error.contains("--cluster other"), "{error}");
        fs::remove_file(folder.join(CA_KEY_FILE)).unwrap();
        let error = run(&args(&folder, "local")).unwrap_err().to_string();
        assert!(error.contains("only one of ca.crt and ca.key"), "{error}");
    }
}
