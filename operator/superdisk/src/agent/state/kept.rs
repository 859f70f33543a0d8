//! What an agent keeps in the state folder for the one after it.
//!
//! A boot ends a freeze, a check and the name of the mirror: what was kept of them in another boot is left out. A file
//! that cannot be written is said in the log and costs no more than that memory; a full folder ends no agent.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    agent::snapshots,
    assemble::chain,
    claim::{ClaimError, Record, StateFolder},
    heal::memory::Memory,
    log::say,
    patrol,
    snapshot::wire::Past,
    status::RefusalReport,
};

/// What is kept but for patrols and snapshots, which have files of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// The boot in which it was written.
    boot: String,
    pub(super) memory: Memory,
    pub(super) refusal: Option<RefusalReport>,
    pub(super) last_error: Option<String>,
    pub(super) generation: Option<u64>,
    /// Name of the mirror in this boot.
    pub(super) mirror: Option<String>,
}

/// The files of one volume, as they are to be understood in this boot.
#[derive(Debug)]
pub(super) struct Files {
    folder: StateFolder,
    boot: String,
}

impl Files {
    pub(super) fn new(folder: StateFolder, root: &Path) -> Self {
        let boot = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
        Self {
            folder,
            boot: boot.unwrap_or_default().trim().to_owned(),
        }
    }

    pub(super) fn load(&self) -> Kept {
        let mut kept: Kept = self.folder.load("memory").unwrap_or_default();
        if kept.boot != self.boot {
            kept.boot.clone_from(&self.boot);
            kept.memory.frozen = false;
            kept.memory.check.window = None;
            kept.mirror = None;
        }
        kept
    }

    pub(super) fn save(&self, kept: &Kept) {
        log(self.folder.save("memory", kept));
    }

    pub(super) fn patrol(&self) -> patrol::Record {
        self.folder.load("patrol").unwrap_or_default()
    }

    pub(super) fn save_patrol(&self, record: &patrol::Record) {
        log(self.folder.save("patrol", record));
    }

    pub(super) fn snapshots(&self) -> snapshots::Kept {
        let kept: snapshots::Kept = self.folder.load("snapshot").unwrap_or_default();
        snapshots::Kept {
            frozen: kept.frozen.filter(|_| kept.boot == self.boot),
            ..kept
        }
    }

    /// Unlike the others, what comes of it is not only said: nothing may be frozen that is not written down.
    pub(super) fn save_snapshots(
        &self,
        frozen: Option<Past>,
        last: Option<Past>,
    ) -> Result<(), ClaimError> {
        let kept = snapshots::Kept {
            boot: self.boot.clone(),
            frozen,
            last,
        };
        self.folder.save("snapshot", &kept)
    }

    pub(super) fn keep_record(&self, record: &Record) -> Result<(), ClaimError> {
        self.folder.keep_record(record)
    }
}

pub(super) fn log(saved: Result<(), ClaimError>) {
    if let Err(error) = saved {
        say(&chain(&error));
    }
}
