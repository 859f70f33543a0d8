//! Properties of every situation: it comes to its end, again and from anywhere on the way, and the result is the
//! durable leg's data.

use superdisk::{
    action::{Action, Decision, WaitingOn},
    inventory::Tried,
    model::Code,
    plan::plan,
    resolve::{self, Keep, ResolveStep},
    spec::Spec,
};

use crate::{
    node::node,
    situations::{End, Situation, run, situations, used},
    world::{DURABLE, Kind, MemberState, World},
};

fn end(decision: &Decision) -> End {
    match decision {
        Decision::Do(actions) => {
            assert!(actions.is_empty(), "{actions:?}");
            End::Whole
        }
        Decision::WaitingOn(WaitingOn::FastLeg(refusal)) => End::Without(refusal.code),
        Decision::Refused(refusal) => End::Refused(refusal.code),
    }
}

fn blocks(world: &World, leg: &str) -> Vec<u8> {
    (0..8).map(|block| world.block(leg, block)).collect()
}

/// Mounted where it shall be, from a mirror whose legs agree with what the durable leg held before.
fn check_served(name: &str, spec: &Spec, world: &mut World, truth: &[u8], whole: bool) {
    let (mirror, durable, _) = world.mirror().unwrap();
    assert_eq!(world.mounts, [(mirror, spec.mount.clone())], "{name}");
    let durable = durable.unwrap();
    assert!(
        durable.write_mostly && durable.state == MemberState::InSync,
        "{name}: {durable:?}"
    );
    world.settle();
    assert_eq!(
        blocks(world, DURABLE),
        truth,
        "{name}: the durable leg has changed"
    );
    let (_, _, fast) = world.mirror().unwrap();
    assert_eq!(fast.is_some(), whole, "{name}: {fast:?}");
    if let Some(fast) = fast {
        assert_eq!(fast.state, MemberState::InSync, "{name}");
        assert_eq!(blocks(world, &fast.name), truth, "{name}: the legs differ");
    }
}

fn check(situation: &Situation, world: &mut World, truth: &[u8]) {
    let Situation {
        name,
        spec,
        world: _,
        end: wanted,
    } = situation;
    let before = world.clone();
    let decision = run(spec, world);
    assert_eq!(end(&decision), *wanted, "{name}: {decision:?}");
    match wanted {
        End::Refused(_) => assert_eq!(*world, before, "{name}: refused, and changed something"),
        End::Whole | End::Without(_) => {
            let whole = *wanted == End::Whole;
            check_served(name, spec, world, truth, whole);
            assert_eq!(run(spec, world), decision, "{name}: once more");
        }
    }
}

/// What has to be on both legs in the end.
fn truth(situation: &Situation) -> Vec<u8> {
    match situation.world.disks.contains_key(DURABLE) {
        true => blocks(&situation.world, DURABLE),
        false => Vec::new(),
    }
}

#[test]
fn every_situation_comes_to_its_end_and_stays_there() {
    for situation in situations() {
        println!("{}", situation.name);
        check(&situation, &mut situation.world.clone(), &truth(&situation));
    }
}

/// The worlds that a run leaves behind when it is killed after its first step, its second, and so on.
fn on_the_way(spec: &Spec, world: &World) -> Vec<World> {
    let (mut world, mut worlds) = (world.clone(), Vec::new());
    for _ in 0..60 {
        let node = node(&world);
        let inventory = node.observe(spec, &crate::goldens::tried(spec, &node));
        let Decision::Do(actions) = plan(spec, &inventory) else {
            return worlds;
        };
        if actions.is_empty() {
            return worlds;
        }
        for action in actions {
            if world.act(&action).is_err() {
                // The program would try another way, as other situations show.
                assert!(matches!(action, Action::ReAdd { .. }));
                return worlds;
            }
            world.fresh = world.fresh.wrapping_add(1);
            worlds.push(world.clone());
        }
    }
    worlds
}

/// Whether both legs are in one mirror that we have not put together in this boot.
fn is_overwritten(spec: &Spec, world: &World) -> bool {
    let both = world
        .mirror()
        .is_some_and(|(_, durable, fast)| durable.is_some() && fast.is_some());
    let inventory = node(world).observe(spec, &Tried::default());
    both && matches!(
        plan(spec, &inventory),
        Decision::Refused(refusal) if refusal.code == Code::PdOverwritten
    )
}

