//! Lists backups: those that have a manifest.

use serde::Serialize;

use super::{BackupError, BackupId, Repository, manifest::Manifest, progress::size};
use crate::store::chain;

/// A backup, or why it cannot be read.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    id: BackupId,
    begun: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<String>,
    source: String,
    users: u64,
    chunks: usize,
    /// Bytes of all rows.
    bytes: u64,
    /// Bytes of all objects. Those of several backups share most of them.
    stored_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// All backups, oldest first.
pub(super) async fn run(repository: &Repository) -> Result<Vec<Listed>, BackupError> {
    let mut listed = Vec::new();
    for id in repository.backups().await? {
        let (begun, manifest) = (id.begun().to_string(), repository.manifest_of(&id).await);
        listed.push(match manifest {
            Ok(manifest) => of(&manifest),
            Err(error) => Listed {
                id,
                begun,
                finished: None,
                source: String::new(),
                users: 0,
                chunks: 0,
                bytes: 0,
                stored_bytes: 0,
                error: Some(chain(&error)),
            },
        });
    }
    Ok(listed)
}

pub(super) fn of(manifest: &Manifest) -> Listed {
    Listed {
        id: manifest.id.clone(),
        begun: manifest.id.begun().to_string(),
        finished: Some(manifest.finished.to_string()),
        source: manifest.source.clone(),
        users: manifest.users,
        chunks: manifest.chunks.len(),
        bytes: manifest.bytes(),
        stored_bytes: manifest.stored(),
        error: None,
    }
}

/// For scripts.
pub(super) fn json(listed: &[Listed]) -> String {
    // Numbers, strings and lists: nothing that JSON cannot say.
    serde_json::to_string_pretty(listed).unwrap_or_default() + "\n"
}

/// For people.
pub(super) fn table(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "no backups\n".into();
    }
    let mut text = format!(
        "{:<29} {:>12} {:>8} {:>11}  SOURCE\n",
        "BACKUP", "USERS", "CHUNKS", "STORED"
    );
    for backup in listed {
        let Listed {
            id, users, chunks, ..
        } = backup;
        text += &match &backup.error {
            Some(error) => format!("{id:<29} {error}\n"),
            None => {
                let (stored, source) = (size(backup.stored_bytes), &backup.source);
                format!("{id:<29} {users:>12} {chunks:>8} {stored:>11}  {source}\n")
            }
        };
    }
    text
}
