use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::events::EventType;
use readstates_api::admin::ReplicationStatus;
use readstates_operator_api::{
    DatabaseUpgrade, DatabaseUpgradeStage, ReadStateClusterStatus, labels::Component,
};

use super::{Decided, Report, events, outcome, status};
use crate::{
    apply::{Applied, Blocked, CarriedOut, Refusal},
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, Scene, id, now, scene, try_cluster},
    plan::RolloutStep,
    telemetry::Outcome,
    world::{CertificatesSeen, ClientCaSeen, JobOutcome, Member, World},
};

pub(super) fn told(
    scene: &Scene,
    applied: &Applied,
    before: Option<&ReadStateClusterStatus>,
) -> ReadStateClusterStatus {
    let plan = scene.plan();
    let done = CarriedOut {
        applied: applied.clone(),
        ..CarriedOut::default()
    };
    let decided = Decided {
        cluster: &scene.cluster,
        plan: &plan,
        done: &done,
    };
    let report = Report {
        id: &id(),
        before,
        world: &scene.world,
        spec: Ok(decided),
        ending: None,
        now: now(),
    };
    status(&report)
}

/// The conditions as `Type=Status Reason`.
fn conditions(status: &ReadStateClusterStatus) -> Vec<String> {
    let text = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{}={} {}", c.type_, c.status, c.reason)
    };
    status.conditions.iter().map(text).collect()
}

fn message<'a>(status: &'a ReadStateClusterStatus, type_: &str) -> &'a str {
    &status
        .conditions
        .iter()
        .find(|c| c.type_ == type_)
        .unwrap()
        .message
}

fn complete() -> Scene {
    scene(CASSANDRA).ready_for_cache().running(3)
}

#[test]
fn a_cluster_as_wanted_says_so_in_every_condition_and_column() {
    let status = told(&complete(), &Applied::All, None);
    assert_eq!(
        conditions(&status),
        [
            "Available=True Serving",
            "Progressing=False Reconciled",
            "Degraded=False AsExpected",
            "CacheReady=True AllReady",
            "DatabaseReady=True AllReady",
            "RingStable=True Stable",
            "RequiresUpdate=False UpToDate",
            "RollingOut=False AsExpected",
            "TakenOver=False AsExpected",
            "ApiOpen=True NoAccessConfigured",
            "CertificatesExpiring=False AsExpected",
            "Repaired=True Repaired",
        ]
    );
    assert_eq!(
        (status.cache.as_str(), status.database.as_str()),
        ("3/3", "3/3")
    );
    assert_eq!(
        (status.states, status.dirty, status.ring_number),
        (Some(30), Some(6), Some(4))
    );
    assert_eq!(
        (
            status.slots.as_str(),
            status.slots_moving,
            status.slots_taken_over
        ),
        ("1024/1024", 0, Some(0))
    );
    assert_eq!(status.waiting_on, None);
    assert_eq!(
        status.selector,
        "readstates.dev/cluster=chat,app.kubernetes.io/component=cache"
    );
    assert_eq!(status.replicas, 3);
}

#[test]
fn a_new_cluster_waits_for_its_database_and_says_for_what() {
    let status = told(&scene(CASSANDRA), &Applied::All, None);
    assert_eq!(
        conditions(&status),
        [
            "Available=False NotServing",
            "Progressing=True DatabaseNotReady",
            "Degraded=False AsExpected",
            "CacheReady=False CacheNotReady",
            "DatabaseReady=False DatabaseNotReady",
            "RingStable=False Changing",
            "RequiresUpdate=False UpToDate",
            "RollingOut=False AsExpected",
            "TakenOver=False AsExpected",
            "ApiOpen=True NoAccessConfigured",
            "CertificatesExpiring=False AsExpected",
            "Repaired=True Repaired",
        ]
    );
    assert_eq!(
        (status.cache.as_str(), status.database.as_str()),
        ("0/3", "0/3")
    );
    assert_eq!(
        message(&status, "Progressing"),
        "rack a has 0 of 1 members ready"
    );
}

#[test]
fn a_missing_member_makes_the_service_unavailable() {
    let mut scene = complete();
    scene.world.cache_pods[1].ready = false;
    scene.world.cache.as_mut().unwrap().ready = 2;
    let status = told(&scene, &Applied::All, None);
    assert_eq!(
        message(&status, "Available"),
        "683 of 1024 slots of users are served"
    );
    assert_eq!(status.waiting_on.unwrap().reason, "CacheNotReady");
}

