//! Moves into the database of another cluster, which the operator runs: who may write it meanwhile, how the cache is
//! handed over, and what a person may do in the middle.

use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, networking::v1::NetworkPolicy};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use readstates_operator_api::{
    HandOver,
    MigrationPhase::{Complete, Copying, Preparing, Refused, Verified, Waiting},
    ReadStateCluster, ReadStateMigration, RestorePhase,
};
use serde_json::{Value, json};

use super::{database, is, migration, said, until_done_but_jobs};
use crate::{
    chat::{change_spec, time_passes, until_done},
    killed::{FAULTS, Mortal},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

/// The move of `chat` into `mail`.
fn into(name: &str) -> Value {
    let mut away = migration(name, "Serve");
    away["spec"]["target"] = json!({ "cluster": "mail" });
    away
}

impl World {
    /// A cluster whose database is up, with its keyspace, and whose cache waits for the move `away`.
    async fn mail(&self) -> ReadStateCluster {
        let mut mail = crate::chat::cluster(2);
        mail["metadata"]["name"] = json!("mail");
        mail["spec"]["restoreFrom"] = json!({ "migration": { "name": "away" } });
        self.create(&mail).await.unwrap();
        for _ in 0..12 {
            let mail = self.reconcile("mail").await;
            if waiting(&mail).as_deref() == Some("RestoreWaiting") {
                return mail;
            }
            Box::pin(time_passes(self)).await;
        }
        panic!("{:?}", self.get::<ReadStateCluster>("mail").await.status);
    }

    /// `chat` on a database of somebody else's, and `mail`.
    async fn both_clusters(&self) -> ReadStateCluster {
        let mail = Box::pin(self.mail()).await;
        Box::pin(self.on_old()).await;
        mail
    }

    /// Cache pods of `chat` write the database of `mail` too.
    async fn write_into_mail(&self) {
        let store = format!("cql://mail-db.{}.svc:9042/readstates", self.namespace);
        let env = json!([{ "name": "READSTATES_MOVING_TO", "value": store }]);
        change_spec(self, json!({ "cache": { "podTemplate": { "env": env } } })).await;
        Box::pin(until_done(self)).await;
    }

    async fn change_mail(&self, spec: Value) -> Result<ReadStateCluster, kube::Error> {
        let change = Patch::Merge(json!({ "spec": spec }));
        let clusters = self.api::<ReadStateCluster>();
        clusters
            .patch("mail", &PatchParams::default(), &change)
            .await
    }

    /// Its cache pods are told to stop, and do.
    async fn chat_stops(&self) {
        change_spec(self, json!({ "stopped": true })).await;
        for _ in 0..4 {
            Box::pin(time_passes(self)).await;
            self.reconcile("chat").await;
        }
    }

    /// What the StatefulSet of this cluster's cache is to have; none: there is none.
    async fn cache_of(&self, cluster: &str) -> Option<i32> {
        let set = self.api::<StatefulSet>().get_opt(cluster).await.unwrap();
        set.map(|set| set.spec.unwrap().replicas.unwrap())
    }

    /// From which clusters the database of `mail` is reached by CQL.
    async fn admitted(&self) -> Vec<String> {
        let policy: NetworkPolicy = self.get("mail-db").await;
        let rules = policy.spec.unwrap().ingress.unwrap();
        let of_cql = rules.into_iter().find(|rule| {
            let ports = serde_json::to_value(&rule.ports).unwrap();
            ports[0]["port"] == json!(9042)
        });
        let peers = of_cql.unwrap().from.unwrap().into_iter();
        let labels = peers.filter_map(|peer| peer.pod_selector?.match_labels);
        let mut clusters: Vec<_> = labels
            .filter_map(|labels| labels.get("readstates.dev/cluster").cloned())
            .collect();
        clusters.dedup();
        clusters
    }

    async fn hand_over_of(&self, name: &str) -> Option<HandOver> {
        let away: ReadStateMigration = self.get(name).await;
        away.status.and_then(|status| status.hand_over)
    }
}

/// Everything until the table has been compared, by looks like this one.
async fn until_compared(world: &World, look: &mut impl AsyncFnMut()) {
    let mail = Box::pin(world.both_clusters()).await;
    let away = world
        .make::<ReadStateMigration>(into("away"))
        .await
        .unwrap();
    look().await;
    let away: ReadStateMigration = world.get(&away.name_any()).await;
    let status = away.status.unwrap();
    is(&status, Preparing);
    let claim = format!("READSTATES_TO_CLAIM={}", mail.uid().unwrap());
    for part in [claim.as_str(), "of Secret mail-db-login"] {
        assert!(status.next_step.contains(part), "{}", status.next_step);
    }
    world.reconcile("mail").await;
    assert_eq!(world.admitted().await, ["mail", "chat"]);

    world.write_into_mail().await;
    look().await;
    look().await;
    let away: ReadStateMigration = world.get("away").await;
    is(&away.status.unwrap(), Copying);
    let job: Job = world.get("away-move").await;
    let pod = job.spec.unwrap().template.spec.unwrap();
    let first: Vec<_> = pod
        .init_containers
        .unwrap()
        .into_iter()
        .map(|c| c.name)
        .collect();
    assert_eq!(first, ["copy"], "the keyspace is made by the other cluster");
    // From now on the other cluster cannot be made to begin empty.
    let mail = world.reconcile("mail").await;
    assert_eq!(waiting(&mail).as_deref(), Some("RestoreRunning"));
    let refused = world.change_mail(json!({ "restoreFrom": null })).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("cannot be removed while"), "{words}");
    world.verify("away-move").await;
    look().await;
    let away: ReadStateMigration = world.get("away").await;
    is(&away.status.unwrap(), Verified);
}

