//! What the local devices may be: whole, too few, too many, unreadable, or foreign.

use superdisk::model::Code;

use super::{
    End, Situation, by, changed, one, used, used_with_spares, with_policy,
    worlds::{
        clean, cut, cut_with_spares, damage_superblock, further, lost_durable, others_leg,
        others_leg_damaged, others_leg_was_replaced, stopped,
    },
};
use crate::world::{DURABLE, MIB, World};

pub(super) fn fast_legs() -> Vec<Situation> {
    use End::{Refused, Whole, Without};
    let optional = || with_policy(|policy| policy.fast_leg_optional = true);
    let missing = |mut world: World| {
        world.disks.remove("nvme0n1");
        world
    };
    let late = |mut world: World| {
        world.disks.remove("nvme0n1");
        world.disks.remove("nvme1n1");
        world
    };
    let replaced = changed(stopped(), |world| {
        world.disk("nvme1n1").bytes = crate::bytes::Sparse::default();
    });
    let busy = changed(stopped(), |world| {
        world.holders.push(("nvme0n1".into(), "dm-3".into()));
    });
    let grown = changed(stopped(), |world| {
        // A mirror that was made for half the disk.
        let mut sb = world.sb(DURABLE).unwrap();
        sb.size /= 2;
        world.put_sb(DURABLE, &sb);
        let mut bytes = world.disks[DURABLE].bytes.read(MIB, 4096);
        let blocks = u32::from_le_bytes(bytes[1028..1032].try_into().unwrap()) / 2;
        bytes[1028..1032].copy_from_slice(&blocks.to_le_bytes());
        world.poke(DURABLE, MIB, &bytes);
    });
    vec![
        one("m0-clean-stop", stopped(), Whole),
        one("m0-power-cut", cut(), Whole),
        one(
            "m1-host-migrated",
            changed(cut(), |world| {
                for disk in ["nvme0n1", "nvme1n1"] {
                    world.disk(disk).bytes = crate::bytes::Sparse::default();
                }
            }),
            Whole,
        ),
        one("m1-one-local-device-replaced", replaced, Whole),
        one("m2-local-device-busy", busy.clone(), Refused(Code::SsdBusy)),
        by(
            "m2-local-device-busy-and-optional",
            optional(),
            busy,
            Without(Code::SsdBusy),
        ),
        one(
            "m2-local-device-mounted-by-the-node-alone",
            changed(clean(), |world| {
                let at = "/mnt/by-hand".into();
                world.node_mounts.push(("nvme1n1".to_owned(), at));
            }),
            Refused(Code::SsdBusy),
        ),
        one(
            "m3-local-device-missing",
            missing(stopped()),
            Refused(Code::SsdMissing),
        ),
        by(
            "m3-local-device-missing-and-optional",
            optional(),
            missing(clean()),
            Without(Code::SsdMissing),
        ),
        by(
            "m3-local-device-missing-after-a-power-cut-and-optional",
            optional(),
            missing(cut()),
            Refused(Code::SsdAhead),
        ),
        by(
            "m3-all-local-devices-gone-after-a-power-cut-and-optional",
            optional(),
            changed(missing(cut()), |world| {
                world.disks.remove("nvme1n1");
            }),
            Without(Code::SsdMissing),
        ),
        one(
            "m4-more-local-devices-than-asked-for",
            further(cut()),
            Whole,
        ),
        one(
            "m4-ahead-on-others-than-the-first",
            further(changed(lost_durable(), World::power_cut)),
            Refused(Code::SsdAhead),
        ),
        one(
            "m4-local-devices-that-are-waited-for-too-long",
            changed(cut(), |world| {
                for disk in ["nvme0n1", "nvme1n1"] {
                    world.disk(disk).wait_millis = Some(30_000);
                }
            }),
            Whole,
        ),
        one(
            "m4-late-beside-enough-others-after-a-power-cut",
            late(cut_with_spares()),
            Refused(Code::SsdAhead),
        ),
        by(
            "m4-ahead-and-late-beside-enough-others-and-optional",
            optional(),
            late(changed(used_with_spares(), |world| {
                world.lose_durable();
                world.write(3, 6);
                world.power_cut();
            })),
            Refused(Code::SsdAhead),
        ),
        one(
            "m4-late-beside-enough-others-after-an-end-in-order",
            late(changed(used_with_spares(), |world| {
                world.mark_clean();
                world.stop();
            })),
            Whole,
        ),
        one(
            "m4-fewer-devices-on-another-machine",
            late(changed(cut_with_spares(), |world| world.machine = 2)),
            Whole,
        ),
        one(
            "m4-late-on-a-machine-that-does-not-say-which-it-is",
            late(changed(cut_with_spares(), |world| world.machine = 0)),
            Whole,
        ),
        one(
            "m4-blank-devices-in-place-of-the-fast-legs",
            changed(cut_with_spares(), |world| {
                for disk in ["nvme0n1", "nvme1n1"] {
                    world.disk(disk).bytes = crate::bytes::Sparse::default();
                }
            }),
            Whole,
        ),
        one(
            "m5-local-device-that-does-not-answer-after-an-end-in-order",
            changed(clean(), |world| world.disk("nvme0n1").dead = true),
            Without(Code::SsdBusy),
        ),
        one(
            "m5-unreadable-page-in-a-gap",
            changed(cut(), |world| world.disk("nvme0n1").bad = vec![40]),
            Whole,
        ),
        one(
            "m5-ahead-with-an-unreadable-page-in-a-gap",
            changed(lost_durable(), |world| {
                world.power_cut();
                world.disk("nvme0n1").bad = vec![40];
            }),
            Refused(Code::SsdAhead),
        ),
        one(
            "m5-ahead-with-an-unreadable-superblock",
            changed(lost_durable(), |world| {
                world.power_cut();
                world.disk("nvme0n1").bad = vec![1];
            }),
            Refused(Code::SsdAhead),
        ),
        one(
            "m5-ahead-with-a-damaged-superblock",
            changed(lost_durable(), |world| {
                damage_superblock(world);
                world.power_cut();
            }),
            Refused(Code::SsdAhead),
        ),
        one(
            "m5-damaged-superblock-after-an-end-in-order",
            changed(used(), |world| {
                world.mark_clean();
                damage_superblock(world);
                world.power_cut();
            }),
            Whole,
        ),
        one(
            "m5-unreadable-superblock-after-an-end-in-order",
            changed(clean(), |world| world.disk("nvme0n1").bad = vec![1]),
            Without(Code::SsdBusy),
        ),
        one(
            "m5-blank-local-device-with-an-unreadable-page",
            changed(World::blank(), |world| world.disk("nvme0n1").bad = vec![40]),
            Whole,
        ),
        one("m6-others-fast-leg-is-settled", others_leg(false), Whole),
        one(
            "m6-others-fast-leg-is-ahead",
            others_leg(true),
            Refused(Code::SsdBusy),
        ),
        one(
            "m6-others-fast-leg-with-a-damaged-superblock",
            others_leg_damaged(),
            Refused(Code::SsdBusy),
        ),
        one(
            "m6-a-part-of-a-leg-that-another-volume-has-replaced",
            others_leg_was_replaced(),
            Whole,
        ),
        one(
            "m6-a-part-of-a-leg-of-which-nothing-tells-that-it-was-replaced",
            changed(others_leg_was_replaced(), |world| {
                world.disks.remove("nvme0n1");
                world.disks.remove("nvme2n1");
            }),
            Refused(Code::SsdBusy),
        ),
        one(
            "m6-blank-disks-are-taken-before-those-of-anothers-leg",
            changed(others_leg_was_replaced(), |world| {
                world.plug("nvme4n1", "local-4", 256 * MIB);
            }),
            Whole,
        ),
        one(
            "m6-others-durable-leg-under-our-pattern",
            changed(World::blank(), |world| {
                let bytes = stopped().disks[DURABLE].bytes.clone();
                world.disk("nvme1n1").bytes = bytes;
            }),
            Refused(Code::SsdBusy),
        ),
        one(
            "m6-filesystem-on-a-local-device",
            changed(World::blank(), |world| {
                let mut bytes = vec![0; 4096];
                bytes[..4].copy_from_slice(b"XFSB");
                world.poke("nvme0n1", 0, &bytes);
            }),
            Refused(Code::SsdBusy),
        ),
        one(
            "m6-network-disk-that-looks-local",
            changed(World::blank(), |world| {
                world.disk("nvme1n1").model = Some("nvme_card-pd".to_owned());
            }),
            Refused(Code::SsdBusy),
        ),
        by(
            "m3-missing-at-first-boot",
            optional(),
            missing(World::blank()),
            Refused(Code::SsdMissing),
        ),
        one("z-durable-grown", grown.clone(), Whole),
        by(
            "g-durable-grown-and-wanted",
            with_policy(|policy| policy.grow = true),
            grown,
            Whole,
        ),
    ]
}