#[test]
fn a_wait_keeps_its_beginning_while_its_reason_stays() {
    let first = told(&scene(CASSANDRA), &Applied::All, None);
    let mut before = first.clone();
    let long_ago = Time(now() - std::time::Duration::from_secs(3600));
    before.waiting_on.as_mut().unwrap().since = long_ago.clone();
    let later = told(&scene(CASSANDRA), &Applied::All, Some(&before));
    assert_eq!(later.waiting_on.unwrap().since, long_ago);

    let next = told(
        &scene(CASSANDRA).database_ready(),
        &Applied::All,
        Some(&before),
    );
    let waiting = next.waiting_on.unwrap();
    assert_eq!(
        (waiting.reason.as_str(), waiting.since),
        ("SchemaPending", Time(now()))
    );
}

#[test]
fn an_unknown_member_makes_the_sums_unknown_and_not_zero() {
    let scene = complete().silent("chat-1");
    let status = told(&scene, &Applied::All, None);
    assert_eq!((status.states, status.dirty), (None, None));
    assert!(conditions(&status).contains(&"RingStable=Unknown NotObserved".to_owned()));
}

#[test]
fn slots_taken_over_are_told_once_each_time_and_stay_known() {
    let took = |slots| {
        let scene = complete().says("chat-0", |m| m.ownership.taken_from_the_dead = slots);
        move |before| told(&scene, &Applied::All, before)
    };
    let before = took(0)(None);
    let after = took(40)(Some(&before));
    assert_eq!(after.slots_taken_over, Some(40));
    assert!(conditions(&after).contains(&"TakenOver=True SlotsTakenOver".to_owned()));
    let words = "40 slots were taken over from processes that had not handed them on: what those acknowledged in their \
                 last flush interval may be lost. Once somebody has looked at it, set the annotation \
                 readstates.dev/acknowledge-takeover=";
    assert!(message(&after, "TakenOver").starts_with(words));

    fn news(
        before: Option<&ReadStateClusterStatus>,
        after: &ReadStateClusterStatus,
    ) -> Vec<(EventType, String)> {
        let events = events::news(before, after);
        events.into_iter().map(|e| (e.type_, e.reason)).collect()
    }
    let told_so = [(EventType::Warning, "SlotsTakenOver".to_owned())];
    assert_eq!(news(Some(&before), &after), told_so);
    assert_eq!(events::newly_taken_over(Some(&before), &after), Some(40));
    assert_eq!(news(Some(&after), &took(40)(Some(&after))), []);
    let more = took(47)(Some(&after));
    assert_eq!(events::newly_taken_over(Some(&after), &more), Some(7));
    assert_eq!(news(Some(&after), &more), told_so);
    // The process that took them was restarted: that is no news, and neither is a member that does not answer.
    assert_eq!(news(Some(&more), &took(0)(Some(&more))), []);
    let silent = told(&complete().silent("chat-0"), &Applied::All, Some(&more));
    assert_eq!(silent.slots_taken_over, Some(47));
    assert_eq!(events::newly_taken_over(Some(&more), &silent), None);
    // Another takes its slots when it dies: fewer than it had taken itself, and news all the same.
    let other = complete().says("chat-1", |m| m.ownership.taken_from_the_dead = 11);
    let fewer = told(&other, &Applied::All, Some(&more));
    assert_eq!(fewer.slots_taken_over, Some(11));
    assert_eq!(events::newly_taken_over(Some(&more), &fewer), Some(11));
    assert_eq!(news(Some(&more), &fewer), told_so);
}

#[test]
fn a_takeover_that_somebody_has_looked_at_is_no_alarm_until_there_is_another_one() {
    let look = |slots, takeover: Option<String>, before: Option<&ReadStateClusterStatus>| {
        let mut scene = complete().says("chat-0", |m| m.ownership.taken_from_the_dead = slots);
        scene.world.consent.takeover = takeover;
        told(&scene, &Applied::All, before)
    };
    let taken = look(40, None, None);
    let (_, name) = message(&taken, "TakenOver").rsplit_once('=').unwrap();
    let other = look(40, Some("another".to_owned()), Some(&taken));
    assert!(conditions(&other).contains(&"TakenOver=True SlotsTakenOver".to_owned()));
    let seen = look(40, Some(name.to_owned()), Some(&taken));
    assert!(conditions(&seen).contains(&"TakenOver=False AsExpected".to_owned()));
    assert_eq!(seen.slots_taken_over, Some(40));
    // The annotation may stay or go: neither hides what comes later.
    for annotation in [Some(name.to_owned()), None] {
        let same = look(40, annotation.clone(), Some(&seen));
        assert!(conditions(&same).contains(&"TakenOver=False AsExpected".to_owned()));
        let more = look(47, annotation, Some(&seen));
        assert!(message(&more, "TakenOver").starts_with("7 slots were taken over"));
    }
}

