//! A durable leg with a super-disk's superblock, and what is asked of it alone. Pure.

use crate::{
    action::{Action, Leg},
    inventory::{Content, Identity, Inventory},
    lineage::Header,
    md::{Array, SyncAction},
    size,
    spec::Spec,
    superblock::{Filesystem, Superblock},
};

/// A durable leg with a super-disk's superblock.
pub(super) struct Ours<'a> {
    pub(super) identity: &'a Identity,
    pub(super) content: &'a Content,
    pub(super) superblock: &'a Superblock,
    /// Where its header lies.
    pub(super) region: u64,
    /// What it says of its history; `None` when it says nothing that can be read.
    pub(super) header: Option<&'a Header>,
    /// How much of it the filesystem uses; `None` while there is none.
    pub(super) filesystem: Option<Filesystem>,
}

impl Ours<'_> {
    /// Writes a header to it.
    pub(super) fn write(&self, header: Header) -> Action {
        Action::WriteLineage {
            leg: Leg::Durable(self.identity.clone()),
            region: self.region,
            header,
        }
    }

    /// How large its mirror could be, in KiB, where that is more than it is and asked for, and was not tried in vain.
    pub(super) fn growth(
        &self,
        spec: &Spec,
        inventory: &Inventory,
        mirror: &Array,
        stripe_bytes: u64,
    ) -> Option<u64> {
        let kib = size::mirror_kib(stripe_bytes, self.identity.bytes);
        let idle = mirror.sync == Some(SyncAction::Idle);
        let wanted = spec.policy.grow && inventory.tried.grow_mirror.is_none();
        (wanted && idle && kib > mirror.component_kib).then_some(kib)
    }
}
