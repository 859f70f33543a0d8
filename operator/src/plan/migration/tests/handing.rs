//! Moves into another cluster, of databases that the operator runs: what is in the way, and how the cache is handed over.

use readstates_operator_api::HandOver;

use super::*;
use crate::fixtures::CASSANDRA;

const FROM: &str = "cql://chat-db.talk.svc:9042/readstates";
const TO: &str = "cql://mail-db.talk.svc:9042/readstates";
const MAIL: &str = "uid-of-mail";

fn stores(name: &str, moving_to: Option<&str>) -> MemberStores {
    MemberStores {
        name: name.to_owned(),
        store: Some(FROM.to_owned()),
        moving_to: moving_to.map(str::to_owned),
    }
}

/// The cluster `mail`, which waits for the move with its database there.
fn mail() -> Value {
    json!({
        "metadata": { "name": "mail", "namespace": "talk", "uid": MAIL, "generation": 2 },
        "spec": serde_yaml_ng::from_str::<Value>(&format!(
            "{CASSANDRA}restoreFrom: {{ migration: {{ name: away }} }}\n"
        )).unwrap(),
        "status": {
            "schema": { "store": TO, "since": "2026-01-01T00:00:00Z" },
            "restore": { "phase": "Waiting" },
        },
    })
}

/// A move of `chat`, whose members write both, into this cluster; both are run by the operator.
fn into(mail: &Value) -> Move {
    let mut m = moving("Serve");
    m.spec.target = serde_json::from_value(json!({ "cluster": "mail" })).unwrap();
    m.cluster["spec"] = serde_yaml_ng::from_str(CASSANDRA).unwrap();
    m.cluster["spec"]["cache"]["podTemplate"]["env"] =
        json!([{ "name": "READSTATES_MOVING_TO", "value": TO }]);
    m.cluster["status"]["schema"]["store"] = json!(FROM);
    m.seen.target = m.seen.source.clone();
    m.seen.target_cluster = Some(serde_json::from_value(mail.clone()).unwrap());
    m.seen.pods = ["chat-0", "chat-1", "chat-2"]
        .map(|pod| stores(pod, Some(TO)))
        .into();
    m.seen.template = Some(stores("chat", Some(TO)));
    m
}

/// The same, with everything compared.
fn compared(mail: &Value) -> Move {
    let mut m = into(mail).since(7);
    let before = m.before.as_mut().unwrap();
    before.source = Some(FROM.to_owned());
    before.target = Some(TO.to_owned());
    before.target_uid = Some(MAIL.to_owned());
    before.verified = Some(verified());
    m
}