#[test]
fn numbers_that_change_under_traffic_are_not_written_at_every_look() {
    let look = |dirty: i64, before: Option<&ReadStateClusterStatus>| {
        let set = move |m: &mut crate::world::Member| m.dirty = dirty;
        let scene = complete()
            .says("chat-0", set)
            .says("chat-1", set)
            .says("chat-2", set);
        told(&scene, &Applied::All, before)
    };
    let first = look(1000, None);
    assert_eq!(first.dirty, Some(3000));
    assert_eq!(look(1100, Some(&first)), first);
    assert_eq!(look(900, Some(&first)), first);
    assert_eq!(look(1200, Some(&first)).dirty, Some(3600));
    // That nothing is left is told exactly, and that there is something.
    let none = look(0, Some(&first));
    assert_eq!(none.dirty, Some(0));
    assert_eq!(look(1, Some(&none)).dirty, Some(3));
}

#[test]
fn a_paused_cluster_says_so_and_waits_for_nothing() {
    let paused = scene(&format!("paused: true\n{CASSANDRA}"));
    let status = told(&paused, &Applied::All, None);
    assert!(conditions(&status).contains(&"Progressing=False Paused".to_owned()));
    assert_eq!(status.waiting_on, None);
}

#[test]
fn what_failed_is_waited_for_and_nothing_is_recorded_as_begun() {
    let upgrade = |to: &str| DatabaseUpgrade {
        from: "cassandra:5.0.8".to_owned(),
        to: to.to_owned(),
        snapshot: "before".to_owned(),
        stage: DatabaseUpgradeStage::Snapshotting,
        since: Time(now()),
    };
    let failed = |nodes_wait| CarriedOut {
        failed: Some("failed to write Service chat: no".to_owned()),
        nodes_wait,
        ..CarriedOut::default()
    };
    let told = |scene: &Scene, done: &CarriedOut| {
        let mut plan = scene.plan();
        plan.database.upgrade = Some(upgrade("cassandra:5.0.9"));
        plan.rollout = RolloutStep::Takes;
        let decided = Decided {
            cluster: &scene.cluster,
            plan: &plan,
            done,
        };
        status(&Report {
            id: &id(),
            before: None,
            world: &scene.world,
            spec: Ok(decided),
            ending: None,
            now: now(),
        })
    };
    let begun = told(&complete(), &CarriedOut::default());
    assert_eq!(begun.database_upgrade, Some(upgrade("cassandra:5.0.9")));
    assert!(conditions(&begun).contains(&"RollingOut=True RestartingPods".to_owned()));

    // What was planned for the nodes is done after it is on record, and had its turn before or had none.
    let later = told(&complete(), &failed(false));
    assert_eq!(later.database_upgrade, begun.database_upgrade);
    let failed = told(&complete(), &failed(true));
    assert_eq!(failed.database_upgrade, None);
    assert!(conditions(&failed).contains(&"RollingOut=False AsExpected".to_owned()));
    assert!(conditions(&failed).contains(&"Progressing=True RequestFailed".to_owned()));
    assert!(conditions(&failed).contains(&"Degraded=False AsExpected".to_owned()));
    assert!(conditions(&failed).contains(&"CacheReady=True AllReady".to_owned()));
    let waiting = failed.waiting_on.unwrap();
    assert_eq!(waiting.reason, "RequestFailed");
    assert!(
        waiting
            .message
            .starts_with("failed to write Service chat: no; "),
        "{}",
        waiting.message
    );
}

#[test]
fn an_invalid_spec_names_the_field() {
    let spec = CASSANDRA.replace("memory: 8Gi", "memory: banana");
    let invalid = try_cluster(&spec).unwrap_err();
    let report = Report {
        id: &id(),
        before: None,
        world: &World::default(),
        spec: Err(&invalid),
        ending: None,
        now: now(),
    };
    let status = status(&report);
    assert_eq!(
        message(&status, "Degraded"),
        "spec.database.resources.limits.memory: \"banana\" is not a quantity, such as 500m or 2Gi"
    );
    assert_eq!(outcome(&report), Outcome::Degraded);
    assert!(conditions(&status).contains(&"CacheReady=Unknown InvalidSpec".to_owned()));
}

