//! `superdisk`: arguments in; answers on standard output, refusals on standard error, an exit status out.
//!
//! 0 done · 1 failed · 2 wrong usage · 3 refused (the code is the first word on standard error, and nothing
//! was changed).

use std::{
    error::Error,
    io,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand, ValueEnum};
use superdisk::{
    action::WaitingOn,
    agent,
    assemble::{self, Outcome, chain},
    claim::{Claim, StateFolder},
    execute::Executor,
    flags::SpecFlags,
    identify::{self, IdentifyArgs},
    inventory::{self, Devices},
    log::{say, show},
    model::Request,
    node_setup::NodeSetupArgs,
    preflight, report,
    resolve::{self, Keep, Resolved, Turn},
    snapshot::cli::SnapshotArgs,
    spec::Spec,
    stop::end_on_sigterm,
    sysfs::{self, FileSystem},
    told::told,
};

const EXIT_FAILED: u8 = 1;
const EXIT_REFUSED: u8 = 3;

/// The disk agent of Readstates.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look after a super-disk for as long as its pod lives: heal, measure, answer probes, take it down on SIGTERM.
    ///
    /// Assembles it first if necessary, as `assemble` does; a refusal is reported by the probes, and assembly is
    /// retried. With --once, the exit status is that of `assemble`.
    Agent(Box<agent::cli::AgentArgs>),
    /// Show legs and devices, what is being copied, and what was healed. Read-only, and accesses no disk.
    Status(agent::cli::StatusArgs),
    /// Read everything once, so that bad sectors of the fast leg are found and healed. Exit status 1 if a sector could
    /// be read from neither leg.
    Patrol(agent::cli::PatrolArgs),
    /// Unmount a super-disk and stop it, in order and never by force. On exit status 1, the output names what holds it.
    Teardown(agent::cli::TeardownArgs),
    /// Take down the super-disks of this node whose pod is gone. Touches only super-disks that have a record.
    Reap(agent::cli::ReapArgs),
    /// Keep this node's udev from assembling super-disks.
    NodeSetup(NodeSetupArgs),
    /// Write the identity of this pod's volume to a file, for the later containers. Waits for the operator's entry.
    Identify(IdentifyArgs),
    /// Assemble and mount a super-disk, from any state.
    ///
    /// Exit status: 0 mounted (without its fast leg, or at its old size, if a line on standard error says so), 3 refused
    /// (the line on standard error begins with a stable code; nothing was changed), 2 wrong usage, 1 failed. It can be run again at
    /// any time, also after being killed at any point.
    Assemble(AssembleArgs),
    /// Decide which leg's data to keep, after `assemble` refused with `E_SSD_AHEAD`.
    ///
    /// The fast leg then has writes that the durable leg lacks. Nothing is mounted; run `assemble` afterwards. Exit
    /// status: 0 decided, or nothing to decide; 3 refused; 2 wrong usage; 1 failed (run it again).
    Resolve(ResolveArgs),
    /// Hold a moment of a running super-disk for a snapshot of its network disk, and let it go.
    ///
    /// Asks the agent through its socket in the state folder. Exit status: 0 done; 3 refused (the line on standard error
    /// begins with a stable code); 1 the snapshot is not proven, or it failed; 2 wrong usage.
    Snapshot(SnapshotArgs),
    /// Check whether this node can carry a super-disk. Read-only.
    ///
    /// Exit status: 0 it can, 3 it cannot (each reason is a line on standard error that begins with a stable code), 2
    /// wrong usage, 1 the node could not be inspected.
    Preflight(PreflightArgs),
}

#[derive(clap::Args)]
struct AssembleArgs {
    #[command(flatten)]
    flags: SpecFlags,

    /// Make this user and group the owner of the filesystem's root, for a database that does not run as root.
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    owner: Option<(u32, u32)>,

    /// File with a user's decision about which leg to keep when both took writes, written by the operator. The decision
    /// is carried out as by `resolve`.
    #[arg(long, value_name = "FILE", requires = "pod")]
    decision: Option<PathBuf>,

    /// UID of this pod: a decision applies only to the pod that it names, and `reap` takes the super-disk down when this
    /// pod is gone.
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pod: Option<String>,

    /// Show only the next step, and do nothing. Later steps depend on its result.
    #[arg(long)]
    dry_run: bool,

    /// Exit as if killed after this many steps. For tests.
    #[arg(long, value_name = "N", hide = true)]
    stop_after: Option<u32>,
}

