//! Many clusters under one operator that runs as a program: nothing is written once they are up; and what they cost
//! (`hack/bench-operator`).

use std::{io::Write as _, time::Duration};

use crate::{
    crowd::Crowd,
    process::{Cost, Operator},
    world::with_world,
};

/// Longer than the operator takes to look at everything again.
const A_ROUND: Duration = Duration::from_secs(20);

#[test]
fn an_operator_of_several_clusters_at_rest_writes_nothing() {
    with_world(async |world| {
        let home = world.namespace.clone();
        let crowd = Crowd::new(world, 5).await;
        let operator = Operator::start(&home, &crowd.namespaces()).await;
        Box::pin(crowd.come_up()).await;
        // The effects of the last events.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = operator.cost().await;
        tokio::time::sleep(A_ROUND).await;
        let after = operator.cost().await;
        assert!(after.reconciles >= before.reconciles + 5, "it did not look");
        assert!(
            after.writes_since(&before).is_empty(),
            "{:?}",
            after.writes_since(&before)
        );
    });
}

#[test]
fn an_operator_of_several_clusters_at_rest_asks_for_little() {
    with_world(async |world| {
        let home = world.namespace.clone();
        let crowd = Crowd::new(world, 5).await;
        let operator = Operator::start(&home, &crowd.namespaces()).await;
        Box::pin(crowd.come_up()).await;
        // A look of each that finds nothing to do.
        tokio::time::sleep(A_ROUND).await;
        let before = operator.cost().await;
        tokio::time::sleep(A_ROUND).await;
        let after = operator.cost().await;
        assert!(after.reconciles >= before.reconciles + 5, "it did not look");
        let asked = rates(&before, &after);
        // Its own Lease is no cluster's.
        let of_clusters = asked.iter().filter(|(_, what)| !what.ends_with(" leases"));
        let sum: u64 = of_clusters.map(|(count, _)| count).sum();
        // A login and a superuser's password for each, once a minute.
        assert!(sum <= 10, "{asked:?}");
    });
}

#[test]
fn an_operator_writes_no_status_for_numbers_that_traffic_changes_a_little_all_the_time() {
    with_world(async |world| {
        let home = world.namespace.clone();
        let crowd = Crowd::new(world, 5).await;
        let operator = Operator::start(&home, &crowd.namespaces()).await;
        Box::pin(crowd.come_up()).await;
        crowd.has_traffic();
        // Once for each cluster: from nothing to what traffic makes it.
        tokio::time::sleep(A_ROUND).await;
        let before = operator.cost().await;
        tokio::time::sleep(A_ROUND).await;
        let after = operator.cost().await;
        assert!(after.reconciles >= before.reconciles + 5, "it did not look");
        let writes = after.writes_since(&before);
        assert!(writes.is_empty(), "{writes:?}");
    });
}

/// Kubernetes objects of one cluster of these: what the operator applies, makes or keeps.
const OBJECTS: u64 = 18;

#[test]
#[ignore = "it measures: hack/bench-operator runs it on an API server of its own, and says how many clusters"]
fn what_an_operator_costs() {
    let count: usize =
        std::env::var("READSTATES_BENCH_CLUSTERS").map_or(1, |count| count.parse().unwrap());
    with_world(async |world| {
        let home = world.namespace.clone();
        let crowd = Crowd::new(world, count).await;
        let operator = Operator::start(&home, &[]).await;
        let idle = operator.cost().await;
        let took = Box::pin(crowd.come_up()).await;
        let up = operator.cost().await;
        tokio::time::sleep(A_ROUND).await;
        let before = operator.cost().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let rest = operator.cost().await;
        crowd.has_traffic();
        tokio::time::sleep(A_ROUND).await;
        let loaded = operator.cost().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let served = operator.cost().await;
        let writes: u64 = served.writes_since(&loaded).values().sum();
        let all = (served.all_requests() - loaded.all_requests()) as f64 / count as f64;
        let row = row(count as u64, took, [&idle, &up, &before, &rest]);
        let row = format!("{row} {all:.1} | {writes} |");
        println!("{row}\nat rest: {:#?}", rates(&before, &rest));
        println!("under traffic: {:#?}", rates(&loaded, &served));
        if let Some(to) = std::env::var_os("READSTATES_BENCH_TO") {
            let mut file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(to)
                .unwrap();
            writeln!(file, "{row}").unwrap();
        }
    });
}

/// A line of the table that `hack/bench-operator` makes.
fn row(count: u64, took: Duration, [idle, up, before, rest]: [&Cost; 4]) -> String {
    let each = |total: f64| total / count as f64;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let requests = up.all_requests() - idle.all_requests();
    let at_rest = rest.all_requests() - before.all_requests();
    let processor = (up.processor - idle.processor).as_secs_f64();
    let idle_processor = (rest.processor - before.processor).as_secs_f64();
    let writes: u64 = rest.writes_since(before).values().sum();
    format!(
        "| {count} | {:.1} s | {requests} | {:.0} | {:.1} | {processor:.2} s | {:.0} ms | {:.0} MiB | {:.0} MiB | {:.2} MiB | \
         {at_rest} | {:.1} | {idle_processor:.2} s | {writes} |",
        took.as_secs_f64(),
        each(requests as f64),
        each(requests as f64) / OBJECTS as f64,
        each(processor * 1000.0),
        mib(up.most_memory),
        mib(rest.memory),
        each(mib(rest.memory.saturating_sub(idle.memory))),
        each(at_rest as f64),
    )
}

/// What was asked between the two, most first.
fn rates(before: &Cost, after: &Cost) -> Vec<(u64, String)> {
    let mut rates: Vec<_> = after
        .requests
        .iter()
        .map(|(what, count)| {
            let old = before.requests.get(what).copied().unwrap_or_default();
            (count - old, what.clone())
        })
        .filter(|(count, _)| *count > 0)
        .collect();
    rates.sort_by(|a, b| b.cmp(a));
    rates
}