/// Of how many parts of the situations hack/test looks at what is on the way of one.
const SAMPLES: usize = 6;

/// All situations, or those that hack/test's sample number chooses.
fn situations_in_turn() -> impl Iterator<Item = Situation> {
    let sample = std::env::var("READSTATES_TEST_SAMPLE").ok();
    let sample: Option<usize> = sample.map(|number| number.parse().unwrap());
    let is_chosen = move |&(at, _): &(usize, Situation)| {
        sample.is_none_or(|number| at % SAMPLES == number % SAMPLES)
    };
    let chosen = situations().into_iter().enumerate().filter(is_chosen);
    chosen.map(|(_, situation)| situation)
}

/// Checks the end of every world on the way, after something has happened to it.
fn check_on_the_way(happens: impl Fn(&mut World), end: impl Fn(&Situation) -> End) {
    for mut situation in situations_in_turn() {
        situation.end = end(&situation);
        println!("{}", situation.name);
        let truth = truth(&situation);
        for mut world in on_the_way(&situation.spec, &situation.world) {
            happens(&mut world);
            let put_back = ["durable-restored", "snapshot", "operator-says"];
            let put_back = put_back.iter().any(|word| situation.name.contains(word));
            if put_back && is_overwritten(&situation.spec, &world) {
                // The host has assembled legs of two histories: it can no longer be ruled out that md copied something.
                let refused = End::Refused(Code::PdOverwritten);
                let situation = Situation {
                    end: refused,
                    ..situation.clone()
                };
                check(&situation, &mut world, &truth);
                continue;
            }
            check(&situation, &mut world, &truth);
        }
    }
}

/// What was served without its fast leg is not started without it, unless that is asked for.
fn after_power_cut(situation: &Situation) -> End {
    match situation.end {
        End::Without(code @ Code::SsdMissing) if !situation.spec.policy.fast_leg_optional => {
            End::Refused(code)
        }
        end => end,
    }
}

#[test]
fn killed_between_any_two_steps_and_run_again_it_comes_to_the_same_end() {
    check_on_the_way(|_| (), |situation| situation.end);
}

#[test]
fn a_power_cut_between_any_two_steps_changes_nothing_of_that() {
    check_on_the_way(World::power_cut, after_power_cut);
}

#[test]
fn a_host_that_assembles_after_a_power_cut_between_any_two_steps_does_no_harm() {
    let happens = |world: &mut World| {
        world.power_cut();
        world.host_assembles();
    };
    check_on_the_way(happens, after_power_cut);
}

/// What the power cut left of a write that reached the durable leg and not the fast one.
fn split() -> World {
    let mut world = used();
    world.write(0, 5);
    let (_, _, fast) = world.mirror().unwrap();
    let fast = fast.unwrap().name;
    world.write_leg(&fast, 0, 6);
    world.power_cut();
    world
}

fn is_the_durable_legs(mut world: World) {
    let situation = Situation {
        name: "split write",
        spec: crate::situations::spec(),
        world: world.clone(),
        end: End::Whole,
    };
    check(&situation, &mut world, &[5, 2, 3, 4, 0, 0, 0, 0]);
    assert!(
        world
            .arrays
            .values()
            .all(|array| !matches!(array.kind, Kind::Inactive(_)))
    );
}

#[test]
fn a_write_that_a_power_cut_split_is_the_durable_legs() {
    is_the_durable_legs(split());
}

#[test]
fn a_write_that_a_power_cut_split_is_the_durable_legs_whatever_the_host_assembles_first() {
    let mut world = split();
    world.host_assembles();
    is_the_durable_legs(world);
}

/// The fast leg took 6 for block 3, alone.
fn ahead() -> World {
    let ahead = situations()
        .into_iter()
        .find(|one| one.name == "l1-fast-leg-saw-the-durable-fail");
    ahead.unwrap().world
}

/// Does what `resolve` does; with the worlds that it leaves when it is killed on the way.
pub(crate) fn resolve(world: &mut World, keep: Keep) -> Vec<World> {
    let (spec, mut worlds) = (crate::situations::spec(), Vec::new());
    let mut tried = Tried::default();
    for _ in 0..20 {
        let inventory = node(world).observe(&spec, &tried);
        match resolve::step(&spec, &inventory, keep).unwrap() {
            ResolveStep::Do(actions) => {
                for action in actions {
                    world.act(&action).unwrap();
                    tried.note(&action);
                    worlds.push(world.clone());
                }
            }
            ResolveStep::Wait(_) => world.settle(),
            ResolveStep::Done => return worlds,
        }
    }
    panic!("it does not end");
}

