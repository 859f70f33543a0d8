mod certificates;

use std::time::Duration;

use super::{JobToDelete, Plan, SchemaFailed, SecretsToMake, WaitingOn};
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, now, scene},
    templates::{RackStep, Template},
    world::{JobOutcome, JobSeen, SecretSeen},
};

fn job(spec: &str) -> String {
    crate::templates::schema_job_name(&scene(spec).cluster).unwrap()
}

fn racks(plan: &Plan) -> Vec<&str> {
    plan.racks.iter().map(|r| r.rack.as_str()).collect()
}

#[test]
fn a_new_cluster_starts_with_its_first_rack_alone() {
    let plan = scene(CASSANDRA).plan();
    assert_eq!(
        plan,
        Plan {
            racks: vec![RackStep {
                rack: "a".to_owned(),
                members: 1,
                partition: 0,
                restarted: None,
                parallel: false,
                claim_size: None,
                template: Template::Wanted,
                version: None,
            }],
            waiting: Some(WaitingOn::Rack {
                rack: "a".to_owned(),
                ready: 0,
                members: 1,
                trouble: None
            }),
            ..Plan::default()
        }
    );
}

#[test]
fn the_second_rack_waits_for_the_first_and_the_schema_for_both() {
    let plan = scene(CASSANDRA).rack("a", 1).plan();
    assert_eq!(racks(&plan), ["a", "b"]);
    assert!(!plan.schema_job);

    let plan = scene(CASSANDRA).database_ready().plan();
    assert!(plan.schema_job);
    assert_eq!(plan.cache, None);
    assert_eq!(
        plan.waiting,
        Some(WaitingOn::Schema {
            job: job(CASSANDRA),
            trouble: None
        })
    );
}

#[test]
fn a_rack_that_waits_for_its_turn_is_still_put_back_to_what_was_applied() {
    let plan = scene(CASSANDRA).rack("a", 0).rack("b", 2).plan();
    assert_eq!(racks(&plan), ["a", "b"]);
}

#[test]
fn a_rack_in_trouble_says_which_pod_and_why() {
    let mut scene = scene(CASSANDRA).rack("a", 1).rack("b", 1);
    scene.world.database_pods.push(crate::world::PodSeen {
        name: "chat-db-b-1".to_owned(),
        trouble: Some("0/3 nodes are available".to_owned()),
        revision: Some("r1".to_owned()),
        ..Default::default()
    });
    assert_eq!(
        scene.plan().waiting.unwrap().to_string(),
        "rack b has 1 of 2 members ready (chat-db-b-1: 0/3 nodes are available)"
    );
}

#[test]
fn the_cache_comes_when_the_schema_is_there() {
    let plan = scene(CASSANDRA).ready_for_cache().plan();
    assert_eq!(plan.cache.map(|c| c.replicas), Some(3));
    let waiting = WaitingOn::Cache {
        ready: 0,
        wanted: 3,
        trouble: None,
    };
    assert_eq!(plan.waiting, Some(waiting));
}

#[test]
fn a_failed_schema_job_is_kept_to_be_read_and_made_again_later() {
    let failed = |ago: Duration| JobOutcome::Failed {
        at: now() - ago,
        message: "no host answers".to_owned(),
    };
    let fresh = scene(CASSANDRA)
        .database_ready()
        .schema(failed(Duration::from_secs(60)))
        .plan();
    let problem = Some(SchemaFailed {
        job: job(CASSANDRA),
        message: "no host answers".to_owned(),
    });
    assert_eq!(fresh.problem, problem);
    assert_eq!((fresh.schema_job, fresh.jobs_to_delete), (false, vec![]));

    let old = scene(CASSANDRA)
        .database_ready()
        .schema(failed(Duration::from_secs(301)))
        .plan();
    assert_eq!(
        old.jobs_to_delete,
        [JobToDelete {
            name: job(CASSANDRA),
            uid: "uid-of-job".to_owned()
        }]
    );
    assert!(!old.schema_job);
}

#[test]
fn a_schema_job_for_other_inputs_goes_before_the_new_one_starts() {
    let mut scene = scene(CASSANDRA).database_ready();
    let old = JobSeen {
        uid: "old".to_owned(),
        outcome: JobOutcome::Succeeded,
        makes: None,
    };
    scene.world.jobs.insert("chat-schema-old".to_owned(), old);
    let plan = scene.plan();
    assert!(!plan.schema_job);
    assert_eq!(
        plan.jobs_to_delete,
        [JobToDelete {
            name: "chat-schema-old".to_owned(),
            uid: "old".to_owned()
        }]
    );
}

