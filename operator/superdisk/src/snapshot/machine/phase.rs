//! How far a snapshot is. Values only.

use std::time::Duration;

use crate::snapshot::{
    SnapshotId,
    wire::{Loss, Open, Past},
};

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    Marking(SnapshotId),
    Syncing {
        id: SnapshotId,
        generation: u64,
    },
    Freezing(Held),
    Frozen(Held),
    Probing(Held),
}

impl Phase {
    pub(super) fn id(&self) -> Option<&SnapshotId> {
        match self {
            Self::Idle => None,
            Self::Marking(id)
            | Self::Syncing { id, .. }
            | Self::Freezing(Held { id, .. })
            | Self::Frozen(Held { id, .. })
            | Self::Probing(Held { id, .. }) => Some(id),
        }
    }
}

/// A moment, and until when it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: SnapshotId,
    pub(super) generation: u64,
    pub(super) until: Duration,
}

impl Held {
    pub(super) fn past(self, lost: Option<Loss>) -> Past {
        let Self {
            id,
            generation,
            until: _,
        } = self;
        Past {
            id,
            generation,
            lost,
        }
    }

    pub(super) fn open(&self, now: Duration) -> Open {
        let left = self.until.saturating_sub(now).as_millis();
        Open {
            id: self.id.clone(),
            generation: self.generation,
            left_millis: u64::try_from(left).unwrap_or(u64::MAX),
        }
    }
}