#[test]
fn its_owner_decides_which_legs_data_counts() {
    for (keep, truth) in [(Keep::Durable, 4), (Keep::Fast, 6)] {
        let mut world = ahead();
        let killed = resolve(&mut world, keep);
        for mut killed in killed.into_iter().chain([world]) {
            resolve(&mut killed, keep);
            let situation = Situation {
                name: "resolved",
                spec: crate::situations::spec(),
                world: killed.clone(),
                end: End::Whole,
            };
            check(&situation, &mut killed, &[1, 2, 3, truth, 0, 0, 0, 0]);
        }
    }
}

#[test]
fn a_person_answers_for_headers_that_cannot_be_read() {
    let unread = situations()
        .into_iter()
        .find(|one| one.name == "durable-with-unreadable-headers");
    let (spec, world) = (crate::situations::spec(), unread.unwrap().world);
    let inventory = node(&world).observe(&spec, &Tried::default());
    let refusal = resolve::step(&spec, &inventory, Keep::Fast).unwrap_err();
    assert_eq!(refusal.code, Code::PdHeaderLost);
    let mut decided = world.clone();
    let killed = resolve(&mut decided, Keep::Durable);
    for mut world in killed.into_iter().chain([decided]) {
        let situation = Situation {
            name: "answered",
            spec: spec.clone(),
            world: world.clone(),
            end: End::Whole,
        };
        check(&situation, &mut world, &[1, 2, 3, 4, 0, 0, 0, 0]);
    }
}

#[test]
fn all_that_would_be_copied_is_read_before_the_durable_leg_is_touched() {
    let (spec, mut world) = (crate::situations::spec(), ahead());
    let next = |world: &World, tried: &Tried| {
        let inventory = node(world).observe(&spec, tried);
        match resolve::step(&spec, &inventory, Keep::Fast).unwrap() {
            ResolveStep::Do(actions) => actions,
            other => panic!("{other:?}"),
        }
    };
    let mut tried = Tried::default();
    for action in next(&world, &tried) {
        world.act(&action).unwrap();
    }
    let actions = next(&world, &tried);
    let [read @ Action::ReadThrough { through, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    // Block 3 lies in the chunk that the bitmap says was written.
    assert_eq!(through.parts, [(3 * 4096, 4 * 4096)]);
    // Again and again until it could be.
    assert_eq!(next(&world, &tried), actions);
    tried.note(read);
    let actions = next(&world, &tried);
    assert!(matches!(actions[..], [Action::StartMirrorFromFast { .. }]));
}

#[test]
fn nothing_is_decided_where_there_is_no_question() {
    for keep in [Keep::Durable, Keep::Fast] {
        let mut world = used();
        assert_eq!(resolve(&mut world, keep), []);
        world.power_cut();
        assert_eq!(resolve(&mut world, keep), []);
    }
}

#[test]
fn a_filesystem_that_cannot_grow_keeps_the_fast_leg_from_nothing() {
    let wanted = "g-durable-grown-and-wanted";
    let situation = situations().into_iter().find(|one| one.name == wanted);
    let Situation {
        spec, mut world, ..
    } = situation.unwrap();
    let mut tried = Tried::default();
    for _ in 0..20 {
        let Decision::Do(actions) = plan(&spec, &node(&world).observe(&spec, &tried)) else {
            panic!("it waits, or is refused");
        };
        if actions.is_empty() {
            assert!(tried.grow_filesystem.is_some(), "it was not to grow");
            let (_, _, fast) = world.mirror().unwrap();
            return assert!(fast.is_some(), "the fast leg was not added");
        }
        for action in actions {
            if let Action::GrowFilesystem { .. } = action {
                assert_eq!(tried.grow_filesystem, None, "it is tried once");
                tried.grow_filesystem = Some("there is an error in it".to_owned());
                break;
            }
            world.act(&action).unwrap();
            tried.note(&action);
        }
    }
    panic!("it does not come to an end");
}
