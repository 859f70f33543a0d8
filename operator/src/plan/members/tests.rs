use std::time::Duration;

mod capacity;

use readstates_api::admin::{OwnershipStatus, StreamStatus};

use crate::{
    fixtures::{EMBEDDED, EXTERNAL, Scene, now, process, scene},
    plan::{CachePlan, MemberAction, RingState, WaitingOn, ring_state, served, taken_over},
    world::{Member, RingSeen, SecretSeen},
};

/// A cluster with `replicas` wanted pods whose database is there.
fn chat(replicas: i32) -> Scene {
    let mut scene = if replicas == 1 {
        scene(EMBEDDED)
    } else {
        scene(&EXTERNAL.replace("replicas: 2", &format!("replicas: {replicas}")))
            .schema(crate::world::JobOutcome::Succeeded)
    };
    scene.world.secret = Some(SecretSeen::Complete);
    scene
}

fn cache(scene: &Scene) -> CachePlan {
    scene.plan().cache.expect("the cache may be written")
}

/// The plan in short: replicas, the action, what is waited for.
fn step(scene: &Scene) -> (i32, String, String) {
    let plan = scene.plan();
    let waiting = plan
        .waiting
        .map_or("-".to_owned(), |w| w.reason().to_string());
    let cache = plan.cache.expect("the cache may be written");
    let action = match cache.action {
        None => "-".to_owned(),
        Some(MemberAction::Drain { pod, incarnation }) => {
            format!("drain {} as {incarnation}", pod.name)
        }
        Some(MemberAction::Move { pod, request }) => format!(
            "move {} from {} to {} as {}",
            request.slots.len(),
            pod.name,
            request.destination.name,
            request.destination.incarnation
        ),
        Some(MemberAction::Capacity { pod, states }) => format!("{} keeps {states}", pod.name),
        Some(MemberAction::Grow { pod, memory }) => format!("{} gets {memory}", pod.name),
        Some(MemberAction::Delete { pod }) => format!("delete {} {}", pod.name, pod.uid),
        Some(MemberAction::FlushAndDelete { pod }) => format!("flush and delete {}", pod.name),
    };
    (cache.replicas, action, waiting)
}

fn is(scene: &Scene, replicas: i32, action: &str, waiting: &str) {
    let expected = (replicas, action.to_owned(), waiting.to_owned());
    assert_eq!(step(scene), expected);
}

fn draining(member: &mut Member) {
    member.ownership.draining = true;
}

/// What a member says that has handed on everything.
fn drained(member: &mut Member) {
    draining(member);
    member.dirty = 0;
}

fn drain(ordinal: i32, life: u64) -> String {
    format!("drain chat-{ordinal} as {}", process(ordinal, life))
}

#[test]
fn a_new_cluster_begins_with_an_empty_ring_and_all_its_pods() {
    let scene = chat(3);
    let plan = cache(&scene);
    assert_eq!((plan.ring, plan.replicas, plan.version), (Some(1), 3, None));
    assert_eq!(
        scene.plan().waiting.unwrap().reason().to_string(),
        "CacheNotReady"
    );
}

#[test]
fn a_ring_that_is_there_is_never_made_again() {
    assert_eq!(cache(&chat(3).running(3)).ring, None);
    // The operator stopped before it wrote the StatefulSet.
    is(&chat(3).empty_ring(), 3, "-", "CacheNotReady");
}

#[test]
fn a_cluster_as_wanted_waits_for_nothing() {
    let scene = chat(3).running(3);
    is(&scene, 3, "-", "-");
    assert_eq!(
        ring_state(&scene.cluster, &scene.world, now()).to_string(),
        "ring 4: 3 members own all 1024 slots, none is moving"
    );
    assert_eq!(served(&scene.world), 1024);
}

#[test]
fn slots_without_an_owner_are_for_the_members_to_take() {
    let scene = chat(2).empty_ring().set(2).joined(0, 1).joined(1, 1);
    is(&scene, 2, "-", "SlotsUnowned");
    assert_eq!(served(&scene.world), 0);
}

