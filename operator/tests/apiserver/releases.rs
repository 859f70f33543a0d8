//! Another release of the database: what a user sees who asks for one, for one that cannot follow, and for the former one
//! again.

use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::{
    DatabaseUpgrade, DatabaseUpgradeStage, ReadStateCluster, labels::RELEASE_SNAPSHOT,
};
use serde_json::{Value, json};

use crate::{
    database::{at_rest, goes_on, up, with_members},
    invariants::nothing_broken,
    killed::Mortal,
    restart::annotate,
    world::{World, condition, waiting, with_world},
};

fn with(tag: &str) -> Value {
    let mut members = with_members(1, 2);
    members["spec"]["database"]["image"] = json!(format!("cassandra:{tag}"));
    members
}

fn upgrade(chat: &ReadStateCluster) -> Option<&DatabaseUpgrade> {
    chat.status.as_ref().unwrap().database_upgrade.as_ref()
}

fn orders(world: &World) -> Vec<String> {
    let orders = world.agents.ring().orders.clone();
    let of_upgrades = |order: &String| !order.starts_with("start");
    orders.into_iter().filter(of_upgrades).collect()
}

/// The images of the database pods, by name of the pod.
async fn tags(world: &World) -> Vec<String> {
    let pods = world.api::<Pod>().list(&ListParams::default()).await;
    let pods = pods.unwrap().items.into_iter();
    let of_database = pods.filter(|pod| pod.name_any().contains("-db-"));
    let image = |pod: Pod| pod.spec.unwrap().containers[0].image.clone().unwrap();
    let tag = |pod: Pod| image(pod).trim_start_matches("cassandra:").to_owned();
    of_database.map(tag).collect()
}

/// Goes on until this is so.
async fn until(world: &World, so: impl AsyncFn(&ReadStateCluster) -> bool) -> ReadStateCluster {
    for _ in 0..60 {
        let chat = world.reconcile("chat").await;
        if so(&chat).await {
            return chat;
        }
        Box::pin(goes_on(world)).await;
    }
    let status = world.reconcile("chat").await.status;
    panic!("{:?}: {status:?}", orders(world));
}

/// The same by operators that are killed at every write.
async fn until_killed(
    world: &World,
    operator: &Mortal,
    so: impl Fn(&ReadStateCluster, &[String]) -> bool,
) {
    for _ in 0..60 {
        operator.reconcile(world).await;
        nothing_broken(world).await;
        let chat = world.get::<ReadStateCluster>("chat").await;
        if so(&chat, &tags(world).await) {
            return;
        }
        Box::pin(goes_on(world)).await;
    }
    let status = world.reconcile("chat").await.status;
    panic!("{:?}: {status:?}", orders(world));
}

const PODS: [&str; 3] = ["chat-db-a-0", "chat-db-b-0", "chat-db-b-1"];

fn each(does: &str) -> Vec<String> {
    PODS.iter().map(|pod| format!("{does} {pod}")).collect()
}

#[test]
fn another_release_is_installed_once_every_node_has_a_snapshot_and_while_all_agree_on_the_schema() {
    with_world(async |world| {
        up(&world, &with("5.0.8")).await;
        world.replace(with("5.0.9")).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "DatabaseUpgrading");
        let words = condition(&chat, "Progressing");
        let turn = "now chat-db-a-0: it is its turn to take a snapshot";
        assert!(words.contains(turn), "{words}");
        assert_eq!(orders(&world), [""; 0]);

        let restarts = DatabaseUpgradeStage::Restarting;
        let stage = async |chat: &ReadStateCluster| upgrade(chat).unwrap().stage == restarts;
        let chat = until(&world, stage).await;
        let now = upgrade(&chat).unwrap();
        assert_eq!(
            (now.from.as_str(), now.to.as_str()),
            ("cassandra:5.0.8", "cassandra:5.0.9")
        );
        let kept = PODS.map(|pod| format!("{} of {pod}", now.snapshot));
        assert_eq!(world.agents.ring().snapshots, kept.into());
        assert_eq!(orders(&world), each("snapshot"));
        assert_eq!(tags(&world).await, ["5.0.8"; 3]);

        world.agents.ring().disagrees = true;
        let says_so = async |chat: &ReadStateCluster| {
            condition(chat, "Progressing").contains("the nodes do not agree on the schema: v1, v2")
        };
        until(&world, says_so).await;
        for _ in 0..5 {
            goes_on(&world).await;
            world.reconcile("chat").await;
        }
        assert_eq!(tags(&world).await, ["5.0.8"; 3]);
        world.agents.ring().disagrees = false;

        let chat = at_rest(&world).await;
        assert_eq!(tags(&world).await, ["5.0.9"; 3]);
        let course = ["snapshot", "rewrite", "release"].map(each);
        assert_eq!(orders(&world), course.concat());
        assert!(world.agents.ring().snapshots.is_empty());
        assert_eq!(upgrade(&chat), None);
    });
}

