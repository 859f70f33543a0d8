//! Where backups lie: a folder, or a bucket of S3.

use std::{
    env, fmt, fs, io,
    path::{Path as FilePath, PathBuf},
    str::FromStr,
    sync::Arc,
};

use object_store::{
    Certificate, ClientOptions, ObjectStore,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path,
};

use super::BackupError;

/// A folder, or a bucket and what the names of objects in it begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupPlace {
    /// In a folder.
    Folder(PathBuf),
    /// In a bucket.
    S3 {
        bucket: String,
        /// Without a slash at the end; may be empty.
        prefix: String,
    },
}

impl FromStr for BackupPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write a folder, file:///FOLDER or s3://BUCKET[/PREFIX]";
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_matches('/');
            if bucket.is_empty() || Path::parse(prefix).is_err() {
                return Err(format!("{text:?} names no bucket and prefix; {FORM}"));
            }
            let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
            return Ok(Self::S3 { bucket, prefix });
        }
        match text.strip_prefix("file://").unwrap_or(text) {
            "" => Err(format!("the folder is missing; {FORM}")),
            other if other.contains("://") => Err(format!("{other:?} is not supported; {FORM}")),
            folder => Ok(Self::Folder(folder.into())),
        }
    }
}

impl fmt::Display for BackupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

impl BackupPlace {
    /// The objects there, and what their names begin with. `ca`: file with the CAs of a store that is no folder; none:
    /// the system's. `make`: a folder that is not there is made.
    pub(super) fn open(
        &self,
        ca: Option<&FilePath>,
        make: bool,
    ) -> Result<(Arc<dyn ObjectStore>, Path), BackupError> {
        let failed = || BackupError::objects(format!("open {self}"));
        match self {
            Self::Folder(folder) => {
                if make && let Err(error) = fs::create_dir_all(folder) {
                    let source = object_store::Error::Generic {
                        store: "folder",
                        source: error.into(),
                    };
                    return Err(failed()(source));
                }
                if !folder.is_dir() {
                    return Err(BackupError::NoFolder(folder.clone()));
                }
                let objects = LocalFileSystem::new_with_prefix(folder).map_err(failed())?;
                Ok((Arc::new(objects.with_fsync(true)), Path::default()))
            }
            Self::S3 { bucket, prefix } => {
                let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                if let Some(ca) = ca {
                    builder = builder.with_client_options(trusting(ca)?);
                }
                let objects = builder.build().map_err(failed())?;
                Ok((Arc::new(objects), Path::from(prefix.as_str())))
            }
        }
    }
}

/// Connections to a store whose certificate is of one of these CAs, with what the environment says of connections.
pub(super) fn trusting(ca: &FilePath) -> Result<ClientOptions, BackupError> {
    let failed = |source| BackupError::Ca {
        file: ca.to_owned(),
        source,
    };
    let pem = fs::read(ca).map_err(|error| failed(error.into()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.into()))?;
    if found.is_empty() {
        let none = io::Error::new(io::ErrorKind::InvalidData, "there is no certificate in it");
        return Err(failed(none.into()));
    }
    let mut options = ClientOptions::new().with_no_system_certificates(true);
    for (name, value) in env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            continue;
        };
        let key = name.to_ascii_lowercase();
        if let (true, Ok(AmazonS3ConfigKey::Client(key))) = (name.starts_with("AWS_"), key.parse())
        {
            options = options.with_config(key, value);
        }
    }
    let trusted = found.into_iter();
    Ok(trusted.fold(options, ClientOptions::with_root_certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_a_bucket() {
        let s3 = |bucket: &str, prefix: &str| BackupPlace::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (text, place) in [
            ("backups", BackupPlace::Folder("backups".into())),
            ("file:///var/b", BackupPlace::Folder("/var/b".into())),
            ("s3://chat", s3("chat", "")),
            ("s3://chat/read/states/", s3("chat", "read/states")),
        ] {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in ["", "s3://", "s3:///x", "ftp://x/y", "file://"] {
            assert!(text.parse::<BackupPlace>().is_err(), "{text}");
        }
    }
}