#[test]
fn more_pods_come_first_and_slots_move_when_the_last_is_ready() {
    let scene = chat(4).running(2);
    is(&scene, 4, "-", "CacheNotReady");
    let scene = scene.set(4).joined(2, 1);
    is(&scene, 4, "-", "CacheNotReady");
    let scene = scene.joined(3, 1);
    let to = process(3, 1);
    is(
        &scene,
        4,
        &format!("move 64 from chat-1 to chat-3 as {to}"),
        "SlotsMoving",
    );
    assert_eq!(
        scene.plan().waiting.unwrap().to_string(),
        "64 of 512 slots are to move from chat-1 to chat-3"
    );
    let Some(MemberAction::Move { request, .. }) = cache(&scene).action else {
        panic!("no move")
    };
    assert_eq!(
        request.destination.url,
        "http://chat-3.chat-members.talk.svc:7400"
    );
    let table = scene.world.ring.table().unwrap();
    for moved in request.slots {
        let slot = readstates_ring::Slot::new(moved.slot).unwrap();
        assert_eq!(table.config(slot).unwrap().epoch().number(), moved.epoch);
    }
}

#[test]
fn the_ring_learns_the_zone_that_kubernetes_says_on_a_pod() {
    let mut scene = chat(5).running(4).set(5).joined(4, 1);
    for (ordinal, zone) in [(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "b")] {
        scene = scene.pod(&format!("chat-{ordinal}"), |p| {
            p.zone = Some(zone.to_owned())
        });
    }
    let Some(MemberAction::Move { request, .. }) = cache(&scene).action else {
        panic!("no move")
    };
    assert_eq!(request.destination.name, "chat-4");
    assert_eq!(request.destination.zone.as_deref(), Some("b"));
}

#[test]
fn a_pod_that_does_not_come_does_not_keep_others_from_their_share_for_ever() {
    let young = chat(4)
        .running(2)
        .set(4)
        .joined(2, 1)
        .joined(3, 1)
        .down("chat-3");
    let young = young.pod("chat-3", |p| {
        p.created = Some(now() - Duration::from_secs(60))
    });
    is(&young, 4, "-", "CacheNotReady");
    let old = young.pod("chat-3", |p| {
        p.created = Some(now() - Duration::from_secs(121))
    });
    let to = process(2, 1);
    is(
        &old,
        4,
        &format!("move 64 from chat-1 to chat-2 as {to}"),
        "SlotsMoving",
    );
}

#[test]
fn one_batch_moves_at_a_time_and_says_how_far_it_is() {
    let stream = |m: &mut Member| {
        m.ownership.streaming = vec![StreamStatus {
            to: "chat-2".to_owned(),
            slots: 43,
        }];
    };
    let scene = chat(3)
        .running(2)
        .set(3)
        .joined(2, 1)
        .says("chat-0", stream);
    is(&scene, 3, "-", "SlotsMoving");
    let words = "moving 43 of 512 slots from chat-0 to chat-2";
    assert_eq!(scene.plan().waiting.unwrap().to_string(), words);
    let state = ring_state(&scene.cluster, &scene.world, now());
    assert_eq!(state.to_string(), words);
}

#[test]
fn slots_that_are_sealed_are_waited_for() {
    let sealed = chat(3)
        .running(3)
        .says("chat-1", |m| m.ownership.sealed = 3);
    assert_eq!(
        sealed.plan().waiting.unwrap().to_string(),
        "3 slots of chat-1 are sealed"
    );
}

#[test]
fn fewer_pods_drain_the_highest_and_take_it_away_only_when_it_holds_nothing() {
    let scene = chat(2).running(4);
    is(&scene, 4, &drain(3, 1), "CacheDraining");

    // Asked, and on its way; also when the operator was killed after it asked.
    let scene = scene.says("chat-3", draining);
    is(&scene, 4, "-", "CacheDraining");
    assert_eq!(
        scene.plan().waiting.unwrap().to_string(),
        "chat-3 hands on what it holds: 256 slots and changes of 2 users are left"
    );
    // Owns nothing, but for a few changes.
    let scene = scene.shared_by(&[(0, 1), (1, 1), (2, 1)]);
    is(&scene, 4, "-", "CacheDraining");
    let scene = scene.says("chat-3", drained);
    is(&scene, 3, "-", "CacheNotReady");

    // And then the next.
    let scene = scene.gone("chat-3").set(3);
    is(&scene, 3, &drain(2, 1), "CacheDraining");
}

