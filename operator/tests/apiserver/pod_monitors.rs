//! `monitoring`: PodMonitors where Kubernetes knows that kind, and no error where it does not.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use readstates_operator::pod_monitor::PodMonitor;
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::{cluster, running},
    foreign_kinds::{ForeignKind, once_served},
    policy::with_the_charts_rights,
    world::{World, with_world},
};

fn kind_of_prometheus(world: &World) -> ForeignKind {
    ForeignKind::new(world, "monitoring.coreos.com", "PodMonitor", &json!({}))
}

async fn ask(world: &World, monitoring: Value) -> Option<String> {
    let change = Patch::Merge(json!({ "spec": { "monitoring": monitoring } }));
    let clusters = world.api::<ReadStateCluster>();
    let params = PatchParams::default();
    clusters.patch("chat", &params, &change).await.unwrap();
    monitored(world).await
}

async fn monitored(world: &World) -> Option<String> {
    world.reconcile("chat").await.status.unwrap().monitoring
}

#[test]
fn pods_are_monitored_once_there_is_such_a_kind_and_no_more_when_nobody_asks() {
    with_world(async |world| {
        let kind = kind_of_prometheus(&world);
        kind.forget().await;
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        assert_eq!(monitored(&world).await, None);
        let wanted = json!({ "podMonitorLabels": { "release": "prometheus" } });
        let said = ask(&world, wanted).await.unwrap();
        assert!(said.contains("does not know the kind"), "{said}");

        kind.define().await;
        let all = Some("PodMonitors: 2");
        let said = once_served(
            async || monitored(&world).await,
            |said| said.as_deref() == all,
        );
        assert_eq!(said.await.as_deref(), all);
        for name in ["chat", "chat-db"] {
            let made: PodMonitor = world.get(name).await;
            assert_eq!(made.labels()["release"], "prometheus");
        }

        assert_eq!(ask(&world, Value::Null).await, None);
        for name in ["chat", "chat-db"] {
            let left = world.api::<PodMonitor>().get_opt(name).await.unwrap();
            assert_eq!(left, None);
        }
        kind.forget().await;
    });
}

#[test]
fn an_interval_that_is_none_is_refused() {
    with_world(async |world| {
        for interval in ["700m", "0s", "often"] {
            let mut chat = cluster(1);
            chat["spec"]["monitoring"] = json!({ "interval": interval });
            let said = world.create(&chat).await.unwrap_err();
            assert!(said.contains("monitoring.interval"), "{interval}: {said}");
        }
    });
}