/// A whole move by looks like this one.
async fn moves_into_mail(world: &World, mut look: impl AsyncFnMut()) {
    Box::pin(until_compared(world, &mut look)).await;
    world.reconcile("mail").await;
    assert_eq!(world.cache_of("mail").await, None, "chat serves");

    world.chat_stops().await;
    for _ in 0..4 {
        if world.hand_over_of("away").await == Some(HandOver::Released) {
            break;
        }
        world.reconcile("mail").await;
        assert_eq!(
            world.cache_of("mail").await,
            None,
            "it is not on record yet"
        );
        look().await;
    }
    assert_eq!(world.hand_over_of("away").await, Some(HandOver::Released));
    let mail = world.reconcile("mail").await;
    assert!(condition(&mail, "Restored").starts_with("True Restored: by ReadStateMigration away"));
    world.fleet.serves("mail", world.account("mail"));
    for _ in 0..40 {
        let mail = world.reconcile("mail").await;
        if waiting(&mail).is_none() {
            break;
        }
        Box::pin(time_passes(world)).await;
    }
    look().await;
    let away: ReadStateMigration = world.get("away").await;
    is(&away.status.unwrap(), Complete);
    let mail: ReadStateCluster = world.get("mail").await;
    let status = mail.status.unwrap();
    assert_eq!(status.cache, "2/2");
    let restore = status.restore.unwrap();
    assert_eq!(
        (restore.phase, restore.migration.as_deref(), restore.users),
        (RestorePhase::Restored, Some("away"), Some(4000))
    );
    assert_eq!(
        world.admitted().await,
        ["mail"],
        "chat has nothing to do there any more"
    );
}

#[test]
fn a_table_moves_into_another_cluster_whose_cache_follows_the_one_of_the_source() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        Box::pin(moves_into_mail(&world, async || {
            world.look_at("away").await
        }))
        .await;
        // The first one does not come back beside it, as long as anybody knows of the move.
        change_spec(&world, json!({ "stopped": false })).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("HandedOver"));
        assert_eq!(world.cache_of("chat").await, Some(0));
        let api = world.api::<ReadStateMigration>();
        api.delete("away", &DeleteParams::default()).await.unwrap();
        for _ in 0..3 {
            world.look_at("away").await;
            world.jobs_end().await;
        }
        assert!(api.get_opt("away").await.unwrap().is_none());
        world.reconcile("chat").await;
        assert_eq!(world.cache_of("chat").await, Some(2));
    });
}

#[test]
fn an_operator_that_is_killed_or_suffers_hands_the_cache_over_all_the_same() {
    with_world(async |world| {
        let operators = [None].into_iter().chain(FAULTS.map(Some));
        for fault in operators {
            let world = world.another().await;
            let operator = match fault {
                None => Mortal::new(&world),
                Some(fault) => Mortal::who_suffers(&world, fault),
            };
            let look = async || {
                operator
                    .try_to(async |ctx| world.look_by(ctx, "away").await)
                    .await;
            };
            Box::pin(moves_into_mail(&world, look)).await;
        }
    });
}