#[test]
fn a_pod_goes_only_when_its_own_word_and_the_ring_agree() {
    let empty = |m: &mut Member| {
        drained(m);
        m.ownership.owned = 0;
    };
    // It says that it owns nothing, the ring says otherwise.
    is(
        &chat(2).running(3).says("chat-2", empty),
        3,
        "-",
        "CacheDraining",
    );
    // The ring says so, and it does not answer.
    let handed_on = chat(2).running(3).shared_by(&[(0, 1), (1, 1)]);
    is(&handed_on.silent("chat-2"), 3, "-", "DrainUnproven");
}

#[test]
fn the_proof_is_of_the_process_that_runs() {
    // It was restarted after it was drained: the next process was not asked yet.
    let scene = chat(2).running(3).shared_by(&[(0, 1), (1, 1)]).joined(2, 2);
    is(&scene, 3, &drain(2, 2), "CacheDraining");
}

#[test]
fn a_pod_without_a_process_is_taken_away_when_others_have_its_slots() {
    let scene = chat(2).running(3).down("chat-2");
    is(&scene, 3, "-", "TakeoverPending");
    is(&scene.shared_by(&[(0, 1), (1, 1)]), 2, "-", "CacheNotReady");
    let scene = chat(2).running(3).gone("chat-2");
    is(&scene, 3, "-", "TakeoverPending");
}

#[test]
fn nothing_drains_while_something_moves_or_another_pod_is_missing() {
    let moving = chat(2)
        .running(3)
        .says("chat-0", |m| m.ownership.receiving = 2);
    is(&moving, 3, "-", "SlotsMoving");
    let missing = chat(2).running(3).joined(1, 2).down("chat-1");
    let missing = missing.pod("chat-1", |p| p.created = Some(now()));
    is(&missing, 3, "-", "CacheNotReady");
    // One that will not come does not keep those from leaving that are not wanted.
    let broken = missing.pod("chat-1", |p| {
        p.created = Some(now() - Duration::from_hours(1))
    });
    is(&broken, 3, &drain(2, 1), "CacheDraining");
}

#[test]
fn a_drain_that_has_begun_ends_before_anything_else_does() {
    // More pods are wanted by now: the highest drains on, and is replaced when it is done.
    let scene = chat(3).running(3).says("chat-2", draining);
    is(&scene, 3, "-", "CacheDraining");
    let scene = scene.shared_by(&[(0, 1), (1, 1)]).says("chat-2", drained);
    is(&scene, 3, "delete chat-2 uid-2-1", "CacheNotReady");
    // Fewer are wanted, and it is not the one that goes.
    let scene = chat(2).running(3).says("chat-0", draining);
    is(&scene, 3, "-", "CacheDraining");
    let scene = scene.shared_by(&[(1, 1), (2, 1)]).says("chat-0", drained);
    is(&scene, 3, "delete chat-0 uid-0-1", "CacheNotReady");
    let scene = scene.joined(0, 2);
    is(&scene, 3, &drain(2, 1), "CacheDraining");
}

#[test]
fn another_template_replaces_one_pod_after_another_from_the_highest() {
    let scene = chat(3).running(3).outdated(&["chat-0", "chat-1", "chat-2"]);
    is(&scene, 3, &drain(2, 1), "CacheDraining");
    let scene = scene.says("chat-2", draining);
    is(&scene, 3, "-", "CacheDraining");
    let scene = scene.shared_by(&[(0, 1), (1, 1)]).says("chat-2", drained);
    is(&scene, 3, "delete chat-2 uid-2-1", "CacheNotReady");

    // It stops, comes back, gets its share, and then it is the next one's turn.
    let stopping = scene.pod("chat-2", |p| p.terminating = true);
    is(&stopping, 3, "-", "CacheDraining");
    let scene = stopping.gone("chat-2");
    is(&scene, 3, "-", "CacheNotReady");
    let scene = scene.joined(2, 2);
    let to = process(2, 2);
    is(
        &scene,
        3,
        &format!("move 64 from chat-1 to chat-2 as {to}"),
        "SlotsMoving",
    );
    let scene = scene.shared_by(&[(0, 1), (1, 1), (2, 2)]);
    is(&scene, 3, &drain(1, 1), "CacheDraining");
}

