//! Worlds that situations begin in: how a super-disk is left behind.

use superdisk::{
    inventory::Tried,
    lineage::Header,
    spec::{Policy, Spec},
};

use super::{run, spec, used, used_with_spares};
use crate::{
    node::node,
    world::{Array, DURABLE, Kind, MIB, Member, MemberState, World},
};

pub(super) fn stopped() -> World {
    let mut world = used();
    world.stop();
    world
}

pub(super) fn cut() -> World {
    let mut world = used();
    world.power_cut();
    world
}

/// After a power cut, with two local disks more than are needed.
pub(super) fn cut_with_spares() -> World {
    let mut world = used_with_spares();
    world.power_cut();
    world
}

/// After a power cut, neither of the durable leg's headers can be read.
pub(super) fn unread_headers() -> World {
    let mut world = cut();
    world.disk(DURABLE).bad = vec![MIB / 4096 - 2, MIB / 4096 - 1];
    world
}

/// Beats as the agent does.
pub(super) fn beat(world: &mut World) {
    count_on(world, Header::next);
}

/// Writes the header that follows as the agent does: the durable leg first, then the fast leg.
fn count_on(world: &mut World, next: impl Fn(&Header) -> Header) {
    let inventory = node(world).observe(&spec(), &Tried::default());
    let (superdisk::model::Seen::Present(content), superdisk::model::Seen::Present(fast)) =
        (&inventory.durable.content, &inventory.fast)
    else {
        panic!("no headers");
    };
    let superdisk::model::Seen::Present(header) = &content.lineage else {
        panic!("no header");
    };
    let (header, region) = (next(header), MIB - 8192);
    let (_, _, stripe) = world.mirror().unwrap();
    let at = region + 4096 * header.slot() as u64;
    world.poke(DURABLE, at, &header.encode());
    assert_eq!(header.fast, fast.stripe);
    world.poke(&stripe.unwrap().name, at, &header.encode());
}

/// A snapshot has been begun: nothing is written until it ends.
pub(super) fn held() -> World {
    let mut world = used();
    count_on(&mut world, |header| {
        header.marked("nightly".parse().unwrap())
    });
    world
}

/// A snapshot was made of the network disk and has ended, without a single beat; then the local disks went on, until
/// `end`. The network disk is the snapshot's again.
pub(super) fn put_back(end: impl Fn(&mut World)) -> World {
    let mut world = held();
    let snapshot = world.disks[DURABLE].bytes.clone();
    count_on(&mut world, Header::unmarked);
    world.write(1, 9);
    end(&mut world);
    world.disk(DURABLE).bytes = snapshot;
    world
}

/// The same, and the header after the snapshot could not be written before the local disks went on. What they took has
/// left no bit behind: a mirror that is never idle clears bits without counting an event.
pub(super) fn put_back_within() -> World {
    let mut world = held();
    let snapshot = world.disks[DURABLE].bytes.clone();
    let (_, _, fast) = world.mirror().unwrap();
    world.write_leg(&fast.unwrap().name, 1, 9);
    world.power_cut();
    world.disk(DURABLE).bytes = snapshot;
    world
}

/// The durable leg was copied, and the copy is in its place: the source runs on, under another name, with its fast leg.
/// There are further local disks.
pub(super) fn beside_its_source() -> World {
    let mut world = further(stopped());
    let bytes = world.disks[DURABLE].bytes.clone();
    world.plug("vdb", "source", 512 * MIB);
    world.disk("vdb").bytes = bytes;
    let leg = |name: &str| {
        Some(Member {
            name: name.to_owned(),
            state: MemberState::InSync,
            write_mostly: name == "vdb",
        })
    };
    let runs = |minor: u32, kind| Array {
        minor,
        kind,
        ..inactive(&[])
    };
    let locals = ["nvme0n1", "nvme1n1"].map(str::to_owned).into();
    let stripe = runs(901, Kind::Stripe(locals));
    let mirror = runs(900, Kind::Mirror(leg("vdb"), leg("md901")));
    world.arrays.insert("md901".to_owned(), stripe);
    world.arrays.insert("md900".to_owned(), mirror);
    world
}