impl Move {
    /// Its cache has stopped, and its database is still stopping.
    fn cache_down(mut self) -> Self {
        self.cluster["spec"]["stopped"] = json!(true);
        self.cluster["metadata"]["generation"] = json!(8);
        self.cluster["status"]["conditions"] = json!([{
            "type": "Stopped", "status": "False", "reason": "DatabaseNotReady", "message": "rack a stops",
            "observedGeneration": 8, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        self.seen.pods.clear();
        self.seen.at_zero = true;
        self
    }

    /// What was decided is on record.
    fn recorded(mut self) -> Self {
        let plan = self.plan();
        let before = self.before.get_or_insert_default();
        before.phase = plan.phase;
        before.members_generation = plan.record.members_generation;
        before.verified = plan.record.verified;
        before.target_uid = plan.record.target_uid;
        before.hand_over = plan.record.hand_over;
        self
    }
}

#[test]
fn members_are_told_all_that_they_need_to_write_the_other_clusters_database() {
    let mut alone = into(&mail());
    alone.cluster["spec"]["cache"] = json!({});
    let plan = alone.plan();
    assert_eq!((plan.phase, plan.reason), PREPARING);
    for part in [
        &format!("READSTATES_MOVING_TO={TO}"),
        "READSTATES_TO_CLAIM=uid-of-mail",
        "READSTATES_TO_CQL_LOCAL_DC=",
        "READSTATES_TO_CQL_USER from the key username of Secret mail-db-login",
        "READSTATES_TO_CQL_PASSWORD_FILE to the path of a file with the key password of Secret mail-db-login",
    ] {
        assert!(plan.next.contains(part), "{part}: {}", plan.next);
    }
}

#[test]
fn a_table_is_copied_between_two_databases_that_the_operator_runs() {
    let plan = into(&mail()).plan();
    assert_eq!(plan.action, MigrationAction::Record);
    assert_eq!(
        plan.record.target_uid.as_deref(),
        Some(MAIL),
        "before anything is copied"
    );
    let plan = into(&mail()).recorded().plan();
    assert_eq!(makes(&plan), Some(false));
    let MigrationAction::Make { ends, .. } = plan.action else {
        panic!("{plan:?}");
    };
    assert_eq!(ends.target.id.uid, MAIL);
}

#[test]
fn the_target_is_released_only_after_the_source_was_seen_stopped_twice() {
    let mut m = compared(&mail());
    let plan = m.plan();
    assert_eq!(plan.phase, MigrationPhase::Verified);
    assert!(
        plan.next
            .contains("set spec.stopped of ReadStateCluster chat"),
        "{}",
        plan.next
    );
    assert_eq!(plan.record.hand_over, None);

    // Told to stop, with pods that still write.
    m = m.cache_down();
    m.seen.at_zero = false;
    m.seen.pods = vec![stores("chat-0", Some(TO))];
    let plan = m.plan();
    assert_eq!(
        (plan.phase, plan.record.hand_over),
        (MigrationPhase::Switching, None)
    );
    // Gone, and nothing tells yet that its StatefulSet makes no others.
    m.seen.pods.clear();
    assert_eq!(m.plan().record.hand_over, None);

    m.seen.at_zero = true;
    let plan = m.plan();
    assert_eq!(
        (plan.action, plan.record.hand_over),
        (MigrationAction::Record, Some(HandOver::Closed))
    );
    let m = m.recorded();
    let plan = m.plan();
    assert_eq!(plan.record.hand_over, Some(HandOver::Released));
    assert!(plan.record.verified.is_some());

    // Started again between the two looks: it opens, and its cache serves on.
    let mut again = m;
    again.cluster["spec"]["stopped"] = json!(false);
    again.cluster["metadata"]["generation"] = json!(9);
    let plan = again.plan();
    assert_eq!(
        (plan.phase, plan.record.hand_over),
        (MigrationPhase::Verified, None)
    );
}

#[test]
fn a_cache_that_was_not_stopped_in_order_is_not_followed_by_another() {
    let mut m = compared(&mail()).cache_down();
    let told = &mut m.cluster["status"]["conditions"][0];
    told["status"] = json!("True");
    told["reason"] = json!("StopTimedOut");
    let plan = m.plan();
    assert_eq!(plan.record.hand_over, None);
    assert!(
        plan.words.contains("was not stopped in order"),
        "{}",
        plan.words
    );
    // Of the generation before, it tells nothing.
    let mut early = compared(&mail()).cache_down();
    early.cluster["status"]["conditions"][0]["observedGeneration"] = json!(7);
    assert_eq!(early.plan().record.hand_over, None);
}

#[test]
fn it_is_complete_when_the_other_cluster_serves_whatever_became_of_the_source() {
    let m = compared(&mail()).cache_down().recorded().recorded();
    assert_eq!(
        m.before.as_ref().unwrap().hand_over,
        Some(HandOver::Released)
    );
    let at = |restore: &str, available: &str| {
        let mut mail = mail();
        mail["status"]["ringNumber"] = json!(1);
        mail["status"]["restore"] = json!({ "phase": restore, "migration": "away" });
        mail["status"]["conditions"] = json!([{
            "type": "Available", "status": available, "reason": "Served", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        mail
    };
    let with = |mail: &Value, released: bool| {
        let mut m = compared(mail).cache_down();
        m.before.as_mut().unwrap().hand_over = released.then_some(HandOver::Released);
        m.seen.cluster = None;
        m
    };
    assert_eq!(
        with(&at("Restored", "False"), true).plan().phase,
        MigrationPhase::Switching
    );
    let plan = with(&at("Restored", "True"), true).plan();
    assert_eq!(
        (plan.phase, plan.reason),
        (MigrationPhase::Complete, Reason::Moved)
    );
    assert!(
        plan.next.contains("keep ReadStateCluster chat stopped"),
        "{}",
        plan.next
    );
    // An operator of before has written over it that the target was released.
    let plan = with(&at("Restored", "True"), false).plan();
    assert_eq!(
        (plan.phase, plan.record.hand_over),
        (MigrationPhase::Complete, Some(HandOver::Released))
    );
    // Another one of this name has nothing.
    let mut another = at("Restored", "True");
    another["metadata"]["uid"] = json!("uid-of-another");
    let plan = with(&another, true).plan();
    assert_eq!((plan.reason, plan.is_bad), (Reason::TargetChanged, true));
}

#[test]
fn a_target_that_is_not_as_a_move_needs_it_is_told_and_nothing_is_handed_over() {
    let told = |change: &dyn Fn(&mut Value)| {
        let mut mail = mail();
        change(&mut mail);
        let plan = compared(&mail).cache_down().plan();
        assert_eq!(plan.action, MigrationAction::Wait, "{}", plan.words);
        assert_eq!(plan.record.hand_over, None, "{}", plan.words);
        (plan.reason, plan.record.verified.is_some(), plan.words)
    };
    let is = |change: &dyn Fn(&mut Value), reason: Reason, counts: bool, part: &str| {
        let (found, verified, words) = told(change);
        assert_eq!((found, verified), (reason, counts), "{words}");
        assert!(words.contains(part), "{words}");
    };
    is(
        &|mail| mail["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        Reason::TargetChanged,
        false,
        "take READSTATES_MOVING_TO",
    );
    is(
        &|mail| mail["metadata"]["uid"] = json!("uid-of-another"),
        Reason::TargetChanged,
        false,
        "another one than what was copied to",
    );
    is(
        &|mail| mail["status"]["ringNumber"] = json!(3),
        Reason::TargetInUse,
        false,
        "has had cache pods",
    );
    is(
        &|mail| mail["spec"]["restoreFrom"]["migration"]["name"] = json!("other"),
        Reason::ClusterNotReady,
        true,
        "does not wait for this move",
    );
    is(
        &|mail| mail["spec"]["stopped"] = json!(true),
        Reason::ClusterNotReady,
        true,
        "is stopped",
    );
    is(
        &|mail| mail["status"]["schema"] = Value::Null,
        Reason::ClusterNotReady,
        true,
        "has not made or verified its keyspace",
    );
    let mut gone = compared(&mail());
    gone.seen.target_cluster = None;
    assert_eq!(gone.plan().reason, Reason::ClusterNotFound);
}

#[test]
fn what_a_job_cannot_move_is_refused_with_what_can() {
    let refused = |m: &Move, part: &str| {
        let plan = m.plan();
        assert_eq!(plan.reason, Reason::MigrationUnsupported, "{}", plan.words);
        assert!(plan.words.contains(part), "{}", plan.words);
    };
    let mut stop = into(&mail());
    stop.spec.members = readstates_operator_api::MembersMeanwhile::Stop;
    refused(&stop, "members: Serve");
    let mut in_place = moving("Serve");
    in_place.cluster["spec"]["database"] = into(&mail()).cluster["spec"]["database"].clone();
    refused(&in_place, "name it as spec.target.cluster");
    let mut volume = mail();
    volume["spec"]["replicas"] = json!(1);
    volume["spec"]["restoreFrom"] = Value::Null;
    volume["spec"]["database"] = json!({ "embedded": {} });
    refused(&into(&volume), "has an embedded store");

    let mut own = into(&mail());
    own.spec.target.cluster = Some("chat".to_owned());
    assert_eq!(own.plan().reason, Reason::SameDatabase);
    // Its database stops with it: nothing could be copied.
    let mut early = compared(&mail()).cache_down();
    early.before.as_mut().unwrap().verified = None;
    let plan = early.plan();
    assert_eq!((plan.reason, makes(&plan)), (Reason::ClusterNotReady, None));
}

#[test]
fn of_two_moves_into_one_cluster_the_later_one_is_refused() {
    let mut m = into(&mail());
    m.seen.others = vec![OtherMove {
        name: "first".to_owned(),
        created: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        cluster: Some("talk".to_owned()),
        target: Some(serde_json::from_value(json!({ "cluster": "mail" })).unwrap()),
        complete: false,
    }];
    let plan = m.plan();
    assert_eq!(
        (plan.phase, plan.reason),
        (MigrationPhase::Refused, Reason::TargetInUse)
    );
    m.seen.others[0].complete = true;
    assert_eq!(m.plan().reason, Reason::AwaitingMembers);
}

#[test]
fn a_source_with_an_external_database_moves_with_a_pause_too() {
    let mut m = stopped().since(7);
    m.spec.target = serde_json::from_value(json!({ "cluster": "mail" })).unwrap();
    m.seen.target = m.seen.source.clone();
    m.seen.target_cluster = Some(serde_json::from_value(mail()).unwrap());
    assert_eq!(makes(&m.plan()), Some(false));
    let before = m.before.as_mut().unwrap();
    before.target_uid = Some(MAIL.to_owned());
    before.verified = Some(verified());
    assert_eq!(m.plan().record.hand_over, Some(HandOver::Closed));
    // Members that started again have written the source alone.
    m.cluster["spec"]["stopped"] = json!(false);
    m.cluster["metadata"]["generation"] = json!(8);
    let plan = m.plan();
    assert_eq!(
        (plan.reason, plan.record.verified),
        (Reason::MembersChanged, None)
    );
}