#[test]
fn a_template_that_does_not_start_stops_at_the_first_pod_and_a_newer_one_cures_it() {
    let stuck = chat(3)
        .running(3)
        .outdated(&["chat-0", "chat-1"])
        .shared_by(&[(0, 1), (1, 1)])
        .down("chat-2");
    is(&stuck, 3, "-", "CacheNotReady");
    assert_eq!(
        stuck.plan().waiting.unwrap().to_string(),
        "2 of 3 cache pods are ready (chat-2: readstates: ImagePullBackOff)"
    );
    let cured = stuck.outdated(&["chat-2"]);
    is(&cured, 3, "delete chat-2 uid-2-1", "CacheNotReady");
}

#[test]
fn a_process_that_never_owned_anything_and_does_not_answer_may_go() {
    let scene = chat(3)
        .running(3)
        .outdated(&["chat-2"])
        .silent("chat-2")
        .pod("chat-2", |p| p.ready = false);
    is(&scene, 3, "-", "DrainUnproven");
    let scene = scene.shared_by(&[(0, 1), (1, 1)]);
    is(&scene, 3, "delete chat-2 uid-2-1", "CacheNotReady");
}

#[test]
fn the_only_pod_writes_what_it_holds_and_is_replaced() {
    let scene = chat(1).running(1).outdated(&["chat-0"]);
    is(&scene, 1, "flush and delete chat-0", "CacheDraining");
    let sick = scene.says("chat-0", |m| m.store_problem = Some("disk full".to_owned()));
    is(&sick, 1, "-", "UnsafeToStop");
    assert_eq!(
        sick.plan().waiting.unwrap().to_string(),
        "chat-0 holds changes of 2 users and cannot write them to the database (disk full); its \
         pod goes when it can"
    );
    // With nothing to write there is nothing to lose.
    is(
        &sick.says("chat-0", |m| m.dirty = 0),
        1,
        "flush and delete chat-0",
        "CacheDraining",
    );
}

#[test]
fn a_drained_pod_that_cannot_write_its_last_changes_waits_for_the_database() {
    let scene = chat(2)
        .running(3)
        .shared_by(&[(0, 1), (1, 1)])
        .says("chat-2", draining)
        .says("chat-2", |m| m.store_problem = Some("no host".to_owned()));
    is(&scene, 3, "-", "UnsafeToStop");
}

#[test]
fn what_its_controller_has_not_seen_yet_is_waited_for() {
    let mut scene = chat(3).running(3).outdated(&["chat-0"]);
    scene.world.cache.as_mut().unwrap().observed = false;
    is(&scene, 3, "-", "CacheNotReady");
}

#[test]
fn a_pod_that_somebody_deleted_drains_by_itself() {
    let scene = chat(3)
        .running(3)
        .pod("chat-1", |p| {
            p.terminating = true;
            p.deadline = Some(now() + Duration::from_secs(200));
        })
        .says("chat-1", draining);
    is(&scene, 3, "-", "CacheDraining");
    // Its node is lost: what the others can do, they do.
    let lost = scene
        .silent("chat-1")
        .shared_by(&[(0, 1), (2, 1)])
        .pod("chat-1", |p| {
            p.deadline = Some(now() - Duration::from_secs(61))
        });
    is(&lost, 3, "-", "CacheNotReady");
}

#[test]
fn slots_of_a_process_that_is_gone_are_for_the_others_to_take() {
    let scene = chat(3).running(3).joined(1, 2);
    is(&scene, 3, "-", "TakeoverPending");
    assert_eq!(
        scene.plan().waiting.unwrap().to_string(),
        "341 slots of chat-1, which is gone, are to be taken over by the others"
    );
    assert_eq!(served(&scene.world), 683);
}

