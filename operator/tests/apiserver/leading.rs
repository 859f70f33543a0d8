//! Operators that lead one after another, by one Lease.

use std::time::Duration;

use readstates_operator::lease::{Election, NAME};
use tokio::time::Instant;

use crate::{
    faults::{Fault, Faults},
    gate::Gate,
    haste::hasten,
    world::with_world,
};

/// Shorter than a leader waits for an answer.
const SLOW: Duration = Duration::from_millis(9_500);

#[test]
fn a_leader_that_is_answered_late_stops_before_another_one_leads() {
    with_world(async |world| {
        // The first write takes the Lease, the second renews it and is answered late, and then none arrives any more.
        let gate = Gate::with(Faults::only_nth(1, Fault::Slow(SLOW)));
        let election = |client: &kube::Client, who: &str| {
            Election::new(client.clone(), &world.namespace, NAME, who.to_owned())
        };
        let first = election(&world.operator_behind(&gate).client, "first");
        let second = election(&world.client, "second");
        first.acquire().await;
        gate.is_reached().await;
        gate.allow(1);
        let stops = async {
            first.hold().await;
            Instant::now()
        };
        let leads = async {
            gate.is_reached().await;
            second.acquire().await;
            Instant::now()
        };
        let (stopped, leads) = Box::pin(hasten(async { tokio::join!(stops, leads) })).await;
        assert!(stopped < leads, "two led for {:?}", stopped - leads);
    });
}
