//! Histories of both legs.

use superdisk::{model::Code, spec::Spec};

use super::{
    End, Situation, by, changed, one, run, spec,
    worlds::{elsewhere, held, lost_durable, put_back, put_back_within, restored, stopped},
};
use crate::world::{DURABLE, MIB, World};

pub(super) fn lineages() -> Vec<Situation> {
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
    let saw_it_fail = changed(lost_durable(), World::power_cut);
    let ahead = |world: &mut World| {
        world.lose_durable();
        world.write(3, 6);
        world.power_cut();
    };
    let said = |generation| Spec {
        restored: Some(generation),
        ..spec()
    };
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
        one(
            "l0-power-cut-while-a-snapshot-was-taken",
            changed(held(), World::power_cut),
            Whole,
        ),
        one(
            "l0-durable-restored-to-a-snapshot",
            put_back(World::power_cut),
            Whole,
        ),
        one(
            "l0-durable-restored-within-its-snapshot",
            put_back_within(),
            Whole,
        ),
        one(
            "l0-durable-restored-to-a-snapshot-in-this-boot",
            put_back(World::stop),
            Whole,
        ),
        one(
            "l0-durable-restored-to-a-snapshot-in-this-boot-and-assembled-by-the-host",
            changed(put_back(World::stop), |world| {
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
        one(
            "l1-durable-restored-to-a-snapshot-after-it-was-lost",
            put_back(ahead),
            Refused(Code::SsdAhead),
        ),
        by(
            "l1-the-same-and-its-operator-says-so",
            said(3),
            put_back(ahead),
            Whole,
        ),
        by(
            "l1-said-of-a-generation-that-is-over",
            said(2),
            put_back(ahead),
            Refused(Code::SsdAhead),
        ),
        by(
            "l0-durable-restored-as-its-operator-says",
            said(3),
            put_back(World::power_cut),
            Whole,
        ),
        one("l0-used-elsewhere-with-a-fast-leg", elsewhere(true), Whole),
        one(
            "l1-fast-leg-saw-the-durable-fail",
            saw_it_fail,
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