#[derive(clap::Args)]
struct ResolveArgs {
    #[command(flatten)]
    flags: SpecFlags,

    /// The leg whose data is kept.
    #[arg(long, value_enum)]
    keep: KeepLeg,

    /// Exit as if killed after this many steps. For tests.
    #[arg(long, value_name = "N", hide = true)]
    stop_after: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KeepLeg {
    /// The network disk: writes that only the local devices have are discarded.
    Durable,
    /// The local devices: their data is copied to the network disk.
    Fast,
}

#[derive(clap::Args)]
struct PreflightArgs {
    /// Device of the durable leg: the network disk, for example /dev/disk/by-id/google-data.
    #[arg(long, value_name = "DEVICE")]
    durable: Option<PathBuf>,

    /// Device of the fast leg, or a pattern in quotes: '/dev/disk/by-id/google-local-nvme-ssd-*'. Repeatable.
    #[arg(long, value_name = "GLOB_OR_DEVICE")]
    local: Vec<String>,

    /// Number of local devices required.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "local",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    local_count: u16,

    /// Format of standard output.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,

    /// Path at which the node's file system is mounted, for example /host in a container.
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// Text for people.
    Human,
    /// One JSON object.
    Json,
}

impl Output {
    /// Where progress goes: not between the lines of JSON, and else not before the refusal.
    fn progress(self) -> fn(&str) {
        match self {
            Self::Human => show,
            Self::Json => say,
        }
    }
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let result = match command {
        Command::Agent(args) => args.run(),
        Command::Status(args) => told(say, || args.run()),
        Command::Patrol(args) => args.run(),
        Command::Teardown(args) => told(say, || args.run()),
        Command::Reap(args) => args.run(),
        Command::NodeSetup(args) => args.run(),
        Command::Identify(args) => run_identify(&args),
        Command::Assemble(args) => told(show, || run_assemble(&args)),
        Command::Resolve(args) => told(show, || run_resolve(&args)),
        Command::Snapshot(args) => args.run(),
        Command::Preflight(args) => told(args.output.progress(), || run_preflight(args)),
    };
    for device in inventory::silent() {
        let device = device.display();
        eprintln!("{device} does not answer: this process ends when it does");
    }
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", chain(error.as_ref()));
        ExitCode::from(EXIT_FAILED)
    })
}

/// `UID:GID`
fn owner(text: &str) -> Result<(u32, u32), String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| {
        text.parse()
            .map_err(|_| "two numbers, such as 999:999".to_owned())
    };
    Ok((number(user)?, number(group)?))
}

fn run_identify(args: &IdentifyArgs) -> Result<ExitCode, Box<dyn Error>> {
    end_on_sigterm()?;
    args.run()?;
    Ok(ExitCode::SUCCESS)
}

