//! The subcommands of the running side: flags in, an exit status out.

use std::{
    error::Error,
    io::{self, IsTerminal},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::{Options, look_at, now, once, run, take_down, take_down_claimed};
use crate::{
    arguments::{Output, time},
    assemble::chain,
    claim::{Claim, Record, StateFolder, records},
    flags::SpecFlags,
    identify::IdentifyError,
    log::say,
    patrol::{self, BlockDevice, Disk, Escort},
    reap::{self, Node, Outcome},
    spec::{FilesystemKind, Policy, Spec},
    status::{Paint, Report, draw},
    stop::{Stop, end_on_sigterm},
    sysfs::SECTOR_BYTES,
    told::{told, while_said},
};

/// Flags of `superdisk agent`.
#[derive(Debug, clap::Args)]
pub struct AgentArgs {
    #[command(flatten)]
    flags: SpecFlags,

    /// UID of the super-disk's pod: `reap` takes the super-disk down when this pod is gone.
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pod: Option<String>,

    /// Address that serves /metrics, /state, /startup, /livez and /readyz.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9108")]
    listen: SocketAddr,

    /// Time between two patrols.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = time)]
    patrol_every: Duration,

    /// Read rate of a patrol, in MiB/s.
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    patrol_rate: u32,

    /// Time between two comparisons of the legs.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = time)]
    check_every: Duration,

    /// Maximum rate at which a comparison reads the network disk, in MiB/s.
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    check_rate: u32,

    /// Time limit for taking the super-disk down, within the pod's grace period.
    #[arg(long, value_name = "TIME", default_value = "50s", value_parser = time)]
    teardown_time: Duration,

    /// Assemble the super-disk, run one round of checks and repairs, print its status, and exit. It stays mounted.
    #[arg(long)]
    once: bool,
}

impl AgentArgs {
    /// Minds it.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut options = options(&self.flags)?;
        options.pod.clone_from(&self.pod);
        options.listen = self.listen;
        options.patrol_every = self.patrol_every;
        options.patrol_rate = u64::from(self.patrol_rate) << 20;
        options.check_every = self.check_every;
        options.check_max_kib = u64::from(self.check_rate) << 10;
        options.teardown_time = self.teardown_time;
        Ok(if self.once {
            told(say, || once(&options))?
        } else {
            run(&options)?
        })
    }
}

/// Options of commands that only look: what concerns a running agent is off.
fn options(flags: &SpecFlags) -> Result<Options, IdentifyError> {
    let mut spec = flags.spec()?;
    // The kernel lists mounts by where they really are.
    spec.mount = std::fs::canonicalize(&spec.mount).unwrap_or(spec.mount);
    Ok(Options {
        spec,
        pod: None,
        state_dir: flags.state_dir.clone(),
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        patrol_every: Duration::MAX,
        patrol_rate: u64::MAX,
        check_every: Duration::MAX,
        check_max_kib: u64::MAX,
        teardown_time: Duration::ZERO,
    })
}

/// Flags of `superdisk status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    flags: SpecFlags,

    /// Format of standard output.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,

    /// Repeat every two seconds.
    #[arg(long)]
    watch: bool,
}

impl StatusArgs {
    /// Says it.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        const EVERY: Duration = Duration::from_secs(2);
        let options = options(&self.flags)?;
        let terminal = std::io::stdout().is_terminal();
        let paint = if terminal {
            Paint::Colour
        } else {
            Paint::Plain
        };
        loop {
            let report = look_at(&options)?;
            if self.watch && terminal && self.output == Output::Human {
                // Home, and everything below away.
                print!("\x1b[H\x1b[2J");
            }
            match self.output {
                Output::Human => print!("{}", draw(&report, paint)),
                Output::Json => println!("{}", serde_json::to_string(&report)?),
            }
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            let _ = Stop::default().pause(EVERY);
        }
    }
}

/// Flags of `superdisk patrol`.
#[derive(Debug, clap::Args)]
pub struct PatrolArgs {
    #[command(flatten)]
    flags: SpecFlags,

    /// Read rate, in MiB/s.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
}