#[test]
fn a_source_that_is_started_again_before_the_target_is_released_serves_on() {
    with_world(async |world| {
        let mut look = async || world.look_at("away").await;
        Box::pin(until_compared(&world, &mut look)).await;
        world.chat_stops().await;
        for _ in 0..3 {
            world.look_at("away").await;
            if world.hand_over_of("away").await.is_some() {
                break;
            }
        }
        assert_eq!(world.hand_over_of("away").await, Some(HandOver::Closed));
        // Closed: whoever starts it now finds that it may not.
        change_spec(&world, json!({ "stopped": false })).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("HandedOver"));
        assert_eq!(world.cache_of("chat").await, Some(0));
        // And then it is opened, since it is to run.
        let status = world.moves("away").await;
        is(&status, Verified);
        assert_eq!(status.hand_over, None);
        Box::pin(until_done_but_jobs(&world)).await;
        assert_eq!(world.cache_of("chat").await, Some(2));
        world.reconcile("mail").await;
        assert_eq!(world.cache_of("mail").await, None);
    });
}

#[test]
fn a_target_that_is_deleted_or_stopped_stays_until_the_others_have_left_it() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        Box::pin(world.both_clusters()).await;
        world
            .make::<ReadStateMigration>(into("away"))
            .await
            .unwrap();
        world.write_into_mail().await;
        world.moves("away").await;

        world.change_mail(json!({ "stopped": true })).await.unwrap();
        let mail = world.reconcile("mail").await;
        assert_eq!(waiting(&mail).as_deref(), Some("StillWritten"));
        let rack: StatefulSet = world.get("mail-db-a").await;
        assert_eq!(rack.spec.unwrap().replicas, Some(1));
        let status = world.moves("away").await;
        is(&status, Waiting);
        world
            .change_mail(json!({ "stopped": false }))
            .await
            .unwrap();

        let clusters = world.api::<ReadStateCluster>();
        clusters
            .delete("mail", &DeleteParams::default())
            .await
            .unwrap();
        let mail = world.reconcile("mail").await;
        assert_eq!(waiting(&mail).as_deref(), Some("StillWritten"));
        let status = world.moves("away").await;
        is(&status, Refused);
        let told = said(&status.conditions, "Degraded");
        assert!(told.starts_with("True TargetChanged: "), "{told}");
        assert!(told.contains("take READSTATES_MOVING_TO"), "{told}");

        change_spec(&world, json!({ "cache": { "podTemplate": null } })).await;
        Box::pin(until_done(&world)).await;
        world.reconcile_the_last("mail").await;
        assert!(clusters.get_opt("mail").await.unwrap().is_none());
        is(&world.moves("away").await, Waiting);
    });
}

#[test]
fn what_no_move_into_another_cluster_can_do_is_refused_and_changes_nothing() {
    with_world(async |world| {
        Box::pin(world.both_clusters()).await;
        let told = async |away: Value, reason: &str| {
            let name = away["metadata"]["name"].as_str().unwrap().to_owned();
            world.make::<ReadStateMigration>(away).await.unwrap();
            let status = world.moves(&name).await;
            let told = said(&status.conditions, "Complete");
            assert!(told.starts_with(&format!("False {reason}: ")), "{told}");
            let api = world.api::<ReadStateMigration>();
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        };
        // Its restoreFrom names another one.
        told(into("other"), "ClusterNotReady").await;
        let mut own = into("own");
        own["spec"]["target"] = json!({ "cluster": "chat" });
        told(own, "SameDatabase").await;
        let mut nobody = into("nobody");
        nobody["spec"]["target"] = json!({ "cluster": "nobody" });
        told(nobody, "ClusterNotFound").await;
        // From a database that the operator runs: not with a pause, and not without another cluster.
        let mut stop = into("stop");
        stop["spec"]["cluster"] = json!("mail");
        stop["spec"]["members"] = json!("Stop");
        stop["spec"]["target"] = json!({ "cluster": "chat" });
        told(stop, "MigrationUnsupported").await;
        let mut elsewhere = into("elsewhere");
        elsewhere["spec"]["cluster"] = json!("mail");
        elsewhere["spec"]["target"] = json!({ "external": database("new") });
        told(elsewhere, "MigrationUnsupported").await;
        // One that has served is no place to move to.
        let mut back = into("back");
        back["spec"]["cluster"] = json!("mail");
        back["spec"]["target"] = json!({ "cluster": "chat" });
        told(back, "TargetInUse").await;
        world
            .make::<ReadStateMigration>(into("first"))
            .await
            .unwrap();
        told(into("second"), "TargetInUse").await;
        assert_eq!(world.cache_of("mail").await, None);
        assert!(!world.has_job("back-move").await);
    });
}
