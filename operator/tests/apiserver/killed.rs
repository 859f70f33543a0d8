//! The operator is killed between any two of its writes, or asks and never hears an answer, or two of
//! them run: what they are about still goes as it should, and no pod goes that holds anything.

use std::sync::Arc;

use readstates_operator::{context::Context, error::Error};
use readstates_operator_api::ReadStateCluster;
use serde_json::json;

use crate::{
    chat::{cluster, owners, replicas, resize, running, time_passes},
    faults::{Fault, Faults},
    gate::Gate,
    invariants::nothing_lost,
    world::{World, waiting, with_world},
};

/// An operator and what is between it and the API server.
pub(crate) struct Mortal {
    gate: Gate,
    operator: Arc<Context>,
    /// What happens to a write of it; nothing: it is killed.
    suffers: Option<Fault>,
}

/// What may happen to a write of an operator that lives on.
pub(crate) const FAULTS: [Fault; 3] = [Fault::Conflict, Fault::Failure, Fault::Lost];

impl Mortal {
    pub(crate) fn new(world: &World) -> Self {
        let gate = Gate::open_wide();
        let operator = world.operator_behind(&gate);
        Self {
            gate,
            operator,
            suffers: None,
        }
    }

    /// One that is not killed, but suffers this.
    pub(crate) fn who_suffers(world: &World, fault: Fault) -> Self {
        Self {
            suffers: Some(fault),
            ..Self::new(world)
        }
    }

    /// Reconciles as a process that is killed before its first write, then as one that is killed before
    /// its second, and so on until one lives to the end. One that lives on has its first write go wrong, then
    /// its second, and so on until it has none that could.
    pub(crate) async fn reconcile(&self, world: &World) {
        self.try_to(async |operator| world.reconcile_by(operator).await)
            .await;
    }

    /// The same with something else that an operator does.
    pub(crate) async fn try_to(
        &self,
        mut work: impl AsyncFnMut(&Arc<Context>) -> Result<(), Error>,
    ) {
        if let Some(fault) = self.suffers {
            for nth in 0..40 {
                *self.gate.faults() = Faults::only_nth(nth, fault);
                // It may have given up or not, and looks again.
                let _ = work(&self.operator).await;
                if self.gate.faults().log().is_empty() {
                    return;
                }
            }
        }
        for writes in 0..40 {
            self.gate.allow(writes);
            if work(&self.operator).await.is_ok() {
                return;
            }
        }
    }

    /// Has its first read go wrong, then its second, and so on until it has none that could.
    pub(crate) async fn misread(
        &self,
        fault: Fault,
        mut work: impl AsyncFnMut(&Arc<Context>) -> Result<(), Error>,
    ) {
        for nth in 0..60 {
            *self.gate.faults() = Faults::only_nth_read(nth, fault);
            let done = work(&self.operator).await;
            if self.gate.faults().log().is_empty() {
                return;
            }
            // What could not be read is unknown, and nothing is decided by it.
            assert!(done.is_err(), "{:?}", self.gate.faults().log());
        }
    }

    /// Does that until nothing is waited for. What goes meanwhile holds nothing.
    async fn until_done(&self, world: &World) -> ReadStateCluster {
        for _ in 0..80 {
            self.reconcile(world).await;
            nothing_lost(world).await;
            let chat = world.get::<ReadStateCluster>("chat").await;
            if waiting(&chat).is_none() {
                return chat;
            }
            Box::pin(time_passes(world)).await;
            // What a member is asked next it does, and the answer is lost.
            world.fleet.swallow_next();
        }
        panic!("still waiting");
    }
}

#[test]
fn an_operator_that_is_killed_between_any_two_writes_loses_nothing() {
    with_world(async |world| {
        running(&world, 3).await;
        let operator = Mortal::new(&world);
        for (replicas, image) in [(2, "1"), (3, "2")] {
            let mut next = cluster(replicas);
            next["spec"]["image"] = json!(format!("readstates:{image}"));
            world.replace(next).await.unwrap();
            let chat = operator.until_done(&world).await;
            assert_eq!(chat.status.unwrap().slots_taken_over, Some(0));
            assert_eq!(
                owners(&world).await.len(),
                usize::try_from(replicas).unwrap()
            );
        }
    });
}

#[test]
fn an_operator_whose_writes_conflict_fail_or_go_unanswered_loses_nothing() {
    with_world(async |world| {
        running(&world, 3).await;
        for (fault, replicas) in FAULTS.into_iter().zip([2, 3, 2]) {
            let operator = Mortal::who_suffers(&world, fault);
            let mut next = cluster(replicas);
            next["spec"]["image"] = json!(format!("readstates:{fault:?}"));
            world.replace(next).await.unwrap();
            let chat = operator.until_done(&world).await;
            assert_eq!(chat.status.unwrap().slots_taken_over, Some(0), "{fault:?}");
            assert_eq!(
                owners(&world).await.len(),
                usize::try_from(replicas).unwrap(),
                "{fault:?}"
            );
        }
    });
}

#[test]
fn two_operators_at_once_do_what_one_does() {
    with_world(async |world| {
        running(&world, 3).await;
        let mut next = cluster(2);
        next["spec"]["image"] = json!("readstates:2");
        world.replace(next).await.unwrap();
        let operator = || world.operator_behind(&Gate::open_wide());
        let (one, other) = (operator(), operator());
        let mut done = false;
        for _ in 0..60 {
            // Either may lose a race, and looks again.
            let _ = tokio::join!(world.reconcile_by(&one), world.reconcile_by(&other));
            nothing_lost(&world).await;
            time_passes(&world).await;
            let chat = world.get::<ReadStateCluster>("chat").await;
            done = waiting(&chat).is_none() && world.cache_pods("chat").await.len() == 2;
            if done {
                break;
            }
        }
        assert!(done);
        assert_eq!(
            world
                .reconcile("chat")
                .await
                .status
                .unwrap()
                .slots_taken_over,
            Some(0)
        );
    });
}

#[test]
fn what_was_decided_by_an_old_state_is_not_written() {
    with_world(async |world| {
        running(&world, 3).await;
        resize(&world, 2).await;
        world.reconcile("chat").await;
        world.fleet.act().await;
        assert_eq!(world.fleet.holds("chat-2"), (0, 0));

        // One operator is about to take chat-2 away, and is held up.
        let gate = Gate::closed();
        let operator = world.operator_behind(&gate);
        let late = world.reconcile_by(&operator);
        let meanwhile = async {
            gate.is_reached().await;
            // More are wanted by now, and another operator has seen to it.
            resize(&world, 5).await;
            world.reconcile("chat").await;
            world.settle().await;
            world.fleet.act().await;
            gate.open();
        };
        let (late, ()) = tokio::join!(late, meanwhile);
        assert!(late.is_err());
        assert_eq!(replicas(&world).await, 5);
        nothing_lost(&world).await;
    });
}
