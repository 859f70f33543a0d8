//! What moves of tables mean to a cluster itself: that it has handed its table over, that one moves here, that pods of
//! another cluster write its database. Each is looked for only where it would change what is done next.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
};
use readstates_operator_api::{
    HandOver, ReadStateCluster, ReadStateMigration, RestorePhase, RestoreStatus,
    labels::{CLUSTER, COMPONENT, Component},
};

use super::{
    backups,
    migration::member,
    stored::{read, stored},
};
use crate::{
    error::Error,
    spec::Identity,
    validate::same_store,
    world::{HandedOver, MemberStores, MoveIn, MoveInStage, Seen, StatefulSetSeen},
};

/// The move that has handed this cluster's table over, if it is about to start cache pods; unknown where it cannot be
/// told whether there is one.
pub(super) async fn handed_over(
    client: &Client,
    id: &Identity,
    cluster: &ReadStateCluster,
    cache: Option<&StatefulSetSeen>,
) -> Result<Option<Seen<HandedOver>>, Error> {
    let starts = !cluster.spec.stopped && cache.is_none_or(|set| set.replicas == 0);
    if !starts {
        return Ok(None);
    }
    let all = ListParams::default();
    match stored::<ReadStateMigration>(client, &id.namespace, &all).await {
        Ok(found) => Ok(away_by(found, &id.name)),
        // Of a release before there were moves, nothing was handed over.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Some(Seen::Unknown(format!(
            "the operator may not list ReadStateMigrations ({}); install its chart of this release",
            status.message
        )))),
        Err(source) => {
            let what = "the ReadStateMigrations".to_owned();
            Err(Error::Read { what, source })
        }
    }
}

/// By one of these. One that this operator cannot read, such as one written for a later release, may have done so,
/// unless it names another cluster.
fn away_by(found: Vec<DynamicObject>, cluster: &str) -> Option<Seen<HandedOver>> {
    let mut unreadable = None;
    for object in found {
        let name = object.name_any();
        let of_another = object.data["spec"]["cluster"]
            .as_str()
            .is_some_and(|named| named != cluster);
        if of_another {
            continue;
        }
        match read(&object) {
            Ok(migration) => {
                if let Some(gone) = away(&migration, cluster) {
                    return Some(Seen::Known(gone));
                }
            }
            Err(error) => {
                unreadable.get_or_insert(Seen::Unknown(format!(
                    "ReadStateMigration {name} cannot be read ({error}); was it written for a later release?"
                )));
            }
        }
    }
    unreadable
}

fn away(migration: &ReadStateMigration, cluster: &str) -> Option<HandedOver> {
    let stage = migration.status.as_ref().and_then(|s| s.hand_over);
    let is_over = migration.spec.cluster == cluster
        && matches!(stage, Some(HandOver::Closed | HandOver::Released));
    let to = migration.spec.target.cluster.clone()?;
    is_over.then(|| HandedOver {
        migration: migration.name_any(),
        to,
    })
}

/// Cache pods of other clusters that write this one's database, if that is about to stop or to go.
pub(super) async fn writers(
    client: &Client,
    id: &Identity,
    cluster: &ReadStateCluster,
    racks: &BTreeMap<String, StatefulSetSeen>,
) -> Result<Vec<String>, Error> {
    let ends = cluster.spec.stopped || cluster.metadata.deletion_timestamp.is_some();
    let runs = racks.values().any(|set| set.replicas > 0);
    let made = cluster.status.as_ref().and_then(|s| s.schema.as_ref());
    let Some(store) = made.map(|made| &made.store).filter(|_| ends && runs) else {
        return Ok(Vec::new());
    };
    let caches = format!("{COMPONENT}={}", Component::Cache.as_str());
    let pods: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
    let found = pods.list(&ListParams::default().labels(&caches)).await;
    let found = found.map_err(|source| Error::Read {
        what: "the cache pods of other clusters".to_owned(),
        source,
    })?;
    let of_others = |pod: &&Pod| pod.labels().get(CLUSTER) != Some(&id.name);
    let writes = |stores: &MemberStores| {
        let to = stores.moving_to.as_ref();
        to.is_some_and(|to| same_store(to, store))
    };
    let others = found.items.iter().filter(of_others);
    let runs = others.filter(|pod| !super::migration::has_ended(pod));
    let mut names: Vec<_> = runs.map(member).filter(writes).map(|m| m.name).collect();
    names.sort();
    Ok(names)
}

/// The move of this name into this cluster.
pub(super) async fn move_in(client: &Client, id: &Identity, name: &str) -> Result<MoveIn, Error> {
    let found = backups::owner::<ReadStateMigration>(client, &id.namespace, name).await?;
    Ok(match found {
        Some(migration) => stage(&migration, id),
        None => MoveIn {
            from: None,
            stage: MoveInStage::Waiting(format!(
                "there is no ReadStateMigration {name} in this namespace"
            )),
        },
    })
}

