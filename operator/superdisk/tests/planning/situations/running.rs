//! Arrays that run already: ours, the host's, and broken ones.

use std::path::PathBuf;

use superdisk::model::Code;

use super::{
    End, Situation, changed, one, used,
    worlds::{fast_state, inactive, lost_cache, lost_durable, stopped},
};
use crate::world::{DURABLE, Kind, MemberState, World};

pub(super) fn running() -> Vec<Situation> {
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
    let mounted_by_the_node = changed(unmounted(used()), |world| {
        let (mirror, ..) = world.mirror().unwrap();
        world
            .node_mounts
            .push((mirror, PathBuf::from("/mnt/by-hand")));
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
            "r5-all-local-devices-gone-before-md-has-noticed",
            changed(used(), |world| {
                world.disks.remove("nvme0n1");
                world.disks.remove("nvme1n1");
            }),
            Without(Code::SsdMissing),
        ),
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
        one(
            "mounted-by-the-node-alone",
            mounted_by_the_node,
            Refused(Code::PdForeign),
        ),
    ]
}
