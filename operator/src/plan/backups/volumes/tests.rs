use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use readstates_agent::wire::{Mode, Node as NodeRow, NodeState, Report, RequestedJob};
use readstates_operator_api::labels;
use serde_json::json;

use super::*;
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, Scene, id, now, scene, super_disk},
    super_disk::{Condition, SuperDiskSeen, WaitingOn},
    world::ClaimSeen,
};

const NODES: [(&str, &str); 3] = [
    ("chat-db-a-0", "a"),
    ("chat-db-b-0", "b"),
    ("chat-db-b-1", "b"),
];

fn owner() -> BackupOwner {
    BackupOwner {
        id: Identity {
            name: "nightly".to_owned(),
            uid: "uid-of-nightly".to_owned(),
            ..id()
        },
        kind: "ReadStateBackup".to_owned(),
        label: labels::BACKUP,
    }
}

/// A cluster at rest, with all that a backup needs.
fn at_rest() -> Scene {
    let mut scene = scene(CASSANDRA).ready_for_cache().running(3);
    for (name, rack) in NODES {
        let record = json!({
            "name": name, "rack": rack, "hostId": format!("id-of-{name}"), "claimUid": format!("claim-of-{name}"),
            "state": "Member", "since": now().to_string(),
        });
        let record = serde_json::from_value(record).unwrap();
        scene.world.records.push(record);
        scene.world.database_pods.push(PodSeen {
            name: name.to_owned(),
            ready: true,
            has_agent: true,
            uid: Some(format!("pod-of-{name}")),
            ..PodSeen::default()
        });
        scene.world.nodes.claims.insert(
            format!("data-{name}"),
            ClaimSeen {
                uid: format!("claim-of-{name}"),
                bound: true,
                copy_of: None,
                restored_from: None,
                size: Default::default(),
            },
        );
        tell(&mut scene, name, None);
    }
    scene
}

/// The node serves, and has been told this flush.
fn tell(scene: &mut Scene, name: &str, flush: Option<RequestedJob>) {
    let host_id = format!("id-of-{name}");
    let own = NodeRow {
        host_id: host_id.clone(),
        address: "10.0.1.1".to_owned(),
        up: true,
        state: NodeState::Normal,
        load_bytes: Some(1),
    };
    let view = View {
        host_id: Some(host_id),
        mode: Mode::Normal,
        progress: None,
        cql: true,
        nodes: vec![own],
        free_bytes: 1,
        age_seconds: 0,
        decommission: None,
        cleans_up: true,
        cleanup: None,
        repairs: true,
        repair: None,
        upgrades: true,
        upgrade: None,
        flushes: true,
        flush: flush.map(Box::new),
    };
    let report = Report {
        pod_uid: format!("pod-of-{name}"),
        identity: None,
        phase: Phase::Running(view),
    };
    let reports = &mut scene.world.nodes.reports;
    reports.insert(name.to_owned(), Seen::Known(report));
}

/// All nodes have flushed for this moment.
fn flushed(scene: &mut Scene, at: Timestamp) {
    for (name, _) in NODES {
        let done = RequestedJob {
            request: format!("backup uid-of-nightly {at}"),
            progress: None,
            job: Job::Done,
        };
        tell(scene, name, Some(done));
    }
}

fn record(flushed: Timestamp, named: &[&str]) -> ReadStateBackupStatus {
    let node = |name: &&str| NodeSnapshot {
        node: format!("pod of {name}"),
        name: (*name).to_owned(),
        content: None,
        taken: None,
    };
    ReadStateBackupStatus {
        flushed: Some(Time(flushed)),
        volume_snapshots: named.iter().map(node).collect(),
        ..ReadStateBackupStatus::default()
    }
}

fn made(name: &str, ready: bool) -> SnapshotSeen {
    SnapshotSeen {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        owner: Some("uid-of-nightly".to_owned()),
        of: Err("not looked at".to_owned()),
        going: false,
        taken: None,
        content: None,
        ready,
        size: None,
        error: None,
    }
}

fn step(
    scene: &Scene,
    before: Option<&ReadStateBackupStatus>,
    snapshots: &[SnapshotSeen],
) -> VolumesStep {
    let seen = ClusterSeen {
        cluster: Ok(&scene.cluster),
        world: Some(&scene.world),
    };
    volumes_step(&owner(), None, before, &seen, snapshots, now())
}

fn blocked(scene: &Scene) -> String {
    match step(scene, None, &[]) {
        VolumesStep::Blocked(obstacle) => obstacle.words,
        other => panic!("{other:?}"),
    }
}

const NAMES: [&str; 3] = ["nightly-a-0", "nightly-b-0", "nightly-b-1"];

