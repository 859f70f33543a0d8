//! One world for each row of the decision table, and what has to come of it.

use std::path::PathBuf;

use superdisk::{
    action::{Action, Decision},
    inventory::Tried,
    model::Code,
    plan::plan,
    spec::{FilesystemKind, Policy, Spec},
};

use crate::{
    bytes::FAULTY,
    node::node,
    world::{Array, DURABLE, Kind, MIB, MemberState, World},
};

/// Where everything has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Mounted, with both legs, or with one being rebuilt.
    Whole,
    /// Mounted, and waiting for a fast leg.
    Without(Code),
    /// Refused, with everything as it was.
    Refused(Code),
}

#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) name: &'static str,
    pub(crate) spec: Spec,
    pub(crate) world: World,
    pub(crate) end: End,
}

pub(crate) fn spec() -> Spec {
    Spec {
        durable: "/dev/disk/by-id/data".into(),
        local: vec!["/dev/disk/by-id/local-*".to_owned()],
        local_count: 2,
        volume: "pvc-1".parse().unwrap(),
        copy_of: None,
        mount: "/data".into(),
        filesystem: FilesystemKind::Ext4,
        policy: Policy::default(),
    }
}

/// Plans and does until nothing is left to do. What mdadm refuses is tried as the program tries it.
pub(crate) fn run(spec: &Spec, world: &mut World) -> Decision {
    let mut tried = Tried::default();
    let mut done = Vec::new();
    for _ in 0..30 {
        let inventory = node(world).observe(spec, &tried);
        match plan(spec, &inventory) {
            Decision::Do(actions) if !actions.is_empty() => {
                for action in &actions {
                    done.push(action.to_string());
                    if let Err(said) = world.act(action) {
                        assert!(matches!(action, Action::ReAdd { .. }), "{action}: {said}");
                        assert_eq!(tried.re_add, None, "it was tried before");
                        tried.re_add = Some(said);
                        break;
                    }
                    tried.watch(action);
                    if matches!(action, Action::GrowFilesystem { .. }) {
                        tried.grown = true;
                    }
                }
                world.fresh = world.fresh.wrapping_add(1);
            }
            decision => return decision,
        }
    }
    panic!("it does not end: {done:#?}");
}

/// A super-disk that has been in use: blocks 0 to 3 hold 1 to 4.
pub(crate) fn used() -> World {
    let mut world = World::blank();
    assert_eq!(run(&spec(), &mut world), Decision::Do(Vec::new()));
    world.settle();
    for block in 0..4 {
        world.write(block, block + 1);
    }
    world.settle();
    world
}

fn stopped() -> World {
    let mut world = used();
    world.stop();
    world
}

fn cut() -> World {
    let mut world = used();
    world.power_cut();
    world
}

/// Beats as the agent does: the durable leg first, then the fast leg.
fn beat(world: &mut World) {
    let inventory = node(world).observe(&spec(), &Tried::default());
    let (superdisk::model::Seen::Present(content), superdisk::model::Seen::Present(fast)) =
        (&inventory.durable.content, &inventory.fast)
    else {
        panic!("no headers");
    };
    let superdisk::model::Seen::Present(header) = &content.lineage else {
        panic!("no header");
    };
    let (header, region) = (header.next(), MIB - 8192);
    let (_, _, stripe) = world.mirror().unwrap();
    let at = region + 4096 * header.slot() as u64;
    world.poke(DURABLE, at, &header.encode());
    assert_eq!(header.fast, fast.stripe);
    world.poke(&stripe.unwrap().name, at, &header.encode());
}

/// The network disk as it was some beats ago, under local disks that went on.
fn restored(write_before_snapshot: bool) -> World {
    let mut world = used();
    if write_before_snapshot {
        world.write(0, 7);
    }
    let snapshot = world.disks[DURABLE].bytes.clone();
    beat(&mut world);
    world.write(1, 9);
    world.power_cut();
    world.disk(DURABLE).bytes = snapshot;
    world
}

/// The network disk is used on another node, with that node's local disks or with none.
fn elsewhere(fast_leg: bool) -> World {
    let mut world = cut();
    let own: Vec<_> = ["nvme0n1", "nvme1n1"]
        .map(|name| (name, world.disks[name].clone()))
        .into();
    for (name, disk) in &own {
        world.disks.remove(*name);
        if fast_leg {
            world.plug(name, &disk.by_id, disk.size);
        }
    }
    let spec = Spec {
        policy: Policy {
            fast_leg_optional: true,
            ..Policy::default()
        },
        ..spec()
    };
    run(&spec, &mut world);
    world.settle();
    world.write(2, 8);
    world.settle();
    world.stop();
    world.boot += 1;
    for (name, disk) in own {
        world.disks.insert(name.to_owned(), disk);
    }
    world
}

fn lost_durable() -> World {
    let mut world = used();
    world.lose_durable();
    world.write(3, 6);
    world
}

/// Ended in order, as the agent does it.
fn clean() -> World {
    let mut world = used();
    world.mark_clean();
    world.stop();
    world
}

