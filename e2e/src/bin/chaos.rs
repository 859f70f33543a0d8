//! Puts a cluster under load and under stress, and says whether anything was lost: `hack/chaos` starts it.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Parser;
use e2e::{Chaos, World};

/// The most members that the steps scale to.
const MOST: usize = 5;

#[derive(Parser)]
struct Arguments {
    /// Minimum duration, in minutes; the steps of every run are always completed.
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// Seed of the random steps; the same seed takes the same steps.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Arguments { minutes, seed } = Arguments::parse();
    let cluster = World::chat().await?;
    let world = World::reached().await?;
    let mut chaos = Chaos::begin(&world, &cluster, MOST, seed).await?;
    chaos.run(Duration::from_mins(minutes)).await?;
    let verdict = chaos.end().await?;
    println!("\nseed {seed}: {verdict}");
    Ok(if verdict.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
