//! The operator is killed between any two writes of a restore, or suffers faults, or there are two of it: there is one
//! restore, and cache pods come after it.

use k8s_openapi::api::batch::v1::Job;
use kube::{ResourceExt, api::DeleteParams};
use readstates_operator_api::{ReadStateCluster, RestorePhase};

use super::{cluster, has_cache, restore_jobs, restore_of, volume};
use crate::{
    chat::time_passes,
    gate::Gate,
    killed::{FAULTS, Mortal},
    world::{World, waiting, with_world},
};

/// What must hold at any time.
async fn one_restore_before_the_cache(world: &World) {
    let jobs = restore_jobs(world).await;
    assert!(jobs.len() <= 1, "{jobs:?}");
    let is_done = restore_of(world)
        .await
        .is_some_and(|restore| restore.phase == RestorePhase::Restored);
    assert!(is_done || !has_cache(world).await);
}

/// Brings the cluster up with this reconciler; the first Job that restores is deleted meanwhile.
async fn comes_up(world: &World, mut reconcile: impl AsyncFnMut(&World)) {
    world.create(&cluster(2, volume())).await.unwrap();
    let mut deleted = None;
    for _ in 0..80 {
        reconcile(world).await;
        one_restore_before_the_cache(world).await;
        if let (Some(job), None) = (restore_jobs(world).await.pop(), &deleted) {
            let jobs = world.api::<Job>();
            let now = DeleteParams::background();
            jobs.delete(&job.name_any(), &now).await.unwrap();
            deleted = job.uid();
            continue;
        }
        time_passes(world).await;
        let chat = world.get::<ReadStateCluster>("chat").await;
        if waiting(&chat).is_none() && world.cache_pods("chat").await.len() == 2 {
            let restored = restore_of(world).await.unwrap();
            assert_eq!(restored.phase, RestorePhase::Restored);
            let jobs = restore_jobs(world).await;
            assert!(jobs.len() == 1 && jobs[0].uid() != deleted && deleted.is_some());
            return;
        }
    }
    panic!("still waiting: {:?}", restore_of(world).await);
}

#[test]
fn an_operator_that_is_killed_between_any_two_writes_restores_once_before_the_cache() {
    with_world(async |world| {
        let operator = Mortal::new(&world);
        let up = comes_up(&world, async |world| operator.reconcile(world).await);
        Box::pin(up).await;
    });
}

#[test]
fn an_operator_whose_writes_conflict_fail_or_go_unanswered_restores_once_before_the_cache() {
    with_world(async |world| {
        for fault in FAULTS {
            let world = world.another().await;
            let operator = Mortal::who_suffers(&world, fault);
            let up = comes_up(&world, async |world| operator.reconcile(world).await);
            Box::pin(up).await;
        }
    });
}

#[test]
fn two_operators_at_once_restore_once_before_the_cache() {
    with_world(async |world| {
        let operator = || world.operator_behind(&Gate::open_wide());
        let (one, other) = (operator(), operator());
        let up = comes_up(&world, async |world| {
            // Either may lose a race, and looks again.
            let _ = tokio::join!(world.reconcile_by(&one), world.reconcile_by(&other));
        });
        Box::pin(up).await;
    });
}