/// A local device was away for a moment, and with it what it had acknowledged and not yet written down: by then md has
/// cleared its bit.
fn lost_cache() -> World {
    let mut world = used();
    let (_, _, fast) = world.mirror().unwrap();
    let fast = fast.unwrap().name;
    let before = world.block(&fast, 1);
    world.write(1, 9);
    world.settle();
    world.write_leg(&fast, 1, before);
    world.arrays.get_mut(&fast).unwrap().broken = true;
    world
}

/// Another volume's fast leg, which went on without its network disk, on local devices that this volume could have.
fn others_leg(lost: bool) -> World {
    let spec = Spec {
        volume: "pvc-9".parse().unwrap(),
        ..spec()
    };
    let mut world = World::blank();
    run(&spec, &mut world);
    world.settle();
    if lost {
        world.lose_durable();
        world.write(3, 6);
    }
    world.power_cut();
    let disk = world.disks.remove(DURABLE).unwrap();
    world.plug(DURABLE, "data", disk.size);
    world
}

fn with_policy(change: impl FnOnce(&mut Policy)) -> Spec {
    let mut spec = spec();
    change(&mut spec.policy);
    spec
}

fn change_durable(change: impl FnOnce(&mut crate::bytes::Sb)) -> World {
    let mut world = stopped();
    let mut sb = world.sb(DURABLE).unwrap();
    change(&mut sb);
    world.put_sb(DURABLE, &sb);
    world
}

fn changed(mut world: World, change: impl FnOnce(&mut World)) -> World {
    change(&mut world);
    world
}

fn fast_state(world: &mut World, state: MemberState) {
    let (name, ..) = world.mirror().unwrap();
    if let Kind::Mirror(_, Some(fast)) = &mut world.arrays.get_mut(&name).unwrap().kind {
        fast.state = state;
    }
}

fn inactive(members: &[&str]) -> Array {
    Array {
        minor: 127,
        kind: Kind::Inactive(members.iter().map(|name| (*name).to_owned()).collect()),
        bytes: 0,
        knobs: std::collections::BTreeMap::new(),
        resync: false,
        needed: Vec::new(),
        broken: false,
    }
}

/// All of them, named by what is so.
pub(crate) fn situations() -> Vec<Situation> {
    let mut all = running();
    all.extend(durable_legs());
    all.extend(fast_legs());
    all.extend(lineages());
    all
}

fn one(name: &'static str, world: World, end: End) -> Situation {
    Situation {
        name,
        spec: spec(),
        world,
        end,
    }
}

fn by(name: &'static str, spec: Spec, world: World, end: End) -> Situation {
    Situation {
        name,
        spec,
        world,
        end,
    }
}

fn running() -> Vec<Situation> {
    use End::{Refused, Whole, Without};
    let unmounted = |mut world: World| {
        world.mounts.clear();
        world
    };
    let mounted_elsewhere = changed(used(), |world| {
        world.mounts[0].1 = PathBuf::from("/var/lib/superdisk/other");
    });
    let host_dirty = changed(used(), |world| {
        world.write(2, 3);
        world.power_cut();
        world.host_assembles();
    });
    let broken = changed(used(), |world| {
        let (_, _, fast) = world.mirror().unwrap();
        world.arrays.get_mut(&fast.unwrap().name).unwrap().broken = true;
    });
    let gone = changed(used(), |world| {
        fast_state(world, MemberState::Faulty);
        let (_, _, fast) = world.mirror().unwrap();
        world.arrays.get_mut(&fast.unwrap().name).unwrap().broken = true;
        world.disks.remove("nvme1n1");
    });
    vec![
        one("r1-mounted", used(), Whole),
        one("r2-running-not-mounted", unmounted(used()), Whole),
        one(
            "r2-assembled-by-the-host",
            changed(stopped(), World::host_assembles),
            Whole,
        ),
        one("r3-host-is-about-to-resync", host_dirty, Whole),
        one(
            "r4-inactive-durable",
            changed(stopped(), |world| {
                world.arrays.insert("md127".into(), inactive(&[DURABLE]));
            }),
            Whole,
        ),
        one(
            "r4-inactive-local",
            changed(stopped(), |world| {
                world.arrays.insert("md127".into(), inactive(&["nvme1n1"]));
            }),
            Whole,
        ),
        one(
            "r5-fast-leg-failed",
            changed(used(), |world| fast_state(world, MemberState::Faulty)),
            Whole,
        ),
        one("r5-stripe-broken", broken, Whole),
        one("r5-local-device-gone", gone, Without(Code::SsdMissing)),
        one(
            "r6-recovering",
            changed(used(), |world| fast_state(world, MemberState::Recovering)),
            Whole,
        ),
        one(
            "r5-device-lost-its-cache-and-came-back",
            lost_cache(),
            Whole,
        ),
        one(
            "r7-ahead-and-host-started-the-durable-leg",
            changed(lost_durable(), |world| {
                world.power_cut();
                world.host_starts_durable();
            }),
            Refused(Code::SsdAhead),
        ),
        one("r7-durable-lost", lost_durable(), Refused(Code::PdLost)),
        one(
            "r7-host-started-the-fast-leg-alone",
            changed(lost_durable(), |world| {
                let (mirror, _, fast) = world.mirror().unwrap();
                world.mounts.clear();
                world.arrays.get_mut(&mirror).unwrap().kind = Kind::Mirror(None, fast);
            }),
            Refused(Code::SsdAhead),
        ),
        one(
            "mounted-by-another-pod",
            mounted_elsewhere,
            Refused(Code::PdForeign),
        ),
    ]
}

