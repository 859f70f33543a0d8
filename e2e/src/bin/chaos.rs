//! Puts a cluster under load and under stress, and says whether anything was lost: `hack/chaos` starts it.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Parser;
use e2e::{Chaos, ChaosSettings, World};
use readstates_operator_api::Durability;

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
    /// What survives a crash: interval, available or replicated.
    #[arg(long, default_value = "interval", value_parser = durability)]
    durability: Durability,
    /// Between two changes of one of 24 clients, in milliseconds.
    #[arg(long, default_value_t = 100)]
    pace: u64,
    /// Three members of which one crashes every half minute, instead of all steps.
    #[arg(long)]
    crashes: bool,
}

fn durability(text: &str) -> Result<Durability, String> {
    let all = [
        Durability::Interval,
        Durability::Available,
        Durability::Replicated,
    ];
    let named = all.into_iter().find(|it| it.as_str() == text);
    named.ok_or_else(|| "it is interval, available or replicated".to_owned())
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Arguments {
        minutes,
        seed,
        durability,
        pace,
        crashes,
    } = Arguments::parse();
    let settings = ChaosSettings {
        most: MOST,
        seed,
        durability,
        pace: Duration::from_millis(pace),
    };
    let cluster = World::chat().await?;
    let world = World::reached().await?;
    let mut chaos = Chaos::begin(&world, &cluster, settings).await?;
    let least = Duration::from_mins(minutes);
    match crashes {
        true => chaos.crash(least).await?,
        false => chaos.run(least).await?,
    }
    let verdict = chaos.end().await?;
    println!("\nseed {seed}: {verdict}");
    Ok(if verdict.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
