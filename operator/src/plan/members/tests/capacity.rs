//! `spec.cache.capacityStates`: told to processes, and pods replaced only for memory that they lack.

use super::{chat, is};
use crate::{
    fixtures::{Scene, now},
    plan::WaitingOn,
    templates::{self, Template},
    world::Growth,
};

const MIB: u64 = 1 << 20;

fn spec(states: i64) -> String {
    let cache = format!("replicas: 3\ncache: {{ capacityStates: {states} }}");
    crate::fixtures::EXTERNAL.replace("replicas: 2", &cache)
}

/// Three pods made for the capacity `from`, on a StatefulSet for `to`.
fn changed(from: i64, to: i64) -> Scene {
    let before = crate::fixtures::cluster(&spec(from));
    let mut scene = chat(3);
    scene.cluster = before.clone();
    scene = scene.schema(crate::world::JobOutcome::Succeeded).running(3);
    let of = |cluster: &_| {
        let set = templates::cache(cluster, 3, &Template::Wanted, None);
        set.spec.unwrap().template
    };
    let had = of(&before);
    let memory = templates::cache_memory(had.spec.as_ref().unwrap());
    let annotations = had.metadata.unwrap().annotations.unwrap();
    for pod in ["chat-0", "chat-1", "chat-2"] {
        scene = scene.pod(pod, |pod| {
            pod.replace_hash = annotations.get("readstates.dev/replace-hash").cloned();
            pod.memory = memory;
        });
    }
    scene.cluster = crate::fixtures::cluster(&spec(to));
    scene = scene.schema(crate::world::JobOutcome::Succeeded).set(3);
    let set = scene.world.cache.as_mut().unwrap();
    set.template = Some(Box::new(of(&scene.cluster)));
    scene.outdated(&["chat-0", "chat-1", "chat-2"])
}

fn told(scene: Scene, pods: &[&str], states: i64) -> Scene {
    let told = |scene: Scene, pod: &&str| scene.says(pod, |member| member.capacity = states);
    pods.iter().fold(scene, told)
}

#[test]
fn a_smaller_capacity_is_told_to_each_process_and_no_pod_is_replaced() {
    let scene = changed(8_000_000, 4_000_000);
    is(&scene, 3, "chat-0 keeps 4000000", "CapacityChanging");
    assert_eq!(
        scene.plan().waiting,
        Some(WaitingOn::Capacity {
            member: "chat-0".to_owned(),
            from: 8_000_000,
            to: 4_000_000,
        })
    );
    let scene = told(scene, &["chat-0", "chat-1"], 4_000_000);
    is(&scene, 3, "chat-2 keeps 4000000", "CapacityChanging");
    is(&told(scene, &["chat-2"], 4_000_000), 3, "-", "-");
}

#[test]
fn pods_are_replaced_for_memory_that_they_lack() {
    let scene = changed(4_000_000, 8_000_000);
    let (_, action, _) = super::step(&scene);
    assert!(action.starts_with("drain chat-2"), "{action}");
    // One that has it, as after a capacity that was taken back, is told.
    let scene = scene.pod("chat-0", |pod| pod.memory = Some(1024 * MIB));
    is(&scene, 3, "chat-0 keeps 8000000", "CapacityChanging");
}

#[test]
fn a_process_that_began_anew_in_an_older_pod_is_told_again() {
    let scene = told(
        changed(8_000_000, 4_000_000),
        &["chat-0", "chat-1", "chat-2"],
        4_000_000,
    );
    let scene = scene.says("chat-1", |member| member.capacity = 8_000_000);
    is(&scene, 3, "chat-1 keeps 4000000", "CapacityChanging");
}