#[test]
fn a_ring_that_was_deleted_is_made_again_and_no_pod_stops() {
    let mut scene = chat(3).running(3);
    scene.world.ring = RingSeen::Absent;
    scene.world.last_ring_number = Some(12);
    let plan = cache(&scene);
    assert_eq!((plan.ring, plan.replicas), (Some(13), 3));
    assert_eq!(
        (plan.action, plan.template),
        (None, crate::templates::Template::Wanted)
    );
    assert!(matches!(
        ring_state(&scene.cluster, &scene.world, now()),
        RingState::Changing(readstates_operator_api::conditions::Reason::RingLost, _)
    ));
    let scene = scene.set(0).gone("chat-0").gone("chat-1").gone("chat-2");
    let plan = cache(&scene);
    assert_eq!((plan.ring, plan.replicas), (Some(13), 3));
}

#[test]
fn a_wish_that_was_not_written_yet_is_not_come_true() {
    let mut scene = chat(3).running(3);
    scene.cluster.cache.flush_interval *= 2;
    is(&scene, 3, "-", "CacheNotReady");
}

#[test]
fn a_ring_that_contradicts_itself_is_not_acted_by() {
    let mut scene = chat(2).running(3);
    scene.world.ring = RingSeen::Unreadable("slots.7: no such member".to_owned());
    assert_eq!(scene.plan().cache, None);
    assert_eq!(
        scene.plan().waiting,
        Some(WaitingOn::RingUnreadable {
            why: "slots.7: no such member".to_owned()
        })
    );
}

#[test]
fn a_write_names_the_version_it_was_decided_by() {
    assert_eq!(cache(&chat(2).running(3)).version.as_deref(), Some("7"));
}

#[test]
fn what_was_taken_over_is_counted_over_all_and_unknown_when_one_does_not_say() {
    let took = |m: &mut Member| m.ownership.taken_from_the_dead = 40;
    let scene = chat(3).running(3).says("chat-0", took).says("chat-2", took);
    let slots = |(_, slots)| slots;
    let counts = taken_over(&scene.world).map(|all| all.into_iter().map(slots).collect());
    assert_eq!(counts, Some(vec![40, 40]));
    assert_eq!(taken_over(&scene.silent("chat-1").world), None);
}

#[test]
fn a_member_without_a_lease_is_given_nothing() {
    let lapsed = |m: &mut Member| m.ownership = OwnershipStatus::default();
    let scene = chat(3)
        .running(2)
        .set(3)
        .joined(2, 1)
        .says("chat-2", lapsed);
    is(&scene, 3, "-", "CacheNotReady");
    assert_eq!(
        scene.plan().waiting.unwrap().to_string(),
        "3 of 3 cache pods are ready (chat-2 holds no lease)"
    );
}

/// Pods of the release before, which speak plain HTTP.
fn of_before(mut scene: Scene, names: &[&str]) -> Scene {
    for name in names {
        scene = scene.pod(name, |p| p.mutual_tls = false);
    }
    scene.outdated(names)
}

#[test]
fn pods_of_the_release_before_drain_warm_among_themselves_and_cold_once_one_of_this_release_is_there()
 {
    let old = ["chat-0", "chat-1", "chat-2"];
    let all = of_before(chat(3).running(3), &old);
    is(&all, 3, "drain chat-2 as 00000000000000c9", "CacheDraining");

    // Its place is taken by a pod of this release, which gets nothing from the others yet.
    let one_is_new = || {
        let scene = chat(3).running(3).shared_by(&[(0, 1), (1, 1)]).joined(2, 2);
        of_before(scene, &["chat-0", "chat-1"])
    };
    is(&one_is_new(), 3, "flush and delete chat-1", "DrainingCold");
    let words = one_is_new().plan().waiting.unwrap().to_string();
    assert!(
        words.starts_with("chat-1, of an earlier release, writes changes"),
        "{words}"
    );

    // Nor does one wait for ever that was told to drain by an operator of before.
    let stuck = one_is_new().says("chat-1", draining);
    is(&stuck, 3, "flush and delete chat-1", "DrainingCold");

    // What it cannot write, it keeps.
    let away = one_is_new().says("chat-1", |m| {
        m.store_problem = Some("no host answers".to_owned())
    });
    is(&away, 3, "-", "UnsafeToStop");

    // After the last of them slots are spread, warm.
    let done = chat(3).running(3).shared_by(&[(0, 1), (1, 1)]).joined(2, 2);
    assert!(step(&done).1.starts_with("move "), "{:?}", step(&done));
}
