//! `agent`: maintains a running super-disk for as long as its pod lives.
//!
//! ```text
//!  main thread    ┌─▶ sleep (md, devices, signals, 10 s) ─▶ look (sysfs) ─▶ heal::decide ─▶ publish ─┐
//!                 └───────────────────────────────────────────────────────────────────────┬───────────┘
//!                                                                     freeze, at once     │ everything else
//!  other threads   patrol   HTTP (metrics, state, probes)   snapshots   workers: freeze ◀─┴─▶ steps
//! ```
//!
//! The main thread reads from no disk, so that it sees a lost durable leg and stops the writes while other threads hang
//! in that very disk. On SIGTERM it takes the super-disk down; after a kill the next agent adopts what is left, or
//! [`crate::reap`] takes it down.

mod beats;
pub mod cli;
pub mod disk;
pub mod freezer;
pub mod host;
pub mod http;
pub mod snapshots;
pub mod socket;
pub mod state;
pub mod watch;
pub mod workers;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use self::{
    disk::{SuperDisk, Up},
    host::AgentHost,
    snapshots::Snapshots,
    state::AgentState,
    watch::{Watch, Woken},
    workers::Workers,
};
use crate::{
    assemble::{chain, record},
    claim::{Claim, ClaimError, Record, StateFolder},
    heal::{
        Condition, Limits, decide,
        facts::{Facts, Leg},
        memory::Seconds,
    },
    log::say,
    patrol::{self, BlockDevice, Escort},
    snapshot::wire::socket_path,
    spec::Spec,
    status::{Paint, Report, draw},
    stop::Stop,
    teardown::{TeardownError, teardown},
    told::told,
};

/// Longest time between two looks.
const ROUND: Duration = Duration::from_secs(10);
/// Between two attempts to bring up what was refused.
const ASSEMBLE_AGAIN: Duration = Duration::from_secs(30);
/// Between two looks whether a patrol is due.
const PATROL_LOOK: Duration = Duration::from_secs(30);
/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 128;
/// Turns of `--once` before it gives up: a replaced disk takes four.
const TURNS: usize = 20;

/// Settings of the agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which super-disk.
    pub spec: Spec,
    /// The pod that it is for; the reaper needs to know.
    pub pod: Option<String>,
    /// Where locks and memory are kept.
    pub state_dir: PathBuf,
    /// Where to answer.
    pub listen: SocketAddr,
    /// From the end of a patrol to the start of the next.
    pub patrol_every: Duration,
    /// How fast it reads, bytes a second.
    pub patrol_rate: u64,
    /// From the end of a check to the start of the next.
    pub check_every: Duration,
    /// The most a check takes, KiB/s.
    pub check_max_kib: u64,
    /// How long the end may take.
    pub teardown_time: Duration,
}

impl Options {
    fn limits(&self) -> Limits {
        Limits {
            local_count: self.spec.local_count,
            rebuild_min_kib: self.spec.policy.rebuild_min_kib,
            rebuild_max_kib: self.spec.policy.rebuild_max_kib,
            check_max_kib: self.check_max_kib,
            check_every: self.check_every.as_secs(),
            grow: self.spec.policy.grow,
        }
    }

    fn record(&self) -> Record {
        record(&self.spec, self.pod.clone())
    }
}