/// The network disk as it was some beats ago, under local disks that went on.
pub(super) fn restored(write_before_snapshot: bool) -> World {
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
pub(super) fn elsewhere(fast_leg: bool) -> World {
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
    world.machine = 2;
    run(&spec, &mut world);
    world.settle();
    world.write(2, 8);
    world.settle();
    world.stop();
    world.boot += 1;
    world.machine = 1;
    for (name, disk) in own {
        world.disks.insert(name.to_owned(), disk);
    }
    world
}

pub(super) fn lost_durable() -> World {
    let mut world = used();
    world.lose_durable();
    world.write(3, 6);
    world
}

/// Ended in order, as the agent does it.
pub(super) fn clean() -> World {
    let mut world = used();
    world.mark_clean();
    world.stop();
    world
}

/// A local device was away for a moment, and with it what it had acknowledged and not yet written down: by then md has
/// cleared its bit.
pub(super) fn lost_cache() -> World {
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
pub(super) fn others_leg(lost: bool) -> World {
    let (_, mut world) = of_another();
    if lost {
        world.lose_durable();
        world.write(3, 6);
    }
    world.power_cut();
    without_its_network_disk(world)
}

/// Another volume's fast leg, of which nothing tells whether it went on without its network disk.
pub(super) fn others_leg_damaged() -> World {
    let (_, mut world) = of_another();
    damage_superblock(&mut world);
    world.power_cut();
    without_its_network_disk(world)
}

/// Another volume's super-disk, whole.
fn of_another() -> (Spec, World) {
    let spec = Spec {
        volume: "pvc-9".parse().unwrap(),
        ..spec()
    };
    let mut world = World::blank();
    run(&spec, &mut world);
    world.settle();
    (spec, world)
}

/// The network disk is attached elsewhere now, and this volume's is here.
fn without_its_network_disk(mut world: World) -> World {
    let disk = world.disks.remove(DURABLE).unwrap();
    world.plug(DURABLE, "data", disk.size);
    world
}

/// Another volume has left its fast leg for one on another disk, which is in use. The disk that it had lost is back, as a
/// part of the leg that was left.
pub(super) fn others_leg_was_replaced() -> World {
    let (spec, mut world) = of_another();
    world.mark_clean();
    world.power_cut();
    let lost = world.disks.remove("nvme1n1").unwrap();
    world.plug("nvme2n1", "local-2", 256 * MIB);
    run(&spec, &mut world);
    world.settle();
    world.stop();
    for disk in ["nvme0n1", "nvme2n1"] {
        world.holders.push((disk.to_owned(), "dm-3".to_owned()));
    }
    world.disks.insert("nvme1n1".to_owned(), lost);
    world.plug("nvme3n1", "local-3", 256 * MIB);
    without_its_network_disk(world)
}

pub(super) fn change_durable(change: impl FnOnce(&mut crate::bytes::Sb)) -> World {
    let mut world = stopped();
    let mut sb = world.sb(DURABLE).unwrap();
    change(&mut sb);
    world.put_sb(DURABLE, &sb);
    world
}

/// A bit of the superblock inside of the fast leg that runs has changed.
pub(super) fn damage_superblock(world: &mut World) {
    let (_, _, fast) = world.mirror().unwrap();
    let fast = fast.unwrap().name;
    let mut bytes = world.sb(&fast).unwrap().encode();
    bytes[201] ^= 1;
    world.poke(&fast, 4096, &bytes);
}

pub(super) fn fast_state(world: &mut World, state: MemberState) {
    let (name, ..) = world.mirror().unwrap();
    if let Kind::Mirror(_, Some(fast)) = &mut world.arrays.get_mut(&name).unwrap().kind {
        fast.state = state;
    }
}

pub(super) fn inactive(members: &[&str]) -> Array {
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

/// Two more local devices, which sort before its own.
pub(super) fn further(mut world: World) -> World {
    world.plug("nvme2n1", "local-", 256 * MIB);
    world.plug("nvme3n1", "local-+", 256 * MIB);
    world
}