#[test]
fn what_stands_in_the_way_is_degraded_and_named() {
    let refused = |component, why| Refusal { component, why };
    let conflict = Blocked::Conflict {
        object: "Service chat".to_owned(),
        owner: Some("Deployment web".to_owned()),
    };
    let rejected = Blocked::Rejected {
        object: "NetworkPolicy chat-database".to_owned(),
        message: "no".to_owned(),
    };
    let taken = Applied::Partly(vec![
        refused(Component::Cache, conflict),
        refused(Component::Database, rejected),
    ]);
    let status = told(&scene(EMBEDDED), &taken, None);
    assert!(conditions(&status).contains(&"Degraded=True NameConflict".to_owned()));
    assert!(
        message(&status, "Degraded")
            .contains("Service chat exists already and belongs to Deployment web")
    );
    assert!(
        message(&status, "Degraded")
            .ends_with("; the API server refused NetworkPolicy chat-database: no")
    );

    let leftover = Blocked::Leftover {
        object: "Service chat".to_owned(),
    };
    let leftover = Applied::Partly(vec![refused(Component::Cache, leftover)]);
    let status = told(&scene(EMBEDDED), &leftover, None);
    assert!(conditions(&status).contains(&"Degraded=False AsExpected".to_owned()));
    assert_eq!(status.waiting_on.unwrap().reason, "LeftoverObject");
}

#[test]
fn a_failed_schema_job_degrades_with_its_last_words() {
    let failed = JobOutcome::Failed {
        at: now(),
        message: "no host answers".to_owned(),
    };
    let status = told(
        &scene(CASSANDRA).database_ready().schema(failed),
        &Applied::All,
        None,
    );
    assert!(conditions(&status).contains(&"Degraded=True SchemaFailed".to_owned()));
    assert!(message(&status, "Degraded").ends_with("failed: no host answers"));
}

#[test]
fn events_tell_what_changed_and_nothing_else() {
    let seen = |before: Option<&ReadStateClusterStatus>, after: &ReadStateClusterStatus| {
        let events = events::news(before, after);
        events
            .iter()
            .map(|e| (e.type_, e.reason.clone()))
            .collect::<Vec<_>>()
    };
    let start = told(&scene(CASSANDRA), &Applied::All, None);
    assert_eq!(
        seen(None, &start),
        [(EventType::Normal, "DatabaseNotReady".to_owned())]
    );
    assert_eq!(seen(Some(&start), &start), []);

    let done = told(&complete(), &Applied::All, Some(&start));
    let reasons: Vec<_> = seen(Some(&start), &done)
        .into_iter()
        .map(|(_, r)| r)
        .collect();
    assert_eq!(reasons, ["Serving", "AllReady", "AllReady", "Stable"]);

    let odd = CASSANDRA.replace("memory: 8Gi", "memory: banana");
    let invalid = try_cluster(&odd).unwrap_err();
    let world = complete().world;
    let report = Report {
        id: &id(),
        before: Some(&done),
        world: &world,
        spec: Err(&invalid),
        ending: None,
        now: now(),
    };
    assert_eq!(
        seen(Some(&done), &status(&report)),
        [(EventType::Warning, "InvalidSpec".to_owned())]
    );

    let sick = complete().says("chat-1", |m| m.store_problem = Some("no host".to_owned()));
    let sick = told(&sick, &Applied::All, Some(&done));
    assert_eq!(
        seen(Some(&done), &sick),
        [(EventType::Warning, "StoreUnhealthy".to_owned())]
    );

    let skewed = complete()
        .says("chat-0", |m| m.ownership.clock_ahead_seconds = Some(7200))
        .says("chat-1", |m| m.ownership.clock_ahead_seconds = Some(-90));
    let skewed = told(&skewed, &Applied::All, Some(&done));
    assert_eq!(
        seen(Some(&done), &skewed),
        [(EventType::Warning, "ClockSkew".to_owned())]
    );
    let degraded = skewed.conditions.iter().find(|it| it.reason == "ClockSkew");
    let message = &degraded.unwrap().message;
    let named = "of chat-0 is 7200 s ahead, of chat-1 is 90 s behind of the other";
    assert!(message.contains(named), "{message}");
}

