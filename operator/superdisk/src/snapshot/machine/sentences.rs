//! Why a request is refused, whatever the disks look like.

use crate::snapshot::{
    SnapshotId,
    wire::{Code, Refusal},
};

pub(super) fn busy(id: &SnapshotId) -> Refusal {
    Refusal::new(
        Code::Busy,
        format!("The snapshot {id} is under way"),
        "End it, or wait until its 10 s are over, and ask again",
    )
}

pub(super) fn is_over(id: &SnapshotId) -> Refusal {
    Refusal::new(
        Code::Over,
        format!("The snapshot {id} has been held before, and its moment is over"),
        "Begin one with another ID",
    )
}

pub(super) fn unknown(id: &SnapshotId) -> Refusal {
    Refusal::new(
        Code::Unknown,
        format!("No snapshot {id} is held, and the one before had another ID"),
        "Begin it first; a snapshot of the disk that was made without a begin is like a disk after a power cut",
    )
}

pub(super) fn stopped() -> Refusal {
    Refusal::new(
        Code::NotNow,
        "The agent ends, or the network disk was lost, while the snapshot was under way",
        "Look at `superdisk status`, and ask again",
    )
}