fn run_assemble(args: &AssembleArgs) -> Result<ExitCode, Box<dyn Error>> {
    let AssembleArgs {
        flags,
        owner,
        decision,
        pod,
        dry_run,
        stop_after,
    } = args;
    let (mut spec, root) = (flags.spec()?, PathBuf::from("/"));
    // The kernel lists mounts by where they really are.
    spec.mount = std::fs::canonicalize(&spec.mount).unwrap_or(spec.mount);
    let outcome = if *dry_run {
        assemble::dry_run(&spec, &root, &Devices)?
    } else {
        let mut executor = Executor::new(&spec, &root, &Devices, *stop_after);
        let mut log = show;
        let tried = assemble::watch(&spec, &root, &Devices, &mut executor, &mut log)?;
        let mut turn = Turn::take(&flags.state_dir)?;
        // Where an agent runs, its record is right.
        let claim = Claim::take(&flags.state_dir, spec.volume.as_str());
        if claim.is_ok() {
            keep_record(&flags.state_dir, &spec, pod.as_ref())?;
        }
        let outcome = assemble::assemble_having_tried(
            &spec,
            &root,
            &Devices,
            &mut executor,
            tried,
            &mut log,
        )?;
        // One decision is one answer: in the same pod, the next question is put again.
        let answered = decision.as_ref().zip(flags.disk.as_ref());
        let answered = answered.map(|(_, disk)| disk.with_extension("decided"));
        let keep = decision.as_ref().zip(pod.as_ref());
        let keep = keep
            .filter(|_| answered.as_ref().is_none_or(|file| !file.exists()))
            .and_then(|(entry, pod)| identify::decided(entry, pod));
        match (outcome, keep) {
            (Outcome::Refused(refusal), Some(keep)) if refusal.code.is_for_a_person() => {
                println!("decided by a person: {keep:?} is kept");
                let resolved = resolve::resolve(
                    &spec,
                    &root,
                    &Devices,
                    keep,
                    &mut executor,
                    &mut turn,
                    &mut log,
                )?;
                match resolved {
                    Resolved::Done | Resolved::Nothing => {
                        if let Some(file) = answered {
                            std::fs::write(file, "")?;
                        }
                        assemble::assemble(&spec, &root, &Devices, &mut executor, &mut log)?
                    }
                    Resolved::Refused(refusal) => Outcome::Refused(refusal),
                }
            }
            (outcome, _) => outcome,
        }
    };
    if let (Some((user, group)), true) = (owner, !dry_run && is_mounted(&outcome)) {
        chown(&spec.mount, Some(*user), Some(*group))?;
    }
    Ok(match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Waiting(WaitingOn::FastLeg(refusal)) => {
            eprintln!("serving without the fast leg: {refusal}");
            ExitCode::SUCCESS
        }
        Outcome::FastLegFailed(error) => {
            eprintln!("serving without the fast leg: {}", chain(&error));
            ExitCode::SUCCESS
        }
        Outcome::NotGrown(why) => {
            eprintln!("serving at the size that it had: {why}");
            ExitCode::SUCCESS
        }
        Outcome::Refused(refusal) => {
            eprintln!("{refusal}");
            ExitCode::from(EXIT_REFUSED)
        }
        Outcome::Planned(actions) => {
            for action in actions {
                println!("{action}");
            }
            ExitCode::SUCCESS
        }
    })
}

/// Writes down which pod the super-disk is for: until its agent runs, nothing else tells `reap`. The pod that the last
/// agent ran for may be gone, and `reap` must not take it down for that one.
fn keep_record(state_dir: &Path, spec: &Spec, pod: Option<&String>) -> io::Result<()> {
    let state = StateFolder::new(state_dir, spec.volume.as_str());
    let Some(pod) = pod else {
        return state.forget_record();
    };
    if let Err(error) = state.keep_record(&assemble::record(spec, Some(pod.clone()))) {
        // The database may start all the same. A refusal comes first on standard error.
        println!(
            "`reap` will not take it down if its pod is gone before its agent runs: {}",
            chain(&error)
        );
    }
    Ok(())
}

/// Whether there is a filesystem now, with or without its fast leg.
fn is_mounted(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done | Outcome::Waiting(_) | Outcome::FastLegFailed(_) | Outcome::NotGrown(_) => {
            true
        }
        Outcome::Refused(_) | Outcome::Planned(_) => false,
    }
}

fn run_resolve(args: &ResolveArgs) -> Result<ExitCode, Box<dyn Error>> {
    let ResolveArgs {
        flags,
        keep,
        stop_after,
    } = args;
    let (spec, root) = (flags.spec()?, PathBuf::from("/"));
    let keep = match keep {
        KeepLeg::Durable => Keep::Durable,
        KeepLeg::Fast => Keep::Fast,
    };
    let mut turn = Turn::take(&flags.state_dir)?;
    let mut executor = Executor::new(&spec, &root, &Devices, *stop_after);
    let mut log = show;
    let (executor, turn) = (&mut executor, &mut turn);
    match resolve::resolve(&spec, &root, &Devices, keep, executor, turn, &mut log)? {
        Resolved::Done => println!("decided: assemble it now"),
        Resolved::Nothing => println!("there is nothing to decide"),
        Resolved::Refused(refusal) => {
            eprintln!("{refusal}");
            return Ok(ExitCode::from(EXIT_REFUSED));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_preflight(args: PreflightArgs) -> Result<ExitCode, Box<dyn Error>> {
    let PreflightArgs {
        durable,
        local,
        local_count,
        output,
        root,
    } = args;
    let request = Request {
        durable,
        local,
        local_count: local_count.into(),
    };
    let survey = sysfs::observe(&request, &root, &FileSystem)?;
    let refusals = preflight::decide(&request, &survey);
    match output {
        Output::Human => print!("{}", report::human(&survey, &refusals)),
        Output::Json => println!("{}", report::json(&survey, &refusals)?),
    }
    for refusal in &refusals {
        eprintln!("{refusal}");
    }
    Ok(if refusals.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_REFUSED)
    })
}
