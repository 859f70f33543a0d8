//! What the durable leg's device may be: new, ours, a copy, a clone beside its source, or foreign.

use superdisk::{model::Code, spec::Spec};

use super::{
    End, Situation, by, changed, one, spec, with_policy,
    worlds::{
        beside_its_source, change_durable, cut, lost_durable, put_back, stopped, unread_headers,
    },
};
use crate::{
    bytes::FAULTY,
    world::{DURABLE, MIB, World},
};

pub(super) fn durable_legs() -> Vec<Situation> {
    use End::{Refused, Whole};
    let used_before = with_policy(|policy| policy.used_before = true);
    let other_volume = Spec {
        volume: "pvc-2".parse().unwrap(),
        ..spec()
    };
    let its_copy = Spec {
        copy_of: Some("pvc-1".parse().unwrap()),
        ..other_volume.clone()
    };
    let copy_at = |generation: u64| Spec {
        copy_of: Some(format!("pvc-1@{generation}").parse().unwrap()),
        ..other_volume.clone()
    };
    // A consent that has stayed with a claim since its disk was made, long ago.
    let standing = |consent: Spec| Spec {
        policy: used_before.policy,
        ..consent
    };
    let blanked = changed(stopped(), |world| {
        world.disk(DURABLE).bytes = crate::bytes::Sparse::default();
    });
    let foreign = changed(World::blank(), |world| {
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(b"XFSB");
        world.poke(DURABLE, 0, &bytes);
    });
    let clone_of = |world: &mut World| {
        let bytes = world.disks[DURABLE].bytes.clone();
        world.plug("vdb", "copy", 512 * MIB);
        world.disk("vdb").bytes = bytes;
    };
    let older_twin = changed(stopped(), |world| {
        clone_of(world);
        world.mark_clean();
    });
    let newer_twin = changed(stopped(), |world| {
        let before = world.disks[DURABLE].bytes.clone();
        world.mark_clean();
        clone_of(world);
        world.disk(DURABLE).bytes = before;
    });
    let running_twin = changed(stopped(), |world| {
        clone_of(world);
        world.host_starts_durable();
        // What runs is the other one.
        "copy".clone_into(&mut world.disk(DURABLE).by_id);
        "data".clone_into(&mut world.disk("vdb").by_id);
    });
    let lose_bitmap = |world: &mut World| world.disk(DURABLE).bad = vec![2];
    let without_filesystem = changed(stopped(), |world| world.poke(DURABLE, MIB, &[]));
    vec![
        one("p0-first-boot", World::blank(), Whole),
        by(
            "p1-blank-but-used-before",
            used_before.clone(),
            World::blank(),
            Refused(Code::PdUnexpectedlyBlank),
        ),
        one(
            "p1-blank-but-remembered",
            blanked,
            Refused(Code::PdUnexpectedlyBlank),
        ),
        one("p2-foreign", foreign, Refused(Code::PdForeign)),
        one(
            "p2-unknown-data",
            changed(World::blank(), |world| {
                world.poke(DURABLE, 512 * MIB - 4096, b"x")
            }),
            Refused(Code::PdForeign),
        ),
        one(
            "p2-held-by-lvm",
            changed(stopped(), |world| {
                world.holders.push((DURABLE.into(), "dm-0".into()))
            }),
            Refused(Code::PdForeign),
        ),
        one(
            "p3-not-a-mirror",
            change_durable(|sb| sb.level = 5),
            Refused(Code::PdNotOurs),
        ),
        one(
            "p3-not-our-name",
            change_durable(|sb| sb.name = "host:data".to_owned()),
            Refused(Code::PdNotOurs),
        ),
        one(
            "p3-damaged",
            changed(stopped(), |world| {
                let mut bytes = world.sb(DURABLE).unwrap().encode();
                bytes[201] ^= 1;
                world.poke(DURABLE, 4096, &bytes);
            }),
            Refused(Code::PdNotOurs),
        ),
        one(
            "p3-durable-in-slot-1",
            change_durable(|sb| sb.roles = vec![1, 0]),
            Refused(Code::PdNotOurs),
        ),
        one(
            "p3-bitmap-unreadable",
            changed(stopped(), lose_bitmap),
            Whole,
        ),
        one(
            "p3-bitmap-unreadable-after-a-power-cut",
            changed(cut(), lose_bitmap),
            Whole,
        ),
        by(
            "p4-another-volumes-disk",
            other_volume.clone(),
            stopped(),
            Refused(Code::PdNotOurs),
        ),
        by(
            "p4-copy-of-another-volume",
            its_copy.clone(),
            stopped(),
            Whole,
        ),
        by(
            "p4-copy-at-the-generation-that-is-named",
            copy_at(2),
            stopped(),
            Whole,
        ),
        by(
            "p4-copy-at-another-generation",
            copy_at(3),
            stopped(),
            Refused(Code::PdNotOurs),
        ),
        by(
            "p4-another-volumes-disk-and-a-consent-from-before-this-one-was-in-use",
            standing(its_copy.clone()),
            stopped(),
            Refused(Code::PdNotOurs),
        ),
        by(
            "p4-copy-at-the-generation-that-is-named-though-the-volume-was-in-use",
            standing(copy_at(2)),
            stopped(),
            Whole,
        ),
        by(
            "p4-copy-of-a-snapshot",
            copy_at(3),
            put_back(World::power_cut),
            Whole,
        ),
        by(
            "p4-copy-beside-its-running-source",
            its_copy.clone(),
            beside_its_source(),
            Whole,
        ),
        by(
            "p4-copy-beside-its-source-at-the-same-mount",
            its_copy.clone(),
            changed(beside_its_source(), |world| {
                world.mounts.push(("md900".to_owned(), spec().mount));
            }),
            Refused(Code::PdForeign),
        ),
        by(
            "p4-copy-beside-its-source-without-local-disks-of-its-own",
            its_copy.clone(),
            changed(beside_its_source(), |world| {
                world
                    .disks
                    .retain(|name, _| name != "nvme2n1" && name != "nvme3n1");
            }),
            Refused(Code::SsdBusy),
        ),
        by(
            "p4-copy-whose-fast-leg-is-ahead",
            its_copy.clone(),
            changed(lost_durable(), World::power_cut),
            Refused(Code::SsdAhead),
        ),
        one(
            "p5-durable-was-faulty",
            change_durable(|sb| sb.roles = vec![FAULTY, 1]),
            Refused(Code::PdNotInSync),
        ),
        one(
            "p5-durable-was-being-rebuilt",
            change_durable(|sb| sb.recovering = true),
            Refused(Code::PdNotInSync),
        ),
        one("d1-clone-beside-its-source", older_twin, Whole),
        by(
            "d1-clone-that-is-meant-to-be-one-beside-its-source",
            its_copy.clone(),
            newer_twin.clone(),
            Whole,
        ),
        one(
            "d2-newer-disk-of-the-same-volume",
            newer_twin,
            Refused(Code::DuplicateUuid),
        ),
        one(
            "d2-clone-of-what-runs",
            running_twin,
            Refused(Code::DuplicateUuid),
        ),
        one(
            "no-filesystem",
            without_filesystem,
            Refused(Code::NoFilesystem),
        ),
        one(
            "other-filesystem",
            changed(stopped(), |world| {
                let mut bytes = vec![0; 4096];
                bytes[..4].copy_from_slice(b"XFSB");
                world.poke(DURABLE, MIB, &bytes);
            }),
            Refused(Code::NoFilesystem),
        ),
        one(
            "durable-missing",
            changed(stopped(), |world| {
                world.disks.remove(DURABLE);
            }),
            Refused(Code::PdLost),
        ),
        one(
            "durable-unreadable",
            changed(stopped(), |world| world.disk(DURABLE).dead = true),
            Refused(Code::PdLost),
        ),
        one(
            "durable-with-unreadable-headers",
            unread_headers(),
            Refused(Code::PdHeaderLost),
        ),
        one(
            "durable-with-unreadable-headers-and-assembled-by-the-host",
            changed(unread_headers(), World::host_assembles),
            Refused(Code::PdHeaderLost),
        ),
        one(
            "bad-block-log",
            change_durable(|sb| sb.bad_block_log = 8),
            Whole,
        ),
    ]
}