#[test]
fn cache_pods_flush_and_then_nodes_and_then_the_volumes_are_copied() {
    let mut scene = at_rest();
    let VolumesStep::FlushCache(pods) = step(&scene, None, &[]) else {
        panic!("cache pods hold changes");
    };
    assert_eq!(pods.len(), 3);

    let at = now() - Duration::from_mins(1);
    let before = record(at, &[]);
    let VolumesStep::FlushNodes { orders, words, .. } = step(&scene, Some(&before), &[]) else {
        panic!("nodes hold changes");
    };
    let told: Vec<_> = orders
        .iter()
        .map(|(pod, order)| (pod.name.as_str(), order))
        .collect();
    assert_eq!(
        told.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        NODES.map(|(name, _)| name)
    );
    assert_eq!(told[0].1.host_id, "id-of-chat-db-a-0");
    assert_eq!(told[0].1.pod_uid, "pod-of-chat-db-a-0");
    assert!(words.contains("chat-db-b-1 is told to flush"), "{words}");

    flushed(&mut scene, at);
    let VolumesStep::Take(wishes) = step(&scene, Some(&before), &[]) else {
        panic!("everything is on the disks");
    };
    let names: Vec<_> = wishes.iter().map(|w| w.snapshot.name_any()).collect();
    assert_eq!(names, NAMES);
    let (metadata, spec) = (&wishes[2].snapshot.metadata, &wishes[2].snapshot.spec);
    let claim = spec.source.persistent_volume_claim_name.as_deref();
    assert_eq!(claim, Some("data-chat-db-b-1"));
    assert_eq!(metadata.labels.as_ref().unwrap()[labels::BACKUP], "nightly");
    let of = &metadata.annotations.as_ref().unwrap()[labels::SNAPSHOT_OF];
    let of: SnapshotOf = serde_json::from_str(of).unwrap();
    assert_eq!((of.rack.as_str(), of.ordinal, of.flushed), ("b", 1, at));
    assert_eq!(of.claim_uid, "claim-of-chat-db-b-1");
}

#[test]
fn a_flush_that_failed_is_told_again_and_one_that_runs_is_waited_for() {
    let mut scene = at_rest();
    let at = now() - Duration::from_mins(1);
    flushed(&mut scene, at);
    for (name, job) in [
        ("chat-db-a-0", Job::Running),
        (
            "chat-db-b-0",
            Job::Failed {
                error: "No space left".to_owned(),
            },
        ),
    ] {
        let job = RequestedJob {
            request: format!("backup uid-of-nightly {at}"),
            progress: None,
            job,
        };
        tell(&mut scene, name, Some(job));
    }
    let VolumesStep::FlushNodes {
        orders,
        words,
        failed,
    } = step(&scene, Some(&record(at, &[])), &[])
    else {
        panic!("not all have flushed");
    };
    let told: Vec<_> = orders.iter().map(|(pod, _)| pod.name.as_str()).collect();
    assert_eq!(told, ["chat-db-b-0"]);
    assert!(failed);
    assert_eq!(
        words,
        "chat-db-a-0 flushes, chat-db-b-0 could not flush: No space left"
    );
}

#[test]
fn an_operator_that_was_killed_goes_on_from_what_is_there() {
    let mut scene = at_rest();
    let at = now() - Duration::from_mins(1);
    flushed(&mut scene, at);
    // Killed before the record of their names: the same ones are made again, which does nothing.
    let step_of = |before: &ReadStateBackupStatus, snapshots: &[SnapshotSeen]| {
        step(&scene, Some(before), snapshots)
    };
    let one = [made(NAMES[0], false)];
    assert!(matches!(step_of(&record(at, &[]), &one), VolumesStep::Take(w) if w.len() == 3));
    // And after it, with some of them made.
    let named = record(at, &NAMES);
    assert!(matches!(step_of(&named, &one), VolumesStep::Take(w) if w.len() == 3));
    let all = NAMES.map(|name| made(name, true));
    let complete = VolumesStep::Complete {
        nodes: 3,
        flushed: at,
    };
    assert_eq!(step_of(&named, &all), complete);
    // Those of others of this label are not looked at.
    let foreign = SnapshotSeen {
        owner: None,
        ..made("nightly-of-yesterday", false)
    };
    let more = [&all[..], &[foreign]].concat();
    assert_eq!(step_of(&named, &more), complete);
}

#[test]
fn snapshots_of_another_moment_are_given_up_and_all_is_done_again() {
    let scene = at_rest();
    let one = [made(NAMES[0], true)];
    let given_up = VolumesStep::StartOver(vec![Named {
        name: NAMES[0].to_owned(),
        uid: "uid-of-nightly-a-0".to_owned(),
    }]);
    let nothing = VolumesStep::StartOver(Vec::new());
    let too_long = Duration::from_mins(16);
    // A clock that was set back since shows a flush that is still to come.
    for at in [now() - too_long, now() + too_long] {
        assert_eq!(step(&scene, Some(&record(at, &[])), &one), given_up);
        assert_eq!(step(&scene, Some(&record(at, &[])), &[]), nothing);
    }
    assert_eq!(step(&scene, None, &one), given_up);
    // On their way out: not made under the same name meanwhile.
    let going = SnapshotSeen {
        going: true,
        ..one[0].clone()
    };
    assert!(matches!(step(&scene, None, &[going]), VolumesStep::Wait(_)));
}

