use std::time::Duration;

use super::{
    CacheStep, JobToDelete, NodesStep, Plan, RackStep, RingState, SchemaFailed, Template,
    WaitingOn, ring_state,
};
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, now, scene, table},
    observe::{JobOutcome, JobSeen, SecretSeen, Seen},
};

fn job(spec: &str) -> String {
    crate::build::schema_job_name(&scene(spec).cluster).unwrap()
}

fn waiting_for_cache(ready: i32, wanted: i32) -> Option<WaitingOn> {
    Some(WaitingOn::Cache {
        ready,
        wanted,
        trouble: None,
    })
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
                template: Template::Wanted,
            }],
            database: NodesStep {
                make_token: true,
                ..NodesStep::default()
            },
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
    scene.world.database_pods.push(crate::observe::PodSeen {
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
fn the_first_table_has_number_one_and_all_start_with_it() {
    let scene = scene(CASSANDRA).ready_for_cache();
    let plan = scene.plan();
    assert_eq!(plan.cache, Some(CacheStep::Run(table(1, 3))));
    assert_eq!(plan.waiting, waiting_for_cache(0, 3));
    assert_eq!(
        ring_state(&scene.cluster, &scene.world),
        RingState::Changing
    );
}

#[test]
fn a_cluster_as_wanted_waits_for_nothing() {
    let scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(table(4, 3))
        .running(&table(4, 3));
    let plan = scene.plan();
    assert_eq!(plan.cache, Some(CacheStep::Run(table(4, 3))));
    assert_eq!(plan.waiting, None);
    assert_eq!(plan.problem, None);
    assert_eq!(ring_state(&scene.cluster, &scene.world), RingState::Stable);
}

#[test]
fn other_members_stop_every_pod_under_the_old_table_first() {
    let scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(table(4, 2))
        .running(&table(4, 2));
    let plan = scene.plan();
    assert_eq!(plan.cache, Some(CacheStep::Stop(table(4, 2))));
    assert_eq!(
        plan.waiting,
        Some(WaitingOn::CacheStopped {
            pods: vec!["chat-0".to_owned(), "chat-1".to_owned()]
        })
    );
}

#[test]
fn a_terminating_pod_keeps_the_new_table_from_being_published() {
    let old = table(4, 2);
    let scene = scene(CASSANDRA).ready_for_cache().published(old.clone());
    let plan = scene.stopping(&old, &["chat-1"]).plan();
    assert_eq!(plan.cache, Some(CacheStep::Stop(old)));
}

#[test]
fn the_next_table_has_the_next_number_once_no_pod_is_left() {
    let old = table(4, 2);
    let scene = scene(CASSANDRA).ready_for_cache().published(old.clone());
    let plan = scene.stopping(&old, &[]).plan();
    assert_eq!(plan.cache, Some(CacheStep::Run(table(5, 3))));
}

#[test]
fn a_stop_that_the_controller_has_not_confirmed_is_not_over() {
    let old = table(4, 2);
    let mut scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(old.clone())
        .stopping(&old, &[]);
    scene.world.cache.as_mut().unwrap().settled = false;
    assert_eq!(scene.plan().cache, Some(CacheStep::Stop(old)));
}

#[test]
fn a_change_taken_back_half_way_starts_the_old_table_again() {
    let old = table(4, 3);
    let scene = scene(CASSANDRA).ready_for_cache().published(old.clone());
    let plan = scene.stopping(&old, &["chat-1"]).plan();
    assert_eq!(plan.cache, Some(CacheStep::Run(old)));
}

#[test]
fn a_pod_with_another_table_stops_all() {
    let new = table(5, 3);
    let scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(new.clone())
        .running(&new);
    let plan = scene.pod("chat-9", 4).plan();
    assert_eq!(plan.cache, Some(CacheStep::Stop(new)));
}

#[test]
fn a_lost_ring_object_comes_back_with_its_number_and_without_a_stop() {
    let lost = scene(CASSANDRA).ready_for_cache().running(&table(7, 3));
    assert_eq!(lost.plan().cache, Some(CacheStep::Run(table(7, 3))));
}

#[test]
fn a_number_that_a_pod_has_seen_is_never_used_again() {
    let scene = scene(CASSANDRA).ready_for_cache().pod("chat-0", 7);
    assert_eq!(scene.plan().cache, Some(CacheStep::Stop(table(8, 3))));
}

#[test]
fn members_do_not_stop_while_one_could_not_write_what_it_holds() {
    let old = table(4, 2);
    let scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(old.clone())
        .running(&old);
    let sick = scene.says("chat-1", |m| m.store_problem = Some("no host".to_owned()));
    let plan = sick.plan();
    assert_eq!(plan.cache, None);
    assert_eq!(
        plan.waiting,
        Some(WaitingOn::StoreBeforeStop {
            member: "chat-1".to_owned(),
            dirty: 2
        })
    );
    // With nothing to write there is nothing to lose.
    assert!(matches!(
        sick.says("chat-1", |m| m.dirty = 0).plan().cache,
        Some(CacheStep::Stop(_))
    ));
}

#[test]
fn a_new_template_waits_too_for_members_that_could_not_write() {
    let now = table(4, 3);
    let scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(now.clone())
        .running(&now);
    let mut sick = scene.says("chat-1", |m| m.store_problem = Some("no host".to_owned()));
    // Nothing would change: no pod stops.
    assert_eq!(sick.plan().cache, Some(CacheStep::Run(now)));

    sick.cluster.cache.capacity_states += 1;
    assert_eq!(sick.plan().cache, None);
}

#[test]
fn a_member_that_cannot_be_asked_does_not_keep_others_from_stopping() {
    let old = table(4, 2);
    let mut scene = scene(CASSANDRA)
        .ready_for_cache()
        .published(old.clone())
        .running(&old);
    scene
        .world
        .members
        .insert("chat-1".to_owned(), Seen::Unknown("timed out".to_owned()));
    assert_eq!(scene.plan().cache, Some(CacheStep::Stop(old)));
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
        .published(table(1, 3))
        .running(&table(1, 3));
    let plan = scene.plan();
    assert_eq!(plan.cache, Some(CacheStep::Run(table(1, 3))));
    assert!(matches!(plan.waiting, Some(WaitingOn::Rack { .. })));
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
fn an_embedded_store_needs_no_schema() {
    let plan = scene(EMBEDDED).plan();
    assert_eq!(plan.cache, Some(CacheStep::Run(table(1, 1))));
    assert!(!plan.schema_job);
}
