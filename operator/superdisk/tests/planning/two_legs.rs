//! Two whole fast legs of one volume: another stripe has taken the place of one whose disks had dropped out, and these are
//! back.

use superdisk::{
    action::Decision,
    inventory::Tried,
    model::{Code, Seen},
    plan::plan,
    resolve::{self, Keep},
};

use crate::{
    node::node,
    properties::resolve,
    situations::{run, situations, spec, used_with_spares},
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

/// The second leg is whole and took 6 for block 3 alone; the first leg's disks are back, too.
fn ahead() -> World {
    let (mut world, first) = replaced();
    world.settle();
    world.lose_durable();
    world.write(3, 6);
    world.power_cut();
    world.put_in(first);
    world
}

/// Keeping the fast leg is refused, and changes nothing.
fn is_refused(world: &World) {
    let inventory = node(world).observe(&spec(), &Tried::default());
    let refusal = resolve::step(&spec(), &inventory, Keep::Fast).unwrap_err();
    assert_eq!(refusal.code, Code::SsdMissing, "{refusal}");
}

fn without(world: &World, disks: &[&str]) -> World {
    let mut world = world.clone();
    for disk in disks {
        world.disks.remove(*disk);
    }
    world
}

#[test]
fn the_fast_leg_that_is_kept_is_the_one_that_is_ahead_and_not_another_whole_one_in_its_place() {
    let mut world = ahead();
    for late in [&SECOND[..], &SECOND[..1], &SECOND[1..]] {
        is_refused(&without(&world, late));
    }
    resolve(&mut world, Keep::Fast);
    comes_to(&mut world, [1, 9, 3, 6]);
}

#[test]
fn keeping_a_fast_leg_that_was_interrupted_goes_on_with_that_leg_alone_on_whatever_machine() {
    let world = ahead();
    let killed = resolve(&mut world.clone(), Keep::Fast);
    let mut half_filled = 0;
    for mut killed in killed {
        killed.power_cut();
        let mut first = without(&killed, &SECOND);
        first.machine = 2;
        let inventory =
            node(&first).observe(&spec(), &crate::goldens::tried(&spec(), &node(&first)));
        // Before it is half filled and after that, a durable leg is served on another machine without a question.
        if matches!(plan(&spec(), &inventory), Decision::Refused(refusal) if refusal.code == Code::PdNotInSync)
        {
            is_refused(&first);
            half_filled += 1;
        }
        resolve(&mut killed, Keep::Fast);
        comes_to(&mut killed, [1, 9, 3, 6]);
    }
    assert!(half_filled > 0);
}

/// The durable leg was put back to a snapshot from before the second stripe was made, and the second leg is ahead of that.
#[test]
fn a_durable_leg_that_was_put_back_belongs_to_the_leg_that_is_kept_before_anything_is_copied_to_it()
{
    let mut world = used_with_spares();
    let snapshot = world.disks[DURABLE].bytes.clone();
    let first = world.pull(&FIRST);
    world.write(1, 9);
    run(&spec(), &mut world);
    world.settle();
    world.write(0, 5);
    world.lose_durable();
    world.write(3, 6);
    world.power_cut();
    world.disk(DURABLE).bytes = snapshot;
    let mut half_filled = 0;
    for mut killed in resolve(&mut world.clone(), Keep::Fast) {
        killed.power_cut();
        // The first is of the very time to which the durable leg was put back.
        let mut other = without(&killed, &SECOND);
        other.put_in(first.clone());
        let inventory = node(&other).observe(&spec(), &Tried::default());
        if let Seen::Present(content) = &inventory.durable.content
            && matches!(&content.superblock, Seen::Present(found) if found.recovery_offset.is_some())
        {
            is_refused(&other);
            half_filled += 1;
        }
        resolve(&mut killed, Keep::Fast);
        // What both had long before the durable leg was lost, and the snapshot has not, is there, too.
        comes_to(&mut killed, [5, 9, 3, 6]);
    }
    assert!(half_filled > 0);
}

#[test]
fn what_the_host_has_mixed_is_not_called_right_by_keeping_the_fast_leg() {
    let mixed = situations()
        .into_iter()
        .find(|one| one.name == "l0-durable-restored-and-assembled-by-the-host");
    let world = mixed.unwrap().world;
    let inventory = node(&world).observe(&spec(), &Tried::default());
    let refusal = resolve::step(&spec(), &inventory, Keep::Fast).unwrap_err();
    assert_eq!(refusal.code, Code::PdOverwritten);
}
