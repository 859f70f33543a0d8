use std::time::Duration;

use readstates_operator_api::DatabaseNodeState;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{CASSANDRA, Scene, now, scene},
    plan::SecretsToMake,
    world::{ClaimSeen, SecretSeen},
};

const FLUSHED: &str = "2026-01-01T00:00:00Z";

/// A new cluster that is to begin with the snapshots of its namesake's three nodes.
fn new(more: &str) -> Scene {
    let spec = CASSANDRA.replace("database:\n", &format!("database:\n{more}"));
    let spec = format!("{spec}restoreFrom: {{ volumeSnapshots: {{ backup: nightly }} }}\n");
    let mut scene = scene(&spec);
    let image = scene.managed("a").0.image.clone();
    let all = [("a", 0), ("b", 0), ("b", 1)].map(|(rack, ordinal)| SnapshotSeen {
        name: format!("nightly-{rack}-{ordinal}"),
        uid: format!("uid-{rack}-{ordinal}"),
        owner: None,
        of: Ok(SnapshotOf {
            namespace: scene.cluster.id.namespace.clone(),
            cluster: "chat".to_owned(),
            rack: rack.to_owned(),
            ordinal,
            claim_uid: "claim".to_owned(),
            image: image.clone(),
            flushed: FLUSHED.parse().unwrap(),
        }),
        going: false,
        taken: None,
        content: None,
        ready: true,
        size: Some("2Ti".to_owned()),
        error: None,
    });
    scene.world.restore.snapshots = Some(Ok(all.into()));
    scene
}

fn snapshots(scene: &mut Scene) -> &mut Vec<SnapshotSeen> {
    let seen = scene.world.restore.snapshots.as_mut();
    seen.unwrap().as_mut().unwrap()
}

fn of(snapshot: &mut SnapshotSeen) -> &mut SnapshotOf {
    snapshot.of.as_mut().unwrap()
}

/// Its claims are there.
fn copied(mut scene: Scene) -> Scene {
    for claim in scene.plan().claims_to_make {
        let annotations = claim.metadata.annotations.unwrap();
        let seen = ClaimSeen {
            uid: "claim".to_owned(),
            bound: true,
            copy_of: None,
            restored_from: annotations.get(labels::RESTORED_FROM).cloned(),
            size: Default::default(),
        };
        let name = claim.metadata.name.unwrap();
        scene.world.nodes.claims.insert(name, seen);
    }
    scene
}

fn waits(scene: &Scene) -> String {
    let plan = scene.plan();
    assert!(plan.racks.is_empty(), "a rack would make empty volumes");
    assert!(plan.claims_to_make.is_empty());
    assert_eq!(plan.cache, None);
    plan.waiting.unwrap().to_string()
}