fn durable_legs() -> Vec<Situation> {
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
    let blanked = changed(stopped(), |world| {
        world.disk(DURABLE).bytes = crate::bytes::Sparse::default();
    });
    let foreign = changed(World::blank(), |world| {
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(b"XFSB");
        world.poke(DURABLE, 0, &bytes);
    });
    let twin = changed(stopped(), |world| {
        let bytes = world.disks[DURABLE].bytes.clone();
        world.plug("vdb", "copy", 512 * MIB);
        world.disk("vdb").bytes = bytes;
    });
    let without_filesystem = changed(stopped(), |world| world.poke(DURABLE, MIB, &[]));
    vec![
        one("p0-first-boot", World::blank(), Whole),
        by(
            "p1-blank-but-used-before",
            used_before,
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
        by(
            "p4-another-volumes-disk",
            other_volume,
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
            "p4-copy-whose-fast-leg-is-ahead",
            its_copy,
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
        one("duplicate", twin, Refused(Code::DuplicateUuid)),
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
            "bad-block-log",
            change_durable(|sb| sb.bad_block_log = 8),
            Whole,
        ),
    ]
}

/// Two more local devices, which sort before its own.
fn further(mut world: World) -> World {
    world.plug("nvme2n1", "local-", 256 * MIB);
    world.plug("nvme3n1", "local-+", 256 * MIB);
    world
}

fn fast_legs() -> Vec<Situation> {
    use End::{Refused, Whole, Without};
    let optional = || with_policy(|policy| policy.fast_leg_optional = true);
    let missing = |mut world: World| {
        world.disks.remove("nvme0n1");
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

fn lineages() -> Vec<Situation> {
    use End::{Refused, Whole};
    let header_gone = changed(stopped(), |world| {
        world.host_assembles();
        for slot in [8192, 4096] {
            world.poke("md127", MIB - slot, &[]);
        }
        world.arrays.clear();
    });
    let made_anew = changed(stopped(), |world| {
        // Half of it is another disk's, and mdadm has made a stripe of both: what is inside is half lost.
        for disk in ["nvme0n1", "nvme1n1"] {
            let mut sb = world.sb(disk).unwrap();
            sb.array = 99;
            world.put_sb(disk, &sb);
        }
    });
    let ahead = changed(lost_durable(), World::power_cut);
    let ahead_and_used_on = changed(lost_durable(), |world| {
        world.power_cut();
        let own: Vec<_> = ["nvme0n1", "nvme1n1"]
            .map(|name| (name, world.disks[name].clone()))
            .into();
        for (name, disk) in &own {
            world.disks.remove(*name);
            world.plug(name, &disk.by_id, disk.size);
        }
        run(&spec(), world);
        world.settle();
        world.stop();
        for (name, disk) in own {
            world.disks.insert(name.to_owned(), disk);
        }
    });
    let events = changed(stopped(), |world| {
        world.host_assembles();
        let mut sb = world.sb("md127").unwrap();
        sb.events += 5;
        world.put_sb("md127", &sb);
        world.arrays.clear();
    });
    let old = changed(stopped(), |world| {
        let sb = world.sb(DURABLE).unwrap();
        let mut bits = world.bits(DURABLE);
        bits.cleared = sb.events + 1;
        world.put_bits(DURABLE, &bits);
    });
    vec![
        one("l0-no-header-on-the-fast-leg", header_gone, Whole),
        one("l0-stripe-made-anew", made_anew, Whole),
        one("l0-durable-restored", restored(false), Whole),
        one("l0-durable-restored-while-busy", restored(true), Whole),
        one(
            "l0-durable-restored-and-assembled-by-the-host",
            changed(restored(false), |world| {
                let events = world.sb(DURABLE).unwrap().events;
                world.host_assembles();
                let mut sb = world.sb("md127").unwrap();
                sb.events = events;
                world.put_sb("md127", &sb);
                world.arrays.clear();
                world.host_assembles();
            }),
            Refused(Code::PdOverwritten),
        ),
        one("l0-used-elsewhere-with-a-fast-leg", elsewhere(true), Whole),
        one(
            "l1-fast-leg-saw-the-durable-fail",
            ahead,
            Refused(Code::SsdAhead),
        ),
        one(
            "l1-fast-leg-has-more-events",
            events,
            Refused(Code::SsdAhead),
        ),
        one("l1-but-durable-was-used-since", ahead_and_used_on, Whole),
        one(
            "l2-used-elsewhere-without-a-fast-leg",
            elsewhere(false),
            Whole,
        ),
        one("l3-bitmap-knows-no-more", old, Whole),
    ]
}
