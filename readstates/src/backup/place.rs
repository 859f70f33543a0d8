//! Opens the place where backups lie: a folder, or a bucket of S3.

use std::{env, fs, io, path::Path as FilePath, sync::Arc};

use object_store::{
    Certificate, ClientOptions, ObjectStore,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path,
};

use super::{BackupError, BackupPlace};

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
