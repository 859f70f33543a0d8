//! Two whole fast legs of one volume: another stripe has taken the place of one whose disks had dropped out, and these are
//! back.

use superdisk::action::Decision;

use crate::{
    situations::{run, spec, used_with_spares},
    world::{DURABLE, Disk, MemberState, World},
};

type Disks = Vec<(String, Disk)>;

const FIRST: [&str; 2] = ["nvme0n1", "nvme1n1"];
const SECOND: [&str; 2] = ["nvme2n1", "nvme3n1"];

/// The first stripe's disks have dropped out, block 1 is written as 9 without them, and the second stripe is being filled.
fn replaced() -> (World, Disks) {
    let mut world = used_with_spares();
    let first = world.pull(&FIRST);
    world.write(1, 9);
    assert_eq!(run(&spec(), &mut world), Decision::Do(Vec::new()));
    (world, first)
}

fn blocks(world: &World, leg: &str) -> Vec<u8> {
    (0..4).map(|block| world.block(leg, block)).collect()
}

/// Both legs hold this once everything is done.
fn comes_to(world: &mut World, truth: [u8; 4]) {
    assert_eq!(run(&spec(), world), Decision::Do(Vec::new()));
    world.settle();
    let fast = world.mirror().unwrap().2.unwrap();
    assert_eq!(fast.state, MemberState::InSync);
    for leg in [DURABLE, &fast.name] {
        assert_eq!(blocks(world, leg), truth, "{leg}");
    }
}

#[test]
fn a_leg_whose_place_another_has_taken_is_copied_anew_when_that_one_is_lost_half_filled() {
    let (mut world, first) = replaced();
    world.fill_in_part();
    world.put_in(first);
    world.pull(&SECOND);
    comes_to(&mut world, [1, 9, 3, 4]);
}

#[test]
fn a_leg_whose_place_another_has_taken_is_copied_anew_after_a_power_cut_too() {
    let (mut world, first) = replaced();
    world.fill_in_part();
    world.put_in(first);
    for disk in SECOND {
        world.disk(disk).bytes = crate::bytes::Sparse::default();
    }
    world.power_cut();
    comes_to(&mut world, [1, 9, 3, 4]);
}
