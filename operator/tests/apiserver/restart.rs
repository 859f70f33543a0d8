//! Restarts by request, and the windows that they wait for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, labels};
use serde_json::json;

use crate::{
    chat::{running, until_done},
    database::{at_rest, up, with_members},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

pub(crate) async fn annotate(world: &World, annotation: &str, value: &str) {
    let change = json!({ "metadata": { "annotations": { annotation: value } } });
    let clusters = world.api::<ReadStateCluster>();
    let params = PatchParams::default();
    clusters
        .patch("chat", &params, &Patch::Merge(change))
        .await
        .unwrap();
}

/// The pods of a component: their UIDs by name.
pub(crate) async fn uids(world: &World, component: &str) -> BTreeMap<String, String> {
    let ours = ListParams::default().labels(&format!("{}={component}", labels::COMPONENT));
    let pods = world.api::<Pod>().list(&ours).await.unwrap();
    let uid = |pod: &Pod| (pod.name_any(), pod.uid().unwrap());
    pods.items.iter().map(uid).collect()
}

pub(crate) fn none_is_left(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) {
    assert!(before.keys().eq(after.keys()), "{before:?} {after:?}");
    let left: Vec<_> = before
        .iter()
        .filter(|(name, uid)| after[*name] == **uid)
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn cache_pods_are_restarted_by_an_annotation_each_when_it_has_handed_on_what_it_owns() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 3).await;
        let (cache, database) = (uids(&world, "cache").await, uids(&world, "database").await);
        world.fleet.asked();
        annotate(&world, labels::RESTART_CACHE, "2026-11-24T21:00:00Z").await;
        // On its way to the StatefulSet, and its controller.
        world.reconcile("chat").await;
        world.settle().await;
        let chat = until_done(&world).await;
        none_is_left(&cache, &uids(&world, "cache").await);
        assert_eq!(uids(&world, "database").await, database);
        let asked = world.fleet.asked();
        for pod in ["chat-0", "chat-1", "chat-2"] {
            assert!(asked.contains(&format!("drain {pod}")), "{asked:?}");
        }
        assert!(condition(&chat, "TakenOver").starts_with("False"));

        // The same value, or none, is no other request.
        let cache = uids(&world, "cache").await;
        let gone = json!({ "metadata": { "annotations": { labels::RESTART_CACHE: null } } });
        let clusters = world.api::<ReadStateCluster>();
        let params = PatchParams::default();
        clusters
            .patch("chat", &params, &Patch::Merge(gone))
            .await
            .unwrap();
        world.reconcile("chat").await;
        world.settle().await;
        until_done(&world).await;
        assert_eq!(uids(&world, "cache").await, cache);
    });
}

#[test]
fn database_pods_are_restarted_by_an_annotation_and_the_update_that_waits_is_not_made() {
    with_world(async |mut world| {
        up(&world, &with_members(1, 2)).await;
        world.upgrade();
        at_rest(&world).await;
        let (cache, database) = (uids(&world, "cache").await, uids(&world, "database").await);
        annotate(&world, labels::RESTART_DATABASE, "one").await;
        let mut most = 0;
        for _ in 0..20 {
            world.reconcile("chat").await;
            let before = uids(&world, "database").await;
            crate::database::goes_on(&world).await;
            let after = uids(&world, "database").await;
            let other = before
                .iter()
                .filter(|(name, uid)| after.get(*name) != Some(*uid));
            most = most.max(other.count());
        }
        let chat = at_rest(&world).await;
        none_is_left(&database, &uids(&world, "database").await);
        assert_eq!(most, 1, "one at a time");
        assert_eq!(uids(&world, "cache").await, cache);
        assert!(condition(&chat, "RequiresUpdate").starts_with("True"));
        let ours = ListParams::default().labels(&format!("{}=database", labels::COMPONENT));
        let pods = world.api::<Pod>().list(&ours).await.unwrap();
        let images = pods
            .items
            .iter()
            .flat_map(|pod| pod.spec.as_ref().unwrap().init_containers.iter().flatten());
        assert!(
            images
                .filter_map(|c| c.image.as_deref())
                .all(|image| image != "operator:2")
        );
    });
}

#[test]
fn a_restart_waits_for_its_maintenance_window_which_can_be_opened_once() {
    with_world(async |world| {
        let mut chat = crate::chat::cluster(2);
        // Open for ten minutes, twelve hours from now.
        let later = jiff::Timestamp::now() + std::time::Duration::from_hours(12);
        let start = later.strftime("%H:%M").to_string();
        chat["spec"]["maintenance"] = json!({ "windows": [{ "start": start, "duration": "10m" }] });
        world.create(&chat).await.unwrap();
        until_done(&world).await;
        let (cache, database) = (uids(&world, "cache").await, uids(&world, "database").await);
        annotate(&world, labels::RESTART_CACHE, "one").await;
        annotate(&world, labels::RESTART_DATABASE, "one").await;
        for _ in 0..6 {
            world.reconcile("chat").await;
            crate::chat::time_passes(&world).await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("MaintenancePending"));
        let words = condition(&chat, "Progressing");
        assert!(
            words.contains("when its maintenance window opens, at 20"),
            "{words}"
        );
        assert_eq!(uids(&world, "cache").await, cache);
        assert_eq!(uids(&world, "database").await, database);

        let soon = jiff::Timestamp::now() + std::time::Duration::from_hours(1);
        annotate(&world, labels::OPEN_WINDOW_UNTIL, &soon.to_string()).await;
        until_done(&world).await;
        none_is_left(&cache, &uids(&world, "cache").await);
        none_is_left(&database, &uids(&world, "database").await);
    });
}

#[test]
fn a_window_that_is_none_is_refused() {
    with_world(async |world| {
        for (maintenance, words) in [
            (json!({ "windows": [] }), "should have at least 1 items"),
            (
                json!({ "windows": [{ "start": "2am", "duration": "1h" }] }),
                "start",
            ),
            (
                json!({ "windows": [{ "start": "02:00", "duration": "5m" }] }),
                "between 10m and 24h",
            ),
            (
                json!({ "windows": [{ "start": "02:00", "duration": "1h", "days": ["Caturday"] }] }),
                "Caturday",
            ),
            (json!({ "pace": "25h" }), "between 0s and 24h"),
        ] {
            let mut chat = crate::chat::cluster(1);
            chat["spec"]["maintenance"] = maintenance.clone();
            let said = world.create(&chat).await.unwrap_err();
            assert!(said.contains(words), "{maintenance}: {said}");
        }
    });
}