#[test]
fn a_user_who_goes_back_in_the_middle_keeps_the_snapshots_until_they_let_them_go() {
    with_world(async |world| {
        up(&world, &with("5.0.8")).await;
        world.replace(with("5.0.9")).await.unwrap();
        let one = async |_: &ReadStateCluster| tags(&world).await.contains(&"5.0.9".to_owned());
        until(&world, one).await;
        world.replace(with("5.0.8")).await.unwrap();
        let went_back = async |chat: &ReadStateCluster| {
            let stage = upgrade(chat).map(|upgrade| upgrade.stage);
            waiting(chat).is_none() && stage == Some(DatabaseUpgradeStage::WentBack)
        };
        let chat = until(&world, went_back).await;
        assert_eq!(tags(&world).await, ["5.0.8"; 3]);
        assert_eq!(world.agents.ring().snapshots.len(), 3);
        assert!(condition(&chat, "Degraded").starts_with("False"));

        let name = upgrade(&chat).unwrap().snapshot.clone();
        annotate(&world, RELEASE_SNAPSHOT, &name).await;
        let gone = async |chat: &ReadStateCluster| upgrade(chat).is_none();
        until(&world, gone).await;
        assert!(world.agents.ring().snapshots.is_empty());
    });
}

#[test]
fn a_release_that_cannot_follow_is_refused_and_nothing_is_begun() {
    with_world(async |world| {
        up(&world, &with("5.0.9")).await;
        for tag in ["4.1.9", "7.0.1"] {
            world.replace(with(tag)).await.unwrap();
            let chat = world.reconcile("chat").await;
            let words = condition(&chat, "Degraded");
            assert!(words.starts_with("True EngineVersionRefused"), "{words}");
            goes_on(&world).await;
            let chat = world.reconcile("chat").await;
            assert_eq!(upgrade(&chat), None);
        }
        assert_eq!(orders(&world), [""; 0]);
        assert_eq!(tags(&world).await, ["5.0.9"; 3]);
    });
}

#[test]
fn a_release_goes_forward_and_back_under_operators_that_are_killed_at_every_write() {
    with_world(async |world| {
        up(&world, &with("5.0.8")).await;
        let operator = Mortal::new(&world);
        world.replace(with("5.0.9")).await.unwrap();
        let first = |_: &ReadStateCluster, tags: &[String]| tags.contains(&"5.0.9".to_owned());
        until_killed(&world, &operator, first).await;
        assert_eq!(world.agents.ring().snapshots.len(), 3);

        world.replace(with("5.0.8")).await.unwrap();
        let back = |chat: &ReadStateCluster, tags: &[String]| {
            assert_eq!(world.agents.ring().snapshots.len(), 3);
            let stage = upgrade(chat).map(|upgrade| upgrade.stage);
            *tags == ["5.0.8"; 3] && stage == Some(DatabaseUpgradeStage::WentBack)
        };
        until_killed(&world, &operator, back).await;

        // Forward again: snapshots of its own, and none is left at the end.
        world.replace(with("5.0.9")).await.unwrap();
        let forward = |chat: &ReadStateCluster, tags: &[String]| {
            *tags == ["5.0.9"; 3] && upgrade(chat).is_none()
        };
        until_killed(&world, &operator, forward).await;
        assert!(world.agents.ring().snapshots.is_empty());
    });
}

#[test]
fn a_rack_asked_for_with_another_release_or_in_the_middle_of_one_joins_with_the_one_that_runs() {
    with_world(async |world| {
        let three = |tag| {
            let mut chat = with(tag);
            let racks = chat["spec"]["database"]["racks"].as_array_mut().unwrap();
            racks.push(json!({ "name": "c", "members": 1 }));
            chat
        };
        let of_c = async |_: &ReadStateCluster| {
            let pod = world.api::<Pod>().get_opt("chat-db-c-0").await.unwrap();
            pod.is_some()
        };
        up(&world, &with("5.0.8")).await;
        world.replace(three("5.0.9")).await.unwrap();
        until(&world, of_c).await;
        assert_eq!(tags(&world).await, ["5.0.8"; 4]);
        at_rest(&world).await;
        assert_eq!(tags(&world).await, ["5.0.9"; 4]);
        assert!(world.agents.ring().snapshots.is_empty());

        let world = world.another().await;
        up(&world, &with("5.0.8")).await;
        world.replace(with("5.0.9")).await.unwrap();
        let one = async |_: &ReadStateCluster| tags(&world).await.contains(&"5.0.9".to_owned());
        until(&world, one).await;
        world.replace(three("5.0.9")).await.unwrap();
        at_rest(&world).await;
        assert_eq!(tags(&world).await, ["5.0.9"; 4]);
    });
}