#[test]
fn what_else_changes_replaces_pods_and_a_restart_does_too() {
    let all = ["chat-0", "chat-1", "chat-2"];
    let mut scene = told(changed(8_000_000, 4_000_000), &all, 4_000_000);
    let template = scene
        .world
        .cache
        .as_mut()
        .unwrap()
        .template
        .as_mut()
        .unwrap();
    let annotations = template
        .metadata
        .as_mut()
        .unwrap()
        .annotations
        .as_mut()
        .unwrap();
    annotations.insert("readstates.dev/restarted".to_owned(), "now".to_owned());
    let (_, action, _) = super::step(&scene);
    assert!(action.starts_with("drain chat-2"), "{action}");

    // A pod of the release before does not say what it was made for.
    let scene = told(changed(8_000_000, 4_000_000), &all, 4_000_000);
    let scene = scene.pod("chat-1", |pod| pod.replace_hash = None);
    let (_, action, _) = super::step(&scene);
    assert!(action.starts_with("drain chat-1"), "{action}");
}

/// Three pods that lack memory for a larger capacity, of which this is known.
fn lacking(growth: &Growth) -> Scene {
    let lacks = |scene: Scene, pod: &&str| scene.pod(pod, |pod| pod.growth = Some(growth.clone()));
    let pods = ["chat-0", "chat-1", "chat-2"];
    pods.iter().fold(changed(4_000_000, 8_000_000), lacks)
}

fn asked(minutes_ago: i64, words: Option<&str>) -> Growth {
    Growth::Asked {
        since: Some(now() - jiff::SignedDuration::from_mins(minutes_ago)),
        words: words.map(str::to_owned),
    }
}

#[test]
fn memory_comes_before_the_states_and_no_pod_is_replaced_for_it() {
    let scene = lacking(&Growth::Possible);
    let memory = 494 * MIB;
    is(
        &scene,
        3,
        &format!("chat-0 gets {memory}"),
        "CapacityChanging",
    );
    let scene = scene.pod("chat-0", |pod| pod.growth = Some(asked(0, None)));
    is(
        &scene,
        3,
        &format!("chat-1 gets {memory}"),
        "CapacityChanging",
    );
    let given = scene.pod("chat-0", |pod| {
        (pod.growth, pod.memory) = (None, Some(memory));
    });
    is(&given, 3, "chat-0 keeps 8000000", "CapacityChanging");
}

#[test]
fn a_node_may_take_a_while_to_give_memory_and_says_why() {
    let waiting = |growth: &Growth| {
        let scene = lacking(growth);
        is(&scene, 3, "-", "CapacityChanging");
        scene.plan().waiting.unwrap().to_string()
    };
    assert_eq!(
        waiting(&asked(4, Some("Deferred: no room"))),
        "chat-0 is given 494 MiB of memory while it runs (Deferred: no room)"
    );
    // Neither a yes nor a no: nothing is stopped for it.
    let quota = Growth::NotNow("exceeded quota: talk".to_owned());
    assert_eq!(
        waiting(&quota),
        "chat-0 is given 494 MiB of memory while it runs (exceeded quota: talk)"
    );
}

#[test]
fn a_pod_is_replaced_for_memory_that_it_was_refused_or_not_given_in_time() {
    for growth in [
        Growth::Refused("the server could not find the requested resource".to_owned()),
        asked(6, None),
        Growth::Asked {
            since: None,
            words: None,
        },
    ] {
        let (_, action, _) = super::step(&lacking(&growth));
        assert!(action.starts_with("drain chat-2"), "{growth:?}: {action}");
    }
}

#[test]
fn no_pod_gets_memory_for_a_capacity_that_its_statefulset_does_not_have_yet() {
    let mut scene = lacking(&Growth::Possible);
    scene.cluster = crate::fixtures::cluster(&spec(16_000_000));
    let (_, action, _) = super::step(&scene);
    assert_eq!(action, "-");
    // Nor for one that was taken back.
    scene.cluster = crate::fixtures::cluster(&spec(2_000_000));
    let (_, action, _) = super::step(&scene);
    assert_eq!(action, "chat-0 keeps 2000000");
    let scene = told(scene, &["chat-0", "chat-1", "chat-2"], 2_000_000);
    let (_, action, _) = super::step(&scene);
    assert_eq!(action, "-");
}
