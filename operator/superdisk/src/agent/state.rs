//! The agent's state, shared by its threads: memory that outlives it in the state folder, the newest report, and when
//! it last looked.

mod kept;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kept::{Files, Kept, log};

use super::{
    http::Source,
    say, snapshots,
    workers::{Outcome, Tried},
};
use crate::{
    assemble::chain,
    claim::{ClaimError, Record, StateFolder},
    heal::{
        Condition, Decision, Limits, Step, decide,
        facts::Facts,
        memory::{Memory, Seconds},
    },
    model::Refusal,
    patrol,
    snapshot::wire::Past,
    spec::Spec,
    status::{Context, RefusalReport, Report, report},
};

/// A look that takes longer than this is stuck: sysfs answers at once, or never.
const STUCK: Duration = Duration::from_secs(60);

/// Everything the agent knows.
#[derive(Debug)]
pub struct AgentState {
    volume: String,
    target: PathBuf,
    files: Files,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    kept: Kept,
    patrol: patrol::Record,
    report: Option<Report>,
    /// Why the last beat failed. An agent that starts finds out by its own first one.
    beat_error: Option<String>,
    /// Why the record of the pod could not be written.
    record_error: Option<String>,
    looked: Instant,
    stopping: bool,
    said: String,
}

impl AgentState {
    /// Remembers what an agent before this one knew.
    #[must_use]
    pub fn new(spec: &Spec, state: StateFolder, root: &Path) -> Self {
        let files = Files::new(state, root);
        let mut kept = files.load();
        // No beat was written while no agent ran.
        kept.memory.last_beat = None;
        let inner = Inner {
            kept,
            patrol: files.patrol(),
            report: None,
            beat_error: None,
            record_error: None,
            looked: Instant::now(),
            stopping: false,
            said: String::new(),
        };
        Self {
            volume: spec.volume.to_string(),
            target: spec.mount.clone(),
            files,
            inner: Mutex::new(inner),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done before.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.inner().kept.memory.clone()
    }

    /// Name that the mirror had in this boot.
    #[must_use]
    pub fn mirror(&self) -> Option<String> {
        self.inner().kept.mirror.clone()
    }

    /// Writes down which pod this is for, where that is not written yet. An agent without it does everything but be reaped.
    pub fn keep_record(&self, record: &Record) {
        let kept = self.files.keep_record(record);
        let error = kept.err().map(|error| {
            let error = chain(&error);
            format!("`reap` cannot take this super-disk down once its pod is gone: {error}")
        });
        let mut inner = self.inner();
        if let Some(error) = error.as_ref().filter(|_| inner.record_error != error) {
            say(error);
        }
        inner.record_error = error;
    }

    /// Whether it could not be written down which pod this is for.
    #[must_use]
    pub fn lacks_record(&self) -> bool {
        self.inner().record_error.is_some()
    }

    /// Decides by what is seen and remembered.
    #[must_use]
    pub fn decide(&self, limits: &Limits, facts: &Facts, now: Seconds) -> Decision {
        let mut inner = self.inner();
        inner.looked = Instant::now();
        let before = inner.kept.memory.clone();
        inner.kept.memory.observe(facts, now);
        if before != inner.kept.memory {
            self.files.save(&inner.kept);
        }
        decide(limits, facts, &inner.kept.memory, now)
    }

    /// Counts an attempt before it is made.
    pub fn before(&self, step: &Step, now: Seconds) {
        let mut inner = self.inner();
        let before = inner.kept.memory.clone();
        inner.kept.memory.before(step, now);
        if before != inner.kept.memory {
            self.files.save(&inner.kept);
        }
    }

    /// Takes note of what came of something.
    pub fn learn(&self, outcome: Outcome, now: Seconds) {
        let mut inner = self.inner();
        let Outcome {
            tried,
            error,
            refusal,
        } = outcome;
        if let Some(error) = &error {
            say(error);
        }
        // Beats come every few seconds, steps perhaps in hours: neither hides what failed of the other.
        match tried {
            Tried::Step { step, bad_sectors } => {
                if error.is_none() {
                    inner.kept.memory.after(&step, bad_sectors);
                }
                inner.kept.last_error = error;
            }
            Tried::BringUp => {
                inner.kept.refusal = refusal.as_ref().map(told);
                inner.kept.last_error = error;
            }
            Tried::Beat(broken) => {
                if error.is_none() {
                    inner.kept.memory.beat(now, broken);
                }
                inner.beat_error = error;
            }
        }
        if let Some(refusal) = refusal {
            say(&refusal.to_string());
        }
        self.files.save(&inner.kept);
    }

    /// The filesystem takes writes again.
    pub fn thawed(&self) {
        let mut inner = self.inner();
        if inner.kept.memory.frozen {
            inner.kept.memory.frozen = false;
            self.files.save(&inner.kept);
        }
        drop(inner);
        let snapshots::Kept {
            boot: _,
            frozen,
            last,
        } = self.snapshots();
        if frozen.is_some() {
            log(self.keep_snapshots(None, frozen.or(last)));
        }
    }

    /// What an agent before this one, or this one, has kept of snapshots.
    #[must_use]
    pub fn snapshots(&self) -> snapshots::Kept {
        self.files.snapshots()
    }

    /// Keeps which snapshot holds the filesystem, and which one was before it.
    pub fn keep_snapshots(
        &self,
        frozen: Option<Past>,
        last: Option<Past>,
    ) -> Result<(), ClaimError> {
        self.files.save_snapshots(frozen, last)
    }

    /// Lets the probes and the page of metrics know.
    pub fn publish(
        &self,
        facts: &Facts,
        decision: &Decision,
        generation: Option<u64>,
        now: Seconds,
    ) {
        {
            let mut inner = self.inner();
            let before = (inner.kept.generation, inner.kept.mirror.clone());
            inner.kept.generation = generation.or(before.0);
            let mirror = facts.mirror.as_ref().map(|mirror| mirror.name.clone());
            inner.kept.mirror = mirror.or_else(|| before.1.clone());
            if before != (inner.kept.generation, inner.kept.mirror.clone()) {
                self.files.save(&inner.kept);
            }
        }
        let new = self.report_of(facts, decision, now);
        let said = serde_json::to_string(&(&new.condition, &new.notices, new.mounted));
        let said = said.unwrap_or_default();
        let mut inner = self.inner();
        if inner.said != said {
            say(&format!("state: {said}"));
            inner.said = said;
        }
        inner.report = Some(new);
    }

    /// What would be published.
    #[must_use]
    pub fn report_of(&self, facts: &Facts, decision: &Decision, now: Seconds) -> Report {
        let inner = self.inner();
        let context = Context {
            volume: self.volume.clone(),
            target: self.target.clone(),
            patrol: inner.patrol.clone(),
            refusal: inner
                .kept
                .refusal
                .clone()
                .filter(|_| facts.mirror.is_none()),
            last_error: joined([
                &inner.kept.last_error,
                &inner.beat_error,
                &inner.record_error,
            ]),
            generation: inner.kept.generation,
        };
        let memory = &inner.kept.memory;
        report(context, Some(facts.clone()), decision.clone(), memory, now)
    }

    /// The arrays could not be looked at this time.
    pub fn cannot_look(&self, why: &str) {
        let mut inner = self.inner();
        let said = format!("cannot look: {why}");
        if inner.said != said {
            say(&said);
            inner.said = said;
        }
    }

    /// Nothing runs any more: what was known of the arrays is over.
    pub fn is_down(&self) {
        let mut inner = self.inner();
        inner.kept.mirror = None;
        inner.kept.memory.check.window = None;
        self.files.save(&inner.kept);
    }

    /// From now on nothing is ready.
    pub fn stopping(&self) {
        self.inner().stopping = true;
    }

    /// How far the patrol is.
    #[must_use]
    pub fn patrol(&self) -> patrol::Record {
        self.inner().patrol.clone()
    }

    /// Keeps how far the patrol is.
    pub fn patrolled(&self, record: &patrol::Record) {
        self.inner().patrol = record.clone();
        self.files.save_patrol(record);
    }

    /// The mirror's node, while both legs are in sync.
    #[must_use]
    pub fn healthy_mirror(&self) -> Option<PathBuf> {
        let inner = self.inner();
        let report = inner.report.as_ref()?;
        let mirror = report.facts.as_ref()?.mirror.as_ref()?;
        let healthy = report.mounted && matches!(report.condition, Condition::Healthy);
        healthy.then(|| Path::new("/dev").join(&mirror.name))
    }
}

/// What failed of a step, of the last beat, and of the record.
fn joined(errors: [&Option<String>; 3]) -> Option<String> {
    let said: Vec<&str> = errors.into_iter().flatten().map(String::as_str).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn told(refusal: &Refusal) -> RefusalReport {
    let Refusal {
        code,
        message,
        next_step,
    } = refusal;
    RefusalReport {
        code: code.as_str().to_owned(),
        text: format!("{message}. {next_step}."),
    }
}

impl Source for AgentState {
    fn report(&self) -> Option<Report> {
        self.inner().report.clone()
    }

    fn is_alive(&self) -> bool {
        let inner = self.inner();
        inner.stopping || inner.looked.elapsed() < STUCK
    }

    fn is_stopping(&self) -> bool {
        self.inner().stopping
    }
}

#[cfg(test)]
pub(super) mod tests;
