//! The agent's state, shared by its threads: memory that outlives it in the state folder, the newest report, and when
//! it last looked.

mod kept;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kept::{Files, Kept};

use super::{
    http::Source,
    say, snapshots,
    workers::{Outcome, Tried},
};
use crate::{
    claim::StateFolder,
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
        match (&tried, &error) {
            (_, Some(error)) => {
                say(error);
                inner.kept.last_error = Some(error.clone());
            }
            (Tried::Step { step, bad_sectors }, None) => {
                inner.kept.memory.after(step, *bad_sectors);
                inner.kept.last_error = None;
            }
            (Tried::BringUp, None) => inner.kept.last_error = None,
            (Tried::Beat, None) => inner.kept.memory.beat(now),
        }
        match tried {
            Tried::BringUp => inner.kept.refusal = refusal.as_ref().map(told),
            Tried::Step { .. } | Tried::Beat => {}
        }
        if let Some(refusal) = refusal {
            say(&refusal.to_string());
        }
        self.files.save(&inner.kept);
    }

    /// The filesystem takes writes again.
    pub fn thawed(&self) {
        let mut inner = self.inner();
        inner.kept.memory.frozen = false;
        self.files.save(&inner.kept);
        drop(inner);
        let snapshots::Kept {
            boot: _,
            frozen,
            last,
        } = self.snapshots();
        if frozen.is_some() {
            self.keep_snapshots(None, frozen.or(last));
        }
    }

    /// What an agent before this one, or this one, has kept of snapshots.
    #[must_use]
    pub fn snapshots(&self) -> snapshots::Kept {
        self.files.snapshots()
    }

    /// Keeps which snapshot holds the filesystem, and which one was before it.
    pub fn keep_snapshots(&self, frozen: Option<Past>, last: Option<Past>) {
        self.files.save_snapshots(frozen, last);
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
            last_error: inner.kept.last_error.clone(),
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
pub(super) mod tests {
    use std::fs;

    use super::*;
    use crate::{
        heal::tests::{LIMITS, NOW, healthy},
        model::Code,
        snapshot::wire::Loss,
        spec::{FilesystemKind, Policy},
    };

    pub(in crate::agent) fn spec() -> Spec {
        Spec {
            durable: "/dev/sdb".into(),
            local: vec!["/dev/nvme*".to_owned()],
            local_count: 2,
            volume: "vol".parse().unwrap(),
            copy_of: None,
            restored: None,
            mount: "/data".into(),
            filesystem: FilesystemKind::Xfs,
            policy: Policy::default(),
        }
    }

    fn agent(root: &Path) -> AgentState {
        AgentState::new(&spec(), StateFolder::new(&root.join("state"), "vol"), root)
    }

    fn boot(root: &Path, id: &str) {
        let folder = root.join("proc/sys/kernel/random");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("boot_id"), id).unwrap();
    }

    #[test]
    fn a_freeze_is_remembered_by_the_next_agent_but_not_over_a_boot() {
        let root = tempfile::tempdir().unwrap();
        boot(root.path(), "one\n");
        agent(root.path()).learn(Outcome::done(&Step::Freeze, &healthy()), NOW);
        assert!(agent(root.path()).memory().frozen);
        boot(root.path(), "two\n");
        assert!(!agent(root.path()).memory().frozen);
    }

    #[test]
    fn a_freeze_for_a_snapshot_is_remembered_until_the_boot_ends_or_somebody_thaws() {
        let root = tempfile::tempdir().unwrap();
        boot(root.path(), "one\n");
        let held = Past {
            id: "s".parse().unwrap(),
            generation: 7,
            lost: Some(Loss::AgentEnded),
        };
        agent(root.path()).keep_snapshots(Some(held.clone()), None);
        assert_eq!(agent(root.path()).snapshots().frozen, Some(held.clone()));
        boot(root.path(), "two\n");
        assert_eq!(agent(root.path()).snapshots().frozen, None);
        boot(root.path(), "one\n");
        agent(root.path()).thawed();
        let kept = agent(root.path()).snapshots();
        assert_eq!((kept.frozen, kept.last), (None, Some(held)));
    }

    #[test]
    fn an_attempt_counts_even_when_the_agent_dies_in_it() {
        let root = tempfile::tempdir().unwrap();
        agent(root.path()).before(&Step::RebuildFastLeg, NOW);
        assert_eq!(agent(root.path()).memory().attempts.len(), 1);
    }

    #[test]
    fn a_refusal_is_told_until_a_mirror_runs() {
        let root = tempfile::tempdir().unwrap();
        let agent = agent(root.path());
        let refused = Refusal {
            code: Code::SsdAhead,
            message: "The fast leg is ahead".to_owned(),
            next_step: "Run `superdisk resolve`".to_owned(),
        };
        agent.learn(
            Outcome {
                tried: Tried::BringUp,
                error: None,
                refusal: Some(refused),
            },
            NOW,
        );
        let shown = |facts: &Facts| {
            let decision = agent.decide(&LIMITS, facts, NOW);
            agent.publish(facts, &decision, Some(3), NOW);
            let report = agent.report().unwrap();
            (
                report.refusal.map(|refusal| refusal.code),
                report.generation,
            )
        };
        let nothing = Facts {
            mirror: None,
            stripe: None,
            mount: None,
            local_found: 2,
        };
        assert_eq!(shown(&nothing), (Some("E_SSD_AHEAD".to_owned()), Some(3)));
        assert_eq!(shown(&healthy()), (None, Some(3)));
    }

    #[test]
    fn a_patrol_is_sent_only_where_both_legs_are_in_sync() {
        let root = tempfile::tempdir().unwrap();
        let agent = agent(root.path());
        assert_eq!(agent.healthy_mirror(), None);
        let publish = |facts: &Facts| {
            let decision = agent.decide(&LIMITS, facts, NOW);
            agent.publish(facts, &decision, None, NOW);
            agent.healthy_mirror()
        };
        assert_eq!(publish(&healthy()), Some("/dev/md101".into()));
        let mut degraded = healthy();
        degraded.mirror.as_mut().unwrap().fast = None;
        assert_eq!(publish(&degraded), None);
    }
}