#[test]
fn slots_without_a_backup_are_told_of_where_there_are_to_be_some() {
    let spec = format!(
        "\ncache: {{ durability: Available }}\n{}",
        CASSANDRA.trim_start()
    );
    let backed = |slots, seconds| {
        move |m: &mut Member| {
            m.ownership.replication = Some(ReplicationStatus {
                unprotected: slots,
                unprotected_seconds: seconds,
                ..ReplicationStatus::default()
            });
        }
    };
    let replicated = |scene: &Scene| {
        let status = told(scene, &Applied::All, None);
        let mut conditions = conditions(&status).into_iter();
        let found = conditions.find(|it| it.starts_with("Replicated="));
        found.map(|it| (it, message(&status, "Replicated").to_owned()))
    };
    assert_eq!(replicated(&complete()), None, "none are asked for");
    let running = || scene(&spec).ready_for_cache().running(3);
    let (unknown, of) = replicated(&running()).unwrap();
    assert_eq!(unknown, "Replicated=Unknown NotObserved");
    assert_eq!(of, "not known of chat-0, chat-1, chat-2");
    let all = || {
        let told = running().says("chat-0", backed(0, 0));
        told.says("chat-1", backed(0, 0))
            .says("chat-2", backed(0, 0))
    };
    assert_eq!(replicated(&all()).unwrap().0, "Replicated=True AllBacked");
    let some = all().says("chat-0", backed(7, 12));
    let (unprotected, message) = replicated(&some).unwrap();
    assert_eq!(unprotected, "Replicated=False Unprotected");
    assert!(message.contains("7 slots of chat-0 for 12 s"), "{message}");
    let not_kept = |m: &mut Member| {
        let replication = m.ownership.replication.get_or_insert_default();
        replication.store_drops_backups = true;
    };
    let not_kept = replicated(&all().says("chat-1", not_kept)).unwrap();
    assert_eq!(not_kept.0, "Replicated=False BackupsNotKept");
}

#[test]
fn a_certificate_that_is_not_renewed_is_told_of_two_weeks_before_its_end() {
    let mut scene = scene(EXTERNAL);
    let expiring = |scene: &Scene| {
        let seen = super::certificates::expiring(&scene.world, now());
        format!("{:?} {}: {}", seen.status, seen.reason, seen.message)
    };
    assert!(expiring(&scene).starts_with("False AsExpected"));
    // It was issued a day ago.
    let short =
        |days: u64| crate::fixtures::certificate("member-1", Duration::from_hours(24 * days));
    for (days, expected) in [
        (16, "False"),
        (
            14,
            "True ExpiresSoon: the certificate of role member expires at ",
        ),
    ] {
        if let crate::world::Found::Known { content, .. } = &mut scene.world.identity.member {
            content.certificate = short(days);
        }
        assert!(
            expiring(&scene).starts_with(expected),
            "{}",
            expiring(&scene)
        );
    }
}

#[test]
fn certificates_for_clients_are_told_of_too() {
    let mut scene = scene(EXTERNAL);
    let days = |days: i64| now() + Duration::from_hours(24 * u64::try_from(days).unwrap());
    scene.world.api_certificate = Some(CertificatesSeen::Complete {
        mark: "m1".to_owned(),
        client: false,
        expires: Some(days(13)),
    });
    scene.world.client_ca = Some(ClientCaSeen {
        pem: None,
        source: Ok(Some(days(12))),
    });
    let roles: Vec<_> = super::certificates::entries(&scene.world)
        .into_iter()
        .map(|entry| entry.role)
        .collect();
    assert!(roles.ends_with(&["api".to_owned(), "clients-ca".to_owned()]));
    let said = super::certificates::expiring(&scene.world, now());
    assert!(
        said.message
            .starts_with("the certificate of role clients-ca expires at "),
        "{}",
        said.message
    );
}

#[test]
fn a_right_that_cache_pods_could_not_be_given_is_told() {
    let spec = "cache: { access: { callers: [{ name: cron, verbs: [read], serviceAccounts: [{ name: cron }] }] } }";
    let mut scene = scene(&format!("{spec}\n{}", EXTERNAL.trim_start()));
    let open = |scene: &Scene, unbound: Option<&str>| {
        let done = CarriedOut {
            unbound: unbound.map(str::to_owned),
            ..CarriedOut::default()
        };
        let decided = Decided {
            cluster: &scene.cluster,
            plan: &scene.plan(),
            done: &done,
        };
        let said = super::access::api_open(&decided);
        format!("{:?} {}: {}", said.status, said.reason, said.message)
    };
    assert_eq!(open(&scene, None), "False CallersOnly: callers: cron");
    assert_eq!(
        open(&scene, Some("forbidden")),
        "False CallerRefused: no service account can be checked: forbidden"
    );
    scene.cluster.token_review_role = None;
    let said = open(&scene, None);
    assert!(
        said.contains("install its chart with rbac.tokenReviews=true"),
        "{said}"
    );
}
