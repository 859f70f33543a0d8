//! A cluster that is scaled, rolled, deleted from, evicted from and killed under load, with an operator that dies all
//! the time: `hack/chaos` in short.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Chaos, ChaosSettings, Step, World};
use readstates_operator_api::Durability;

#[tokio::test]
async fn nothing_acknowledged_is_lost_or_doubled_while_everything_changes() -> Result<()> {
    let cluster = World::chat().await?;
    let world = World::reached().await?;
    let settings = ChaosSettings {
        most: 3,
        seed: 1,
        durability: Durability::Interval,
        // Beside other tests: hack/chaos asks more often.
        pace: Duration::from_millis(250),
    };
    let mut chaos = Chaos::begin(&world, &cluster, settings).await?;
    // Another image rolls every pod, and the spec goes back to the first one at the end.
    let mut steps = vec![
        Step::Scale(3),
        Step::Delete(1),
        Step::Evict(2),
        Step::NewImage(2),
    ];
    if world.environment().docker.is_some() {
        steps.push(Step::Kill(1));
    }
    for step in steps {
        Box::pin(chaos.step(step)).await?;
    }
    let verdict = chaos.end().await?;
    println!("{verdict}");
    ensure!(
        verdict.acknowledged() > 1000,
        "the load did next to nothing"
    );
    ensure!(verdict.is_sound(), "{verdict}");
    cluster.has_members(3).await
}