impl PatrolArgs {
    /// Reads it, from the beginning or from where an earlier patrol was.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let options = options(&self.flags)?;
        let volume = options.spec.volume.as_str();
        // An agent that runs keeps its own record, of its own patrol.
        let claim = Claim::take(&options.state_dir, volume).ok();
        let state = StateFolder::new(&options.state_dir, volume);
        let mut record: patrol::Record = match &claim {
            Some(_) => state.load("patrol").unwrap_or_default(),
            None => patrol::Record::default(),
        };
        let before = look_at(&options)?;
        let (mirror, healed_before) = healthy(&before)?;
        let at = AtomicU64::new(record.position);
        let mut disk = Counted {
            disk: BlockDevice::open(&mirror)?,
            at: &at,
        };
        let (bytes, said) = (disk.bytes(), AtomicU64::new(u64::MAX));
        let (size, begun) = (disk.bytes() - record.position, Instant::now());
        let save = |record: &patrol::Record| {
            if claim.is_some()
                && let Err(error) = state.save("patrol", record)
            {
                say(&chain(&error));
            }
        };
        let escort = Escort {
            stop: &Stop::default(),
            may_read: &|| look_at(&options).is_ok_and(|report| healthy(&report).is_ok()),
            save: &save,
            now: &now,
        };
        let on_terminal = std::io::stderr().is_terminal();
        let word = || {
            let at = at.load(Ordering::Relaxed);
            let stands = said.swap(at, Ordering::Relaxed) == at;
            let word = patrolled(at, bytes, stands);
            if on_terminal {
                eprint!("\r\x1b[K{word}");
            } else {
                say(&word);
            }
        };
        let every = Duration::from_secs(if on_terminal { 2 } else { 30 });
        let rate = u64::from(self.rate) << 20;
        while_said(every, &word, || {
            patrol::patrol(&mut disk, rate, &mut record, &escort);
        });
        if on_terminal {
            eprint!("\r\x1b[K");
        }
        let healed = look_at(&options)
            .ok()
            .and_then(|report| Some(healthy(&report).ok()?.1));
        let healed = healed
            .unwrap_or(healed_before)
            .saturating_sub(healed_before);
        println!(
            "read {} MiB in {:.1} s: {} KiB healed, {} KiB could be read from neither leg",
            size >> 20,
            begun.elapsed().as_secs_f64(),
            (healed * SECTOR_BYTES) >> 10,
            record.last_unreadable * 4,
        );
        Ok(if record.last_unreadable == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// How far a patrol has come; `stands`: as far as it was when this was said last.
fn patrolled(at: u64, bytes: u64, stands: bool) -> String {
    let why = if stands {
        ": a disk does not answer, or the fast leg is away"
    } else {
        ""
    };
    format!("read {} of {} MiB{why}", at >> 20, bytes >> 20)
}

/// A disk that says where it is read.
struct Counted<'a> {
    disk: BlockDevice,
    at: &'a AtomicU64,
}

impl Disk for Counted<'_> {
    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    fn read(&mut self, offset: u64, length: usize) -> io::Result<()> {
        self.at.store(offset, Ordering::Relaxed);
        self.disk.read(offset, length)
    }
}

/// The mirror's node and how many sectors of its fast leg were healed; an error unless both legs are in sync.
fn healthy(report: &Report) -> Result<(PathBuf, u64), String> {
    let mirror = report
        .facts
        .as_ref()
        .and_then(|facts| facts.mirror.as_ref());
    let fast = mirror
        .and_then(|mirror| mirror.fast.as_ref())
        .filter(|leg| leg.in_sync());
    match (mirror, fast) {
        (Some(mirror), Some(fast)) => Ok((
            PathBuf::from(format!("/dev/{}", mirror.name)),
            fast.healed_sectors,
        )),
        (Some(_) | None, None) | (None, Some(_)) => Err(format!(
            "a patrol needs both legs in sync; the super-disk is {}",
            report.condition.word()
        )),
    }
}

/// Flags of `superdisk teardown`.
#[derive(Debug, clap::Args)]
pub struct TeardownArgs {
    #[command(flatten)]
    flags: SpecFlags,

    /// Time limit.
    #[arg(long, value_name = "TIME", default_value = "50s", value_parser = time)]
    time: Duration,
}

impl TeardownArgs {
    /// Takes it down.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let options = options(&self.flags)?;
        take_down(&options.spec, &options.state_dir, self.time)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Flags of `superdisk reap`.
#[derive(Debug, clap::Args)]
pub struct ReapArgs {
    /// Folder of the locks and records of this node's agents.
    #[arg(long, value_name = "PATH", default_value = "/run/superdisk")]
    state_dir: PathBuf,

    /// The kubelet's folder.
    #[arg(long, value_name = "PATH", default_value = "/var/lib/kubelet")]
    kubelet: PathBuf,

    /// Print what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,

    /// Format of standard output.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,

    /// Time limit for taking one super-disk down.
    #[arg(long, value_name = "TIME", default_value = "50s", value_parser = time)]
    time: Duration,

    /// Time between two rounds.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time)]
    every: Duration,

    /// Exit after one round, with status 1 if something could not be taken down.
    #[arg(long)]
    once: bool,
}

impl ReapArgs {
    /// Reaps.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        end_on_sigterm()?;
        loop {
            let all = records(&self.state_dir)?;
            let reaped = reap::reap(&self.state_dir, &all, self.dry_run, self);
            for one in &reaped {
                match self.output {
                    Output::Human => println!("{} {}", one.volume, one.outcome.words()),
                    Output::Json => println!("{}", serde_json::to_string(one)?),
                }
            }
            if self.once {
                let failed = reaped
                    .iter()
                    .any(|one| matches!(one.outcome, Outcome::Failed(_)));
                return Ok(if failed {
                    ExitCode::FAILURE
                } else {
                    ExitCode::SUCCESS
                });
            }
            let _ = Stop::default().pause(self.every);
        }
    }
}

impl Node for ReapArgs {
    fn has_pod(&self, pod: &str) -> std::io::Result<bool> {
        reap::has_pod(&self.kubelet, pod)
    }

    fn take_down(&self, record: &Record) -> Result<(), String> {
        let Record {
            volume,
            pod: _,
            mount,
            durable,
            local,
            local_count,
        } = record;
        let spec = Spec {
            durable: durable.clone(),
            local: local.clone(),
            local_count: *local_count,
            volume: volume.parse().map_err(|error| chain(&error))?,
            mount: mount.clone(),
            // Of no concern to an end.
            copy_of: None,
            restored: None,
            filesystem: FilesystemKind::Xfs,
            policy: Policy::default(),
        };
        let taken_down = told(say, || take_down_claimed(&spec, &self.state_dir, self.time));
        taken_down.map_err(|error| chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patrol_that_stands_says_what_may_hold_it() {
        assert_eq!(patrolled(7 << 20, 9 << 20, false), "read 7 of 9 MiB");
        assert_eq!(
            patrolled(7 << 20, 9 << 20, true),
            "read 7 of 9 MiB: a disk does not answer, or the fast leg is away"
        );
    }
}