/// Why the agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another process holds this volume, or the state folder cannot be used.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The port is not available.
    #[error("failed to listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    /// Signals or the poll failed.
    #[error("failed to wait for changes")]
    Wait(#[source] io::Error),
    /// Told to end, and the super-disk still runs.
    #[error(transparent)]
    Teardown(#[from] TeardownError),
    /// One round did not come to an end.
    #[error("failed to finish a round: {0}")]
    Round(String),
}

/// Seconds since 1970. A clock before that is as good as none.
#[must_use]
pub fn now() -> Seconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Maintains a super-disk until told to end; then takes it down.
pub fn run(options: &Options) -> Result<ExitCode, AgentError> {
    let volume = options.spec.volume.to_string();
    let _claim = Claim::take(&options.state_dir, &volume)?;
    let state = StateFolder::new(&options.state_dir, &volume);
    let root = PathBuf::from("/");
    let agent = Arc::new(AgentState::new(&options.spec, state, &root));
    agent.keep_record(&options.record());
    let disk = SuperDisk::new(options.spec.clone(), &root, &options.state_dir);
    let disk = Arc::new(disk.with_known_mirror(agent.mirror()));
    let snapshots = Snapshots::new(Arc::clone(&disk), Arc::clone(&agent), options.limits());
    let socket = listen_for_snapshots(&options.state_dir, &volume, &snapshots);
    let listen = |source| AgentError::Listen {
        address: options.listen,
        source,
    };
    let listener = readstates_listen::listen(options.listen, BACKLOG).map_err(listen)?;
    let answers = Arc::clone(&agent);
    // Ends with the process: it holds nothing.
    thread::spawn(move || http::serve(&listener, &*answers));
    let (mut watch, waker) = Watch::new(&root).map_err(AgentError::Wait)?;
    let mut workers = Workers::start(Arc::clone(&disk), Arc::clone(&agent), waker);
    let stop = Stop::default();
    let patrol = start_patrol(options, &agent, &stop);
    say(&format!(
        "maintaining {volume}, answering on {}",
        options.listen
    ));
    maintain(options, &disk, &agent, &snapshots, &mut workers, &mut watch)?;
    say("told to end");
    agent.stopping();
    stop.say();
    snapshots.stop();
    // A patrol that hangs in a disk keeps the mirror open; then stopping it says so.
    let deadline = Instant::now() + options.teardown_time;
    while !patrol.is_finished() && Instant::now() < deadline {
        let _ = Stop::default().pause(Duration::from_millis(20));
    }
    for outcome in workers.end(deadline) {
        agent.learn(outcome, now());
    }
    let host = AgentHost::new(&disk, &agent, deadline);
    told(say, || teardown(&options.spec.mount, &host))?;
    agent.is_down();
    if let Err(error) = StateFolder::new(&options.state_dir, &volume).forget_record() {
        // The reaper finds nothing to do, and forgets it then.
        say(&format!("failed to forget the record: {error}"));
    }
    if let Some(socket) = socket {
        // Nobody answers there any more; the next agent makes its own.
        let _ = std::fs::remove_file(socket);
    }
    say("the super-disk is down");
    Ok(ExitCode::SUCCESS)
}

/// Answers on the volume's socket; its path. Where that cannot be made, there are no snapshots: the red line needs none.
fn listen_for_snapshots(
    state_dir: &Path,
    volume: &str,
    snapshots: &Arc<Snapshots>,
) -> Option<PathBuf> {
    let path = socket_path(state_dir, volume);
    let listening = socket::listen(&path).inspect_err(|error| {
        let path = path.display();
        say(&format!(
            "failed to listen on {path}, so that no snapshot can be begun: {error}"
        ));
    });
    let listener = listening.ok()?;
    let answers = Arc::clone(snapshots);
    // Ends with the process: what it froze is thawed before that, or by the next agent.
    thread::spawn(move || socket::serve(&listener, answers));
    Some(path)
}

/// Looks, decides and hands work out, until told to end.
fn maintain(
    options: &Options,
    disk: &SuperDisk,
    agent: &AgentState,
    snapshots: &Arc<Snapshots>,
    workers: &mut Workers,
    watch: &mut Watch,
) -> Result<(), AgentError> {
    let limits = &options.limits();
    let mut known = None;
    let (mut assemble_at, mut first) = (Instant::now(), true);
    loop {
        for outcome in workers.outcomes() {
            agent.learn(outcome, now());
        }
        if agent.lacks_record() {
            agent.keep_record(&options.record());
        }
        watch.arm(known.as_ref());
        let facts = match disk.look() {
            Ok(facts) => facts,
            Err(error) => {
                // An array that came or went meanwhile; or something worse, which the probes then tell.
                agent.cannot_look(&chain(&error));
                if watch
                    .sleep(Duration::from_secs(1))
                    .map_err(AgentError::Wait)?
                    == Woken::Stop
                {
                    return Ok(());
                }
                continue;
            }
        };
        let decision = agent.decide(limits, &facts, now());
        agent.publish(&facts, &decision, disk.generation(), now());
        if matches!(decision.condition, Condition::DurableLost { .. }) {
            // Before the red line's own freeze is handed out: a snapshot thaws nothing from here on.
            snapshots.durable_lost();
        }
        let up = facts.mirror.is_some() && facts.mount.is_some();
        // The first time in any case: the header has to be read, for beats.
        let wants = first || (!up && Instant::now() >= assemble_at);
        if wants && workers.bring_up(&decision) {
            first = false;
            assemble_at = Instant::now() + ASSEMBLE_AGAIN;
        }
        workers.hand_out(&decision, &facts);
        let same = known
            .as_ref()
            .is_some_and(|known| same_arrays(known, &facts));
        known = Some(facts);
        let rest = workers.rest(ROUND);
        if same && watch.sleep(rest).map_err(AgentError::Wait)? == Woken::Stop {
            return Ok(());
        }
    }
}

/// Whether the files to watch are still the same.
fn same_arrays(one: &Facts, other: &Facts) -> bool {
    let names = |facts: &Facts| {
        let mirror = facts.mirror.as_ref();
        let leg = |leg: Option<&Leg>| leg.map(|leg| leg.device.clone());
        (
            mirror.map(|mirror| mirror.name.clone()),
            leg(mirror.and_then(|mirror| mirror.durable.as_ref())),
            leg(mirror.and_then(|mirror| mirror.fast.as_ref())),
            facts.stripe.as_ref().map(|stripe| stripe.name.clone()),
        )
    };
    names(one) == names(other)
}

/// Patrols when it is time, as long as both legs are in sync.
fn start_patrol(options: &Options, agent: &Arc<AgentState>, stop: &Stop) -> thread::JoinHandle<()> {
    let (agent, stop) = (Arc::clone(agent), stop.clone());
    let (every, rate) = (options.patrol_every.as_secs(), options.patrol_rate);
    thread::spawn(move || {
        while !stop.pause(PATROL_LOOK.min(Duration::from_secs(every.max(1)))) {
            let mut record = agent.patrol();
            let due = patrol::is_due(&record, every, now());
            let Some(mirror) = agent.healthy_mirror().filter(|_| due) else {
                continue;
            };
            match BlockDevice::open(&mirror) {
                Ok(mut disk) => patrol::patrol(
                    &mut disk,
                    rate,
                    &mut record,
                    &Escort {
                        stop: &stop,
                        may_read: &|| agent.healthy_mirror().as_ref() == Some(&mirror),
                        save: &|record| agent.patrolled(record),
                        now: &now,
                    },
                ),
                Err(error) => say(&format!("failed to open {}: {error}", mirror.display())),
            }
        }
    })
}

/// One round: bring it up, look, decide, do, until nothing is left to do; then say how it is.
pub fn once(options: &Options) -> Result<ExitCode, AgentError> {
    let volume = options.spec.volume.to_string();
    let _claim = Claim::take(&options.state_dir, &volume)?;
    let state = StateFolder::new(&options.state_dir, &volume);
    let root = PathBuf::from("/");
    let agent = Arc::new(AgentState::new(&options.spec, state, &root));
    agent.keep_record(&options.record());
    let disk = SuperDisk::new(options.spec.clone(), &root, &options.state_dir);
    let disk = Arc::new(disk.with_known_mirror(agent.mirror()));
    // What an agent that was killed has frozen is thawed.
    let _snapshots = Snapshots::new(Arc::clone(&disk), Arc::clone(&agent), options.limits());
    let failed = |error: &dyn std::error::Error| AgentError::Round(chain(error));
    let first = disk.look().map_err(|error| failed(&error))?;
    // A super-disk that lost its durable leg is frozen first of all: everything else asks disks.
    let decision = agent.decide(&options.limits(), &first, now());
    if !matches!(decision.condition, Condition::DurableLost { .. }) {
        match disk.bring_up().map_err(|error| failed(&error))? {
            Up::Done => {}
            Up::WithoutFastLeg(why) => say(&format!("serving without the fast leg: {why}")),
            Up::NotGrown(why) => say(&format!("serving at the size that it had: {why}")),
            Up::Refused(refusal) => {
                say(&refusal.to_string());
                return Ok(ExitCode::from(3));
            }
        }
    }
    let mut before = Vec::new();
    for _ in 0..TURNS {
        let facts = disk.look().map_err(|error| failed(&error))?;
        let decision = agent.decide(&options.limits(), &facts, now());
        if decision.steps.is_empty() || decision.steps == before {
            if matches!(decision.condition, Condition::Healthy) {
                disk.beat(&facts).map_err(|error| failed(&error))?;
            }
            let report = http::Source::report(&*agent);
            print!(
                "{}",
                report
                    .map(|report| draw(&report, Paint::Plain))
                    .unwrap_or_default()
            );
            return Ok(ExitCode::SUCCESS);
        }
        for step in &decision.steps {
            say(&step.to_string());
            let begun = || agent.before(step, now());
            let done = disk.step(step, &facts, &begun);
            done.map_err(|error| failed(&error))?;
            agent.learn(workers::Outcome::done(step, &facts), now());
        }
        before = decision.steps;
    }
    Err(AgentError::Round(format!("{TURNS} turns led nowhere")))
}

/// Reports the state of a super-disk, without changing anything.
pub fn look_at(options: &Options) -> Result<Report, AgentError> {
    let state = StateFolder::new(&options.state_dir, options.spec.volume.as_str());
    let root = PathBuf::from("/");
    let agent = AgentState::new(&options.spec, state, &root);
    let disk = SuperDisk::new(options.spec.clone(), &root, &options.state_dir);
    let disk = disk.with_known_mirror(agent.mirror());
    let facts = disk
        .look()
        .map_err(|error| AgentError::Round(chain(&error)))?;
    let decision = decide(&options.limits(), &facts, &agent.memory(), now());
    Ok(agent.report_of(&facts, &decision, now()))
}

/// Takes the super-disk down, whichever process assembled it.
pub fn take_down(spec: &Spec, state_dir: &Path, time: Duration) -> Result<(), AgentError> {
    let _claim = Claim::take(state_dir, spec.volume.as_str())?;
    take_down_claimed(spec, state_dir, time)
}

/// The same, by one that holds the claim.
pub fn take_down_claimed(spec: &Spec, state_dir: &Path, time: Duration) -> Result<(), AgentError> {
    let root = PathBuf::from("/");
    let state = StateFolder::new(state_dir, spec.volume.as_str());
    let agent = AgentState::new(spec, state, &root);
    let disk = SuperDisk::new(spec.clone(), &root, state_dir).with_known_mirror(agent.mirror());
    disk.learn();
    let host = AgentHost::new(&disk, &agent, Instant::now() + time);
    teardown(&spec.mount, &host)?;
    agent.is_down();
    Ok(())
}
