//! Random walks over two super-disks in the disk machine: many seeds, some machines at a time, and one table at the end.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use e2e_disk::walk::{Report, walk};

/// Walks over two super-disks with faults and commands drawn from seeds; fails when one finds a loss.
#[derive(Debug, Parser)]
#[command(name = "hack/disk-machine walk")]
struct Arguments {
    /// Number of seeds to walk, each in a process of its own.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// First seed; the others follow it.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Steps of each walk, before all disks are mended and the volumes are checked.
    #[arg(long, default_value_t = 14)]
    steps: usize,
    /// Machines at a time. Each has one processor, and waits for a clock half of its time.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Write the sum of all reports to this file, as JSON.
    #[arg(long)]
    total: Option<PathBuf>,
    /// Walk the first seed here, tell all of it, and write its report to this file.
    #[arg(long, hide = true)]
    report: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(report) if report.findings.is_empty() && report.not_ended.is_empty() => {
            ExitCode::SUCCESS
        }
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Report> {
    let Some(to) = &arguments.report else {
        return walk_all(arguments);
    };
    let report = walk(arguments.from, arguments.steps)?;
    fs::write(to, serde_json::to_vec(&report)?).context("failed to write the report")?;
    Ok(Report::default())
}

/// Each walk in a process of its own, so that what it tells has a file of its own.
fn walk_all(arguments: &Arguments) -> Result<Report> {
    let logs = std::env::var_os("READSTATES_DISK_LOGS")
        .context("READSTATES_DISK_LOGS is not set: start this by hack/disk-machine walk")?;
    let logs = PathBuf::from(logs);
    fs::create_dir_all(&logs).context("failed to make the folder for logs")?;
    let seeds: VecDeque<u64> = (arguments.from..arguments.from + arguments.seeds).collect();
    let (seeds, total) = (Mutex::new(seeds), Mutex::new(Report::default()));
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..arguments.at_once.max(1) {
            scope.spawn(|| {
                while let Some(seed) = seeds.lock().ok().and_then(|mut it| it.pop_front()) {
                    let report =
                        walk_one(seed, arguments.steps, &logs).unwrap_or_else(|error| Report {
                            not_ended: vec![format!("seed {seed}: {error:#}")],
                            ..Report::default()
                        });
                    if let Ok(mut total) = total.lock() {
                        total.add(report);
                        tell_progress(&total, arguments.seeds, began);
                    }
                }
            });
        }
    });
    let report = total.into_inner().unwrap_or_default();
    tell(&report, began);
    if let Some(to) = &arguments.total {
        fs::write(to, serde_json::to_vec(&report)?)
            .with_context(|| format!("failed to write {}", to.display()))?;
    }
    Ok(report)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it starts itself by setpriv, and nothing else"
)]
fn walk_one(seed: u64, steps: usize, logs: &Path) -> Result<Report> {
    let (log, to) = (
        logs.join(format!("walk-{seed}.log")),
        logs.join(format!("walk-{seed}.json")),
    );
    let log_file = File::create(&log).context("failed to make a log")?;
    // The file that this process runs from, even if a compiler has replaced it since.
    let this = format!("/proc/{}/exe", std::process::id());
    // A walk ends with the thread that waits for it.
    let ended = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(this)
        .args(["--from", &seed.to_string(), "--steps", &steps.to_string()])
        .arg("--report")
        .arg(&to)
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .status()
        .context("failed to start a walk")?;
    let report = fs::read(&to).with_context(|| {
        format!(
            "the walk ended with {ended} and no report: {}",
            log.display()
        )
    })?;
    serde_json::from_slice(&report).context("failed to read the report of a walk")
}

fn tell_progress(total: &Report, seeds: u64, began: Instant) {
    let end = if std::io::stderr().is_terminal() {
        "\r"
    } else {
        "\n"
    };
    eprint!(
        "{} of {seeds} walks in {} s, {} findings, {} not ended{end}",
        total.walks,
        began.elapsed().as_secs(),
        total.findings.len(),
        total.not_ended.len()
    );
}

fn tell(report: &Report, began: Instant) {
    println!(
        "{} walks, {} steps, {} s: {} batches of files acknowledged, {} given up by a person's word, {} destroyed with \
         their only copy, {} findings, {} not ended",
        report.walks,
        report.steps,
        began.elapsed().as_secs(),
        report.written,
        report.given_up,
        report.destroyed,
        report.findings.len(),
        report.not_ended.len()
    );
    for (answer, count) in &report.answers {
        println!("  {count:>6}  {answer}");
    }
    for finding in report.findings.iter().chain(&report.not_ended) {
        println!("{finding}");
    }
}