#[test]
fn a_database_member_that_fails_later_does_not_stop_the_cache() {
    let scene = scene(CASSANDRA)
        .rack("a", 0)
        .rack("b", 2)
        .schema(JobOutcome::Succeeded)
        .running(3);
    let plan = scene.plan();
    assert_eq!(plan.cache.map(|c| c.replicas), Some(3));
    assert!(matches!(plan.waiting, Some(WaitingOn::Rack { .. })));
}

#[test]
fn a_database_that_waits_never_freezes_the_cache() {
    // Another image, and with it another schema Job, while a member of the database is down.
    let mut scene = scene(CASSANDRA)
        .rack("a", 0)
        .rack("b", 2)
        .schema(JobOutcome::Succeeded)
        .running(3);
    let other = CASSANDRA.replace("replicas: 3", "replicas: 4\nimage: mine:2");
    scene.cluster = crate::fixtures::cluster(&other);
    let goes_on = |plan: &Plan| plan.cache.as_ref().map(|cache| cache.replicas);
    let plan = scene.plan();
    assert_eq!(goes_on(&plan), Some(4), "by the Job that made the keyspace");
    assert!(plan.jobs_to_delete.is_empty() && !plan.schema_job);

    // The Job is gone, as after its time to live: the record is enough.
    scene.world.jobs.clear();
    assert_eq!(goes_on(&scene.plan()), None);
    scene.world.schema = plan.schema_proven;
    assert_eq!(goes_on(&scene.plan()), Some(4), "by the record");

    // One of another keyspace is none of this one.
    scene.world.schema = Some("cql://elsewhere/readstates".to_owned());
    assert_eq!(goes_on(&scene.plan()), None);
}

#[test]
fn a_schema_job_that_fails_later_is_told_and_the_cache_goes_on() {
    let mut scene = scene(EXTERNAL).schema(JobOutcome::Succeeded).running(2);
    scene.world.schema = scene.plan().schema_proven;
    let failed = JobOutcome::Failed {
        at: now(),
        message: "keyspace readstates is claimed by another".to_owned(),
    };
    let plan = scene.schema(failed).plan();
    assert!(plan.cache.is_some() && plan.problem.is_some());
}

#[test]
fn an_external_database_waits_for_its_secret() {
    let mut scene = scene(EXTERNAL);
    scene.world.secret = Some(SecretSeen::Absent);
    let plan = scene.plan();
    assert!(!plan.schema_job);
    assert_eq!(
        plan.waiting.unwrap().to_string(),
        "Secret login does not exist"
    );

    scene.world.secret = Some(SecretSeen::Incomplete(vec!["password"]));
    assert_eq!(
        scene.plan().waiting.unwrap().to_string(),
        "Secret login has no password"
    );

    scene.world.secret = Some(SecretSeen::Complete);
    assert!(scene.plan().schema_job);
}

#[test]
fn a_database_of_our_own_gets_secrets_once_and_only_those_that_nobody_gives() {
    let both = SecretsToMake {
        login: true,
        superuser: Some("cassandra"),
    };
    let mut ours = scene(CASSANDRA).database_ready();
    ours.world.secret = Some(SecretSeen::Absent);
    ours.world.superuser = Some(SecretSeen::Absent);
    let plan = ours.plan();
    assert_eq!(plan.secrets, both);
    // Seen before they are used.
    assert!(!plan.schema_job);

    // One that is there is never made again, whatever it lacks.
    ours.world.secret = Some(SecretSeen::Incomplete(vec!["password"]));
    ours.world.superuser = Some(SecretSeen::Complete);
    let plan = ours.plan();
    assert_eq!(plan.secrets, SecretsToMake::default());
    let words = plan.waiting.unwrap().to_string();
    assert_eq!(words, "Secret chat-db-login has no password");

    let given = CASSANDRA.replace("  engine:", "  secretRef: { name: mine }\n  engine:");
    let mut theirs = scene(&given).database_ready();
    theirs.world.secret = Some(SecretSeen::Absent);
    theirs.world.superuser = Some(SecretSeen::Absent);
    let plan = theirs.plan();
    let SecretsToMake { login, superuser } = plan.secrets;
    assert_eq!((login, superuser), (false, Some("cassandra")));
    let words = plan.waiting.unwrap().to_string();
    assert_eq!(words, "Secret mine does not exist");
}

#[test]
fn an_embedded_store_needs_no_schema() {
    let plan = scene(EMBEDDED).plan();
    assert_eq!(plan.cache.map(|c| c.replicas), Some(1));
    assert!(!plan.schema_job);
}