#[test]
fn every_node_gets_a_copy_before_the_first_rack_is_made() {
    let scene = new("");
    let plan = scene.plan();
    assert!(plan.racks.is_empty() && plan.acts());
    let names: Vec<_> = plan
        .claims_to_make
        .iter()
        .map(|claim| claim.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(
        names,
        ["data-chat-db-a-0", "data-chat-db-b-0", "data-chat-db-b-1"]
    );
    let claim = serde_json::to_value(&plan.claims_to_make[2]).unwrap();
    assert_eq!(claim["spec"]["dataSource"]["name"], "nightly-b-1");
    // More than the spec asks for, since the copy needs it.
    assert_eq!(
        claim["spec"]["resources"]["requests"],
        json!({ "storage": "2Ti" })
    );
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert_eq!(claim["metadata"]["labels"][labels::RACK], "b");
    assert_eq!(claim["metadata"]["ownerReferences"], json!(null));
    let copy_of = |claim: &Value| claim["metadata"]["annotations"][labels::COPY_OF].clone();
    assert_eq!(copy_of(&claim), json!(null));
    let mirrored =
        new("  superDisk: { localDevices: ['/dev/disk/by-id/google-local-nvme-ssd-*'] }\n");
    let claim = serde_json::to_value(&mirrored.plan().claims_to_make[0]).unwrap();
    assert_eq!(copy_of(&claim), "claim");
    assert_eq!(claim["spec"]["volumeMode"], "Block");

    let scene = copied(scene);
    let plan = scene.plan();
    assert_eq!(plan.racks.len(), 1);
    assert!(plan.claims_to_make.is_empty());
}

#[test]
fn the_cache_starts_once_the_database_has_its_keyspace_and_that_is_on_record() {
    let mut scene = copied(new("")).ready_for_cache();
    scene.world.records = vec![
        serde_json::from_value(json!({
            "name": "chat-db-a-0", "rack": "a", "state": DatabaseNodeState::Member, "since": FLUSHED,
        }))
        .unwrap(),
    ];
    let plan = scene.plan();
    let RestoreState::Done(made) = plan.restore.state else {
        panic!("{:?}", plan.restore.state);
    };
    assert_eq!(plan.cache, None, "it is not on record");
    assert_eq!(made.backup.as_deref(), Some("nightly"));
    assert_eq!(made.backed_up, Some(Time(FLUSHED.parse().unwrap())));
    assert_eq!(made.restored, Some(Time(now())));
    scene.world.restore.record = Some(made);
    let plan = scene.plan();
    assert!(plan.cache.is_some());
    // Never again, whatever becomes of its claims.
    scene.world.nodes.claims.clear();
    assert!(scene.plan().claims_to_make.is_empty());
}

#[test]
fn a_cluster_that_is_created_again_needs_its_snapshots_no_more() {
    let mut scene = copied(new(""));
    snapshots(&mut scene).clear();
    assert_eq!(scene.plan().racks.len(), 1);
    let claims = &mut scene.world.nodes.claims;
    claims.get_mut("data-chat-db-a-0").unwrap().restored_from = None;
    assert!(waits(&scene).contains("there is no VolumeSnapshot"));
}

#[test]
fn a_database_that_has_begun_gets_no_copies() {
    let mut scene = new("");
    scene.world.records = vec![
        serde_json::from_value(json!({
            "name": "chat-db-a-0", "rack": "a", "state": DatabaseNodeState::Joining, "since": FLUSHED,
        }))
        .unwrap(),
    ];
    assert!(scene.plan().claims_to_make.is_empty());
    assert!(new("").rack("a", 0).plan().claims_to_make.is_empty());
}

#[test]
fn passwords_are_those_in_the_copies_and_no_others_are_made() {
    let mut scene = new("");
    scene.world.superuser = Some(SecretSeen::Absent);
    let plan = scene.plan();
    assert_eq!(plan.secrets, SecretsToMake::default());
    let mut scene = copied(scene).database_ready();
    scene.world.superuser = Some(SecretSeen::Absent);
    let waiting = scene.plan().waiting.unwrap().to_string();
    assert!(waiting.contains("chat-db-superuser"), "{waiting}");
}

#[test]
fn nothing_begins_until_there_is_one_good_snapshot_of_each_node_and_no_other() {
    let changed = |change: fn(&mut Vec<SnapshotSeen>)| {
        let mut scene = new("");
        change(snapshots(&mut scene));
        waits(&scene)
    };
    for (words, said) in [
        ("there is no VolumeSnapshot", changed(Vec::clear)),
        (
            "there are 0 VolumeSnapshots of node 0 of rack a",
            changed(|all| drop(all.remove(0))),
        ),
        (
            "there are 2 VolumeSnapshots of node 1 of rack b",
            changed(|all| all.push(all[2].clone())),
        ),
        (
            "is of node 7 of rack b, which spec.database.racks does not have",
            changed(|all| of(&mut all[1]).ordinal = 7),
        ),
        (
            "nightly-b-0 cannot be restored yet: no room",
            changed(|all| {
                all[1].ready = false;
                all[1].error = Some("no room".to_owned());
            }),
        ),
        (
            "nightly-b-0 is being deleted",
            changed(|all| all[1].going = true),
        ),
        (
            "nightly-b-0 cannot be restored: it has no annotation",
            changed(|all| all[1].of = Err("it has no annotation".to_owned())),
        ),
        (
            "nightly-a-0 and nightly-b-1 are not of one backup",
            changed(|all| of(&mut all[2]).flushed += Duration::from_secs(1)),
        ),
        (
            "is of a database of cassandra:3.11.1",
            changed(|all| {
                for one in all {
                    of(one).image = "cassandra:3.11.1".to_owned();
                }
            }),
        ),
        (
            "set spec.database.volumesOf to {namespace: prod, name: chat}",
            changed(|all| {
                for one in all {
                    of(one).namespace = "prod".to_owned();
                }
            }),
        ),
    ] {
        assert!(said.contains(words), "{said}");
    }
    let mut scene = new("");
    scene.world.restore.snapshots = Some(Err("no such kind".to_owned()));
    assert!(waits(&scene).contains("no such kind"));
}

#[test]
fn a_claim_that_is_there_is_not_taken_for_a_copy() {
    let mut scene = copied(new(""));
    let claim = scene
        .world
        .nodes
        .claims
        .get_mut("data-chat-db-b-0")
        .unwrap();
    claim.restored_from = Some("uid-of-another".to_owned());
    let said = waits(&scene);
    assert!(
        said.contains("volume claim data-chat-db-b-0 is there"),
        "{said}"
    );
}

#[test]
fn the_snapshots_of_a_cluster_of_another_name_are_copied_where_the_spec_names_it() {
    let mut scene = new("  volumesOf: { namespace: prod, name: old }\n");
    for one in snapshots(&mut scene) {
        (of(one).namespace, of(one).cluster) = ("prod".to_owned(), "old".to_owned());
    }
    assert_eq!(scene.plan().claims_to_make.len(), 3);
}