#[test]
fn what_the_storage_system_says_is_told_and_what_is_gone_is_a_failure() {
    let scene = at_rest();
    let at = now() - Duration::from_mins(30);
    let named = record(at, &NAMES);
    let mut all = NAMES.map(|name| made(name, true));
    all[1].ready = false;
    all[1].error = Some("no room".to_owned());
    let words = "VolumeSnapshot nightly-b-0 cannot be restored yet: no room".to_owned();
    assert_eq!(
        step(&scene, Some(&named), &all),
        VolumesStep::Wait(words.clone())
    );
    // The cluster is not needed any more.
    let gone = ClusterSeen {
        cluster: Err(Obstacle::away(Reason::ClusterNotFound, "gone")),
        world: None,
    };
    let of = |at| {
        volumes_step(
            &owner(),
            None,
            Some(&record(at, &NAMES)),
            &gone,
            &all,
            now(),
        )
    };
    assert_eq!(of(at), VolumesStep::Wait(words.clone()));
    assert_eq!(
        of(now() - Duration::from_hours(25)),
        VolumesStep::Failed(words)
    );
    let lost = "VolumeSnapshot nightly-b-1 is gone".to_owned();
    assert_eq!(
        step(&scene, Some(&named), &all[..2]),
        VolumesStep::Failed(lost)
    );
}

#[test]
fn no_volume_is_copied_of_a_database_that_is_not_whole() {
    let changed = |change: fn(&mut Scene)| {
        let mut scene = at_rest();
        change(&mut scene);
        blocked(&scene)
    };
    for (words, said) in [
        (
            "has 2 of 3 nodes",
            changed(|scene| drop(scene.world.records.pop())),
        ),
        (
            "chat-db-a-0 is Replacing",
            changed(|scene| scene.world.records[0].state = DatabaseNodeState::Replacing),
        ),
        (
            "chat-db-a-0 is not ready",
            changed(|scene| scene.world.database_pods[0].ready = false),
        ),
        (
            "chat-db-a-0 was not asked",
            changed(|scene| drop(scene.world.nodes.reports.remove("chat-db-a-0"))),
        ),
        (
            "chat-db-a-0 does not serve",
            changed(|scene| scene.world.records[0].host_id = Some("another".to_owned())),
        ),
        (
            "volume claim data-chat-db-a-0 does not exist",
            changed(|scene| drop(scene.world.nodes.claims.remove("data-chat-db-a-0"))),
        ),
        (
            "is another one than chat-db-a-0 has",
            changed(|scene| scene.world.records[0].claim_uid = Some("former".to_owned())),
        ),
    ] {
        assert!(said.contains(words), "{said}");
    }
    let deaf = {
        let mut scene = at_rest();
        let report = scene.world.nodes.reports.get_mut("chat-db-b-0");
        if let Some(Seen::Known(report)) = report
            && let Phase::Running(view) = &mut report.phase
        {
            view.flushes = false;
        }
        blocked(&scene)
    };
    assert!(deaf.contains("RequiresUpdate"), "{deaf}");
}

#[test]
fn no_volume_is_copied_while_a_cache_pod_may_hold_what_nobody_has_written() {
    let silent = blocked(&at_rest().silent("chat-1"));
    assert!(
        silent.contains("cache pod chat-1 does not answer"),
        "{silent}"
    );
    let gone = blocked(&at_rest().gone("chat-2"));
    assert!(gone.contains("slots are served"), "{gone}");
}

#[test]
fn a_database_of_somebody_else_is_refused() {
    match step(&scene(EXTERNAL), None, &[]) {
        VolumesStep::Blocked(obstacle) => {
            assert!(obstacle.refused && obstacle.words.contains("does not run"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_super_disk_is_copied_while_its_network_disk_has_everything() {
    let mirrored = CASSANDRA.replace(
        "  resources",
        "  superDisk: { localDevices: ['/dev/disk/by-id/google-local-nvme-ssd-*'] }\n  resources",
    );
    let cluster = scene(&mirrored).cluster;
    let with = |seen: Option<SuperDiskSeen>| {
        let mut scene = at_rest();
        scene.cluster = cluster.clone();
        for (name, _) in NODES {
            let disks = &mut scene.world.super_disks;
            seen.clone().map(|seen| disks.insert(name.to_owned(), seen));
        }
        scene
    };
    for condition in [
        Condition::Healthy,
        Condition::FastLost {
            waiting_on: Some(WaitingOn::Step),
        },
    ] {
        let scene = with(Some(super_disk(condition)));
        assert!(matches!(
            step(&scene, None, &[]),
            VolumesStep::FlushCache(_)
        ));
    }
    for seen in [
        None,
        Some(super_disk(Condition::DurableLost {
            frozen: true,
            why: None,
        })),
        Some(SuperDiskSeen::Silent("timed out".to_owned())),
        Some(SuperDiskSeen::Assembling),
    ] {
        let words = blocked(&with(seen));
        assert!(
            words.contains("may not have everything on its network disk"),
            "{words}"
        );
    }
}
