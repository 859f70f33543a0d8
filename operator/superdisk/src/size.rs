//! Sizes of mirrors.

use crate::spec::FilesystemKind;

/// What md puts before the data of a large member, in sectors: measured with mdadm 4.2 on disks of 375 GiB.
const LARGE_OFFSET: u64 = 264_192;
/// Rounding for large legs, in KiB: local disks of one kind differ by less.
const LARGE_STEP_KIB: u64 = 64 << 10;
/// Left free on a large fast leg, in KiB: the next node's local disks may be a little smaller.
const LARGE_SLACK_KIB: u64 = 1 << 20;
/// From here on a leg is large, in KiB.
const LARGE_KIB: u64 = 16 << 20;

/// The least that mkfs makes a filesystem of, in KiB, with some reserve.
pub(crate) fn least_kib(kind: FilesystemKind) -> u64 {
    match kind {
        FilesystemKind::Xfs => 300 << 10,
        FilesystemKind::Ext4 => 64 << 10,
    }
}

/// Size, in KiB, of a mirror of two legs of these sizes.
pub(crate) fn mirror_kib(fast_bytes: u64, durable_bytes: u64) -> u64 {
    let usable = |bytes: u64| {
        let sectors = bytes / 512;
        // mdadm leaves at most 1/1024 of a small member free, and something for superblock and bitmap.
        sectors.saturating_sub(LARGE_OFFSET.min(sectors / 1024 + 4096)) / 2
    };
    let fast = usable(fast_bytes);
    let slack = if fast >= LARGE_KIB {
        LARGE_SLACK_KIB
    } else {
        0
    };
    let kib = fast.saturating_sub(slack).min(usable(durable_bytes));
    let step = if kib >= LARGE_KIB {
        LARGE_STEP_KIB
    } else {
        1024
    };
    kib / step * step
}

/// Whether a stripe has room for a member of a mirror of `kib` KiB.
pub(crate) fn has_room(stripe_bytes: u64, kib: u64) -> bool {
    let sectors = stripe_bytes / 512;
    let offset = LARGE_OFFSET.min(sectors / 1024 + 4096);
    sectors.saturating_sub(offset) / 2 >= kib
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_fits_on_the_disks_it_was_measured_on() {
        // Two local disks of 375 GiB and a network disk of 700 GiB: the network disk decides.
        let stripe = 2 * 786_167_808 * 512;
        let kib = mirror_kib(stripe, 700 << 30);
        assert!(
            kib * 2 <= (700 << 21) - LARGE_OFFSET && kib > 699 << 20,
            "{kib}"
        );
        assert!(has_room(stripe, kib));
        // A network disk of 1 TiB: the local ones decide, with slack.
        let kib = mirror_kib(stripe, 1 << 40);
        assert!(
            has_room(stripe, kib + LARGE_SLACK_KIB - LARGE_STEP_KIB),
            "{kib}"
        );
        assert!(kib.is_multiple_of(LARGE_STEP_KIB));
    }

    #[test]
    fn small_disks_are_used_to_the_mebibyte() {
        assert_eq!(mirror_kib(512 << 20, 512 << 20), 509 << 10);
    }
}
