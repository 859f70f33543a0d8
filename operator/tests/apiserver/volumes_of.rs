//! A cluster that starts with the volumes of one of another name and namespace, such as copies from snapshots.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::DeleteParams;
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::cluster,
    database::{at_rest, goes_on, records},
    policy::with_the_charts_rights,
    world::{World, condition, with_world},
};

/// One node, on the volume of the cluster `old` of this namespace.
fn with_volumes_of(namespace: &str) -> Value {
    let mut chat = cluster(1);
    chat["spec"]["database"]["racks"] = json!([{ "name": "a" }]);
    chat["spec"]["database"]["volumesOf"] = json!({ "namespace": namespace, "name": "old" });
    chat
}

async fn name_of_the_database(world: &World) -> Option<String> {
    let set = world.get::<StatefulSet>("chat-db-a").await;
    let containers = set.spec.unwrap().template.spec.unwrap().containers;
    let mut variables = containers
        .into_iter()
        .flat_map(|c| c.env.unwrap_or_default());
    variables
        .find(|variable| variable.name == "CASSANDRA_CLUSTER_NAME")?
        .value
}

#[test]
fn a_cluster_starts_with_the_volumes_of_one_of_another_name_and_namespace_once_that_is_deleted() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        let production = world.another().await;
        let mut old = cluster(1);
        old["metadata"]["name"] = json!("old");
        production.create(&old).await.unwrap();
        {
            let mut ring = world.agents.ring();
            ring.ordered = true;
            let signed = ("id-of-old".to_owned(), "old-db-a-0".to_owned());
            ring.signed.insert("chat-db-a-0".to_owned(), signed);
        }

        world
            .create(&with_volumes_of(&production.namespace))
            .await
            .unwrap();
        for _ in 0..4 {
            world.reconcile("chat").await;
            goes_on(&world).await;
        }
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        let told = format!(
            "node id-of-old of the ReadStateCluster {}/old, which still exists: delete that one first",
            production.namespace
        );
        assert!(
            words.contains("DiskLost") && words.contains(&told),
            "{words}"
        );
        assert!(world.agents.ring().orders.is_empty());
        // The name is on the volumes, and a node starts under no other.
        let name = format!("{}.old", production.namespace);
        assert_eq!(name_of_the_database(&world).await, Some(name));

        let clusters = production.api::<ReadStateCluster>();
        clusters
            .delete("old", &DeleteParams::default())
            .await
            .unwrap();
        for _ in 0..3 {
            world.reconcile("chat").await;
            goes_on(&world).await;
        }
        let chat = at_rest(&world).await;
        assert_eq!(records(&chat), ["chat-db-a-0 Member"]);
        let nodes = &chat.status.as_ref().unwrap().database_nodes;
        assert_eq!(nodes[0].host_id.as_deref(), Some("id-of-old"));
        assert!(condition(&chat, "Degraded").starts_with("False"));
        let orders = world.agents.ring().orders.clone();
        assert_eq!(orders, ["start chat-db-a-0 by 10.0.0.1"]);
    });
}

#[test]
fn the_cluster_whose_volumes_they_are_is_named_from_the_beginning_and_only_for_plain_volumes_of_ours()
 {
    with_world(async |world| {
        let namespace = world.namespace.clone();
        let mut embedded = with_volumes_of(&namespace);
        embedded["spec"]["database"] =
            json!({ "embedded": {}, "volumesOf": { "namespace": namespace, "name": "old" } });
        let mut mirrored = with_volumes_of(&namespace);
        mirrored["spec"]["database"]["superDisk"] =
            json!({ "localDevices": ["/dev/disk/by-id/x*"] });
        let mut misspelt = with_volumes_of(&namespace);
        misspelt["spec"]["database"]["volumesOf"]["name"] = json!("Old");
        for (wrong, words) in [
            (embedded, "valid only with engine"),
            (mirrored, "volumesOf is not possible with superDisk"),
            (misspelt, "volumesOf.name"),
        ] {
            let said = world.create(&wrong).await.unwrap_err();
            assert!(said.contains(words), "{said}");
        }

        world.create(&with_volumes_of(&namespace)).await.unwrap();
        let mut other = with_volumes_of(&namespace);
        other["spec"]["database"]["volumesOf"]["name"] = json!("older");
        let mut own = with_volumes_of(&namespace);
        own["spec"]["database"]
            .as_object_mut()
            .unwrap()
            .remove("volumesOf");
        for change in [other, own] {
            let said = world.replace(change).await.unwrap_err();
            assert!(said.contains("volumesOf cannot change"), "{said}");
        }
    });
}
