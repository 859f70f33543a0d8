//! A cluster that is scaled, rolled, deleted from, evicted from and killed under load, with an operator that dies all
//! the time: `hack/chaos` in short.

use anyhow::{Result, ensure};
use e2e::{Chaos, Step, World};

const SEED: u64 = 1;

#[tokio::test]
async fn nothing_acknowledged_is_lost_or_doubled_while_everything_changes() -> Result<()> {
    let cluster = World::chat().await?;
    let world = World::reached().await?;
    let mut chaos = Chaos::begin(&world, &cluster, 4, SEED).await?;
    let mut steps = vec![
        Step::Scale(4),
        Step::Delete(1),
        Step::Evict(2),
        Step::Scale(2),
        Step::Roll,
        Step::NewImage(3),
    ];
    if world.environment().docker.is_some() {
        steps.push(Step::Kill(0));
    }
    for step in steps {
        chaos.step(step).await?;
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