fn stage(migration: &ReadStateMigration, id: &Identity) -> MoveIn {
    let name = migration.name_any();
    if migration.spec.target.cluster.as_ref() != Some(&id.name) {
        let words = format!("ReadStateMigration {name} moves no table to this cluster");
        return MoveIn {
            from: None,
            stage: MoveInStage::Waiting(words),
        };
    }
    let from = migration.spec.cluster.clone();
    let status = migration.status.clone().unwrap_or_default();
    let phase = status.phase.as_str();
    let is_here = status.target_uid.as_ref() == Some(&id.uid);
    let stage = match (status.hand_over, &status.verified) {
        (Some(HandOver::Released), Some(verified)) if is_here => {
            MoveInStage::Over(Box::new(RestoreStatus {
                phase: RestorePhase::Restored,
                migration: Some(name),
                source: status.source,
                users: verified.users,
                restored: Some(verified.finished.clone()),
                ..RestoreStatus::default()
            }))
        }
        _ if is_here => MoveInStage::Begun(format!(
            "ReadStateMigration {name} moves the table of ReadStateCluster {from} here ({phase}); cache pods start \
             when it is over"
        )),
        _ => MoveInStage::Waiting(format!(
            "ReadStateMigration {name} has not begun to move the table of ReadStateCluster {from} here ({phase})"
        )),
    };
    let from = Some(from);
    MoveIn { from, stage }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::{fake_api::FakeApi, fixtures::id};

    fn migration(target: &str, status: Value) -> ReadStateMigration {
        serde_json::from_value(json!({
            "metadata": { "name": "away" }, "status": status,
            "spec": {
                "cluster": "old", "members": "Serve", "target": { "cluster": target },
                "checkpoints": { "claimName": "moves" },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_may_serve_only_what_was_copied_to_this_very_one_and_handed_over() {
        let (chat, uid) = (id().name, id().uid);
        let verified = json!({ "finished": "2026-01-01T00:00:00Z", "users": 7 });
        let seen = |target: &str, status: Value| stage(&migration(target, status), &id());
        let over = json!({ "targetUid": uid, "handOver": "Released", "verified": verified });
        let MoveIn { from, stage } = seen(&chat, over.clone());
        assert_eq!(from.as_deref(), Some("old"));
        let MoveInStage::Over(made) = stage else {
            panic!("{stage:?}");
        };
        assert_eq!((made.phase, made.users), (RestorePhase::Restored, Some(7)));
        let mut another = over.clone();
        another["targetUid"] = json!("uid-of-another");
        let mut closed = over.clone();
        closed["handOver"] = json!("Closed");
        let mut unverified = over.clone();
        unverified["verified"] = Value::Null;
        for (target, status, begun) in [
            (chat.as_str(), another, false),
            (&chat, closed, true),
            (&chat, unverified, true),
            (&chat, json!({}), false),
            ("other", over, false),
        ] {
            let stage = seen(target, status.clone()).stage;
            let is_begun = matches!(stage, MoveInStage::Begun(_));
            assert_eq!(is_begun, begun, "{target} {status}: {stage:?}");
            assert!(!matches!(stage, MoveInStage::Over(_)), "{status}");
        }
    }

    fn as_stored(migration: &ReadStateMigration) -> DynamicObject {
        serde_json::from_value(serde_json::to_value(migration).unwrap()).unwrap()
    }

    /// A move of this cluster, written for a later release.
    fn of_a_later_release(name: &str, cluster: &str) -> DynamicObject {
        let mut later = as_stored(&migration("new", json!({})));
        later.metadata.name = Some(name.to_owned());
        later.data["spec"]["cluster"] = json!(cluster);
        later.data["spec"]["members"] = json!("NotYetInvented");
        later
    }

    #[test]
    fn a_move_that_cannot_be_read_concerns_no_cluster_but_the_one_that_it_names() {
        let closed = as_stored(&migration("new", json!({ "handOver": "Closed" })));
        let of_mail = of_a_later_release("first", "mail");
        let of_old = of_a_later_release("second", "old");
        assert_eq!(away_by(vec![of_mail.clone()], "old"), None);
        let unknown = away_by(vec![of_mail.clone(), of_old.clone()], "old");
        let Some(Seen::Unknown(why)) = unknown else {
            panic!("{unknown:?}");
        };
        assert!(
            why.starts_with("ReadStateMigration second cannot be read ("),
            "{why}"
        );
        // What is known counts, whatever else is not.
        let known = away_by(vec![of_mail, of_old, closed], "old");
        let gone = HandedOver {
            migration: "away".to_owned(),
            to: "new".to_owned(),
        };
        assert_eq!(known, Some(Seen::Known(gone)));
        // One that names no cluster may mean this one.
        let mut nameless = of_a_later_release("third", "mail");
        nameless.data["spec"] = json!({ "clusters": ["mail"] });
        assert!(matches!(
            away_by(vec![nameless], "old"),
            Some(Seen::Unknown(_))
        ));
    }

    #[tokio::test]
    async fn an_operator_that_may_not_look_for_moves_says_so_and_one_that_fails_knows_nothing() {
        let api = FakeApi::with_cluster("{ replicas: 1, database: { embedded: {} } }");
        let (client, chat) = (api.client(), api.cluster());
        let look = async || handed_over(&client, &id(), &chat, None).await;
        assert_eq!(look().await.unwrap(), None);
        api.fail("/readstatemigrations", StatusCode::FORBIDDEN);
        let unknown = look().await.unwrap();
        let Some(Seen::Unknown(why)) = unknown else {
            panic!("{unknown:?}");
        };
        assert!(
            why.starts_with("the operator may not list ReadStateMigrations"),
            "{why}"
        );
        api.heal();
        api.fail("/readstatemigrations", StatusCode::INTERNAL_SERVER_ERROR);
        look().await.unwrap_err();
    }

    #[test]
    fn a_table_is_handed_over_from_the_moment_that_its_cache_is_closed() {
        let with = |status: Value| away(&migration("new", status), "old");
        assert_eq!(with(json!({ "phase": "Verified" })), None);
        for stage in ["Closed", "Released"] {
            let gone = HandedOver {
                migration: "away".to_owned(),
                to: "new".to_owned(),
            };
            assert_eq!(with(json!({ "handOver": stage })), Some(gone));
        }
        let released = migration("new", json!({ "handOver": "Released" }));
        assert_eq!(away(&released, "new"), None, "the target itself");
    }
}
