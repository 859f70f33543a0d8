//! One world for each row of the decision table, and what has to come of it.

mod durable_legs;
mod fast_legs;
mod lineages;
mod running;
mod worlds;

use superdisk::{
    action::{Action, Decision},
    inventory::Tried,
    model::Code,
    plan::plan,
    spec::{FilesystemKind, Policy, Spec},
};

use crate::{
    node::node,
    world::{MIB, World},
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
        restored: None,
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
                    tried.note(action);
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
    in_use(World::blank())
}

/// The same, with two local disks more than it needs.
pub(crate) fn used_with_spares() -> World {
    let mut world = World::blank();
    world.plug("nvme2n1", "local-2", 256 * MIB);
    world.plug("nvme3n1", "local-3", 256 * MIB);
    in_use(world)
}

fn in_use(mut world: World) -> World {
    assert_eq!(run(&spec(), &mut world), Decision::Do(Vec::new()));
    world.settle();
    for block in 0..4 {
        world.write(block, block + 1);
    }
    world.settle();
    world
}

/// All of them, named by what is so.
pub(crate) fn situations() -> Vec<Situation> {
    let mut all = running::running();
    all.extend(durable_legs::durable_legs());
    all.extend(fast_legs::fast_legs());
    all.extend(lineages::lineages());
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

fn with_policy(change: impl FnOnce(&mut Policy)) -> Spec {
    let mut spec = spec();
    change(&mut spec.policy);
    spec
}

fn changed(mut world: World, change: impl FnOnce(&mut World)) -> World {
    change(&mut world);
    world
}
