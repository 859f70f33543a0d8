//! Three workers for what may hang: one that stops writes, one that counts on in the headers, and one for everything
//! else, so that a disk that hangs, or a plan that waits for its turn on the node, keeps none of the others from going.
//!
//! At most one job is under way in each. What failed, or changed nothing, is tried again after a pause; what
//! succeeded is gone on from at once.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    disk::{SuperDisk, Up},
    now,
    state::AgentState,
    watch::Waker,
};
use crate::{
    assemble::chain,
    heal::{Condition, Decision, DurableLoss, Step, facts::Facts},
    lineage::BrokenSlots,
    log::say,
    model::Refusal,
};

/// Before something that failed is tried again.
const PAUSE: Duration = Duration::from_secs(10);
/// How often the lineage is written: what a snapshot put back can be behind without being noticed. Another node watches
/// three times as long before it takes the network disk for unused.
const BEAT: Duration = Duration::from_secs(10);
/// Before a beat that a plan did not let through is tried again.
const SOON: Duration = Duration::from_secs(1);

/// What was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    Step {
        step: Step,
        /// Bad sectors of the fast leg when it was decided.
        bad_sectors: u64,
    },
    /// Bringing the super-disk up.
    BringUp,
    /// Writing the lineage, with what is known of its slots when it was written.
    Beat(BrokenSlots),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub tried: Tried,
    /// Why it failed.
    pub error: Option<String>,
    /// Why nothing was done.
    pub refusal: Option<Refusal>,
}

impl Outcome {
    /// A step was done.
    #[must_use]
    pub fn done(step: &Step, facts: &Facts) -> Self {
        Self {
            tried: Tried::Step {
                step: step.clone(),
                bad_sectors: bad_sectors(facts),
            },
            error: None,
            refusal: None,
        }
    }
}

fn bad_sectors(facts: &Facts) -> u64 {
    let fast = facts
        .mirror
        .as_ref()
        .and_then(|mirror| mirror.fast.as_ref());
    fast.map_or(0, |leg| leg.bad_sectors)
}

enum Job {
    Steps(Vec<Step>, Facts),
    BringUp,
    Beat(Facts),
}

/// One worker: a thread that does one job at a time.
struct Worker {
    jobs: mpsc::SyncSender<Job>,
    busy: bool,
    /// No new job before that.
    not_before: Instant,
    last: Vec<Step>,
}

/// Which worker.
#[derive(Clone, Copy)]
enum Which {
    Freeze,
    Beat,
    Steps,
}

/// The worker that an outcome is from, and whether it is free again.
struct Message {
    worker: Which,
    outcome: Option<Outcome>,
}

/// All workers of an agent.
pub struct Workers {
    freeze: Worker,
    beat: Worker,
    steps: Worker,
    /// Whether there are beats in the present condition.
    beats: bool,
    beat_begun: Instant,
    beat_at: Instant,
    messages: mpsc::Receiver<Message>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts their threads. They end with the process: what hangs in a disk cannot be ended otherwise.
    #[must_use]
    pub fn start(disk: Arc<SuperDisk>, agent: Arc<AgentState>, waker: Waker) -> Self {
        let (sender, messages) = mpsc::channel();
        let waker = Arc::new(waker);
        let worker = |worker| {
            let (jobs, todo) = mpsc::sync_channel(1);
            let (disk, sender, waker) = (Arc::clone(&disk), sender.clone(), Arc::clone(&waker));
            let agent = Arc::clone(&agent);
            thread::spawn(move || {
                for job in todo {
                    let tell = |outcome| {
                        // The receiver is gone at the end.
                        let _ = sender.send(Message { worker, outcome });
                    };
                    let begun = |step: &Step| agent.before(step, now());
                    do_job(&disk, job, &begun, &|outcome| tell(Some(outcome)));
                    tell(None);
                    waker.wake();
                }
            });
            Worker {
                jobs,
                busy: false,
                not_before: Instant::now(),
                last: Vec::new(),
            }
        };
        Self {
            freeze: worker(Which::Freeze),
            beat: worker(Which::Beat),
            steps: worker(Which::Steps),
            beats: false,
            beat_begun: Instant::now(),
            beat_at: Instant::now(),
            messages,
        }
    }

    /// What came of things since the last call.
    pub fn outcomes(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            self.take(message, &mut outcomes);
        }
        outcomes
    }

    fn take(&mut self, Message { worker, outcome }: Message, outcomes: &mut Vec<Outcome>) {
        let worker = match worker {
            Which::Freeze => &mut self.freeze,
            Which::Beat => &mut self.beat,
            Which::Steps => &mut self.steps,
        };
        match outcome {
            None => worker.busy = false,
            Some(outcome) => {
                if matches!(outcome.tried, Tried::Beat(_)) {
                    self.beat_at = self.beat_begun + BEAT;
                }
                if outcome.error.is_some() {
                    worker.not_before = Instant::now() + PAUSE;
                }
                outcomes.push(outcome);
            }
        }
    }

    /// Begins to bring the super-disk up; false when the worker is busy, or there is a reason not to.
    pub fn bring_up(&mut self, decision: &Decision) -> bool {
        let lost = matches!(decision.condition, Condition::DurableLost { .. });
        !lost && self.steps.begin(Job::BringUp)
    }

    /// Hands out what was decided, as far as the workers are free.
    pub fn hand_out(&mut self, decision: &Decision, facts: &Facts) {
        let (freeze, work): (Vec<Step>, Vec<Step>) = decision
            .steps
            .iter()
            .cloned()
            .partition(|step| *step == Step::Freeze);
        self.freeze.begin_steps(freeze, facts);
        self.steps.begin_steps(work, facts);
        self.beats = match decision.condition {
            Condition::Healthy
            | Condition::Rebuilding
            | Condition::FastLost { .. }
            | Condition::DurableLost {
                why: DurableLoss::Returned,
                ..
            } => true,
            Condition::NotAssembled | Condition::DurableLost { .. } | Condition::WrongWay => false,
        };
        let now = Instant::now();
        if self.beats && now >= self.beat_at && self.beat.begin(Job::Beat(facts.clone())) {
            (self.beat_begun, self.beat_at) = (now, now + SOON);
        }
    }

    /// How long nothing has to be handed out, `longest` at most: until the next beat, whatever is looked at before it.
    #[must_use]
    pub fn rest(&self, longest: Duration) -> Duration {
        // The end of one that is under way wakes.
        if !self.beats || self.beat.busy {
            return longest;
        }
        let next = self.beat_at.max(self.beat.not_before);
        longest.min(next.saturating_duration_since(Instant::now()))
    }

    /// Waits until no job is under way, at most until `deadline`; what came of them.
    pub fn end(&mut self, deadline: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while self.freeze.busy || self.beat.busy || self.steps.busy {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left / 2) {
                Ok(message) => self.take(message, &mut outcomes),
                Err(_) => break,
            }
        }
        outcomes
    }
}

impl Worker {
    fn begin(&mut self, job: Job) -> bool {
        if self.busy || Instant::now() < self.not_before {
            return false;
        }
        self.busy = self.jobs.try_send(job).is_ok();
        self.busy
    }

    fn begin_steps(&mut self, steps: Vec<Step>, facts: &Facts) {
        if steps.is_empty() {
            self.last.clear();
            return;
        }
        if self.busy || Instant::now() < self.not_before {
            return;
        }
        // Decided again right after it was done: it did not help, and is not to be repeated in a circle.
        if self.last == steps {
            self.not_before = Instant::now() + PAUSE;
        }
        self.last.clone_from(&steps);
        self.busy = self.jobs.try_send(Job::Steps(steps, facts.clone())).is_ok();
    }
}

fn do_job(disk: &SuperDisk, job: Job, begun: &dyn Fn(&Step), tell: &dyn Fn(Outcome)) {
    match job {
        Job::Steps(steps, facts) => {
            for step in steps {
                say(&step.to_string());
                let error = disk.step(&step, &facts, &|| begun(&step)).err();
                let failed = error.is_some();
                tell(Outcome {
                    error: error.map(|error| chain(&error)),
                    ..Outcome::done(&step, &facts)
                });
                if failed {
                    return;
                }
            }
        }
        Job::BringUp => {
            let (error, refusal) = match disk.bring_up() {
                Ok(Up::Done) => (None, None),
                Ok(Up::WithoutFastLeg(why)) => {
                    (Some(format!("serving without the fast leg: {why}")), None)
                }
                Ok(Up::NotGrown(why)) => (
                    Some(format!("serving at the size that it had: {why}")),
                    None,
                ),
                Ok(Up::Refused(refusal)) => (None, Some(refusal)),
                Err(error) => (Some(chain(&error)), None),
            };
            tell(Outcome {
                tried: Tried::BringUp,
                error,
                refusal,
            });
        }
        Job::Beat(facts) => {
            let (broken, error) = match disk.beat(&facts) {
                Ok(Some(broken)) => (broken, None),
                // The plan writes headers.
                Ok(None) => return,
                Err(error) => (BrokenSlots::default(), Some(chain(&error))),
            };
            tell(Outcome {
                tried: Tried::Beat(broken),
                error,
                refusal: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::{
        agent::{
            disk::tests::node,
            state::tests::spec,
            watch::{Watch, Woken},
        },
        claim::StateFolder,
        heal::tests::healthy,
    };

    fn started() -> (TempDir, Workers, Watch) {
        let (root, disk) = node();
        let state = StateFolder::new(&root.path().join("state"), "vol");
        let agent = AgentState::new(&spec(), state, root.path());
        let (watch, waker) = Watch::new(Path::new("/")).unwrap();
        let workers = Workers::start(Arc::new(disk), Arc::new(agent), waker);
        (root, workers, watch)
    }

    fn decided(condition: Condition, steps: Vec<Step>) -> Decision {
        Decision {
            condition,
            notices: Vec::new(),
            steps,
        }
    }

    const LONGEST: Duration = Duration::from_secs(3600);

    #[test]
    fn the_rest_ends_with_the_next_beat_however_often_it_was_broken() {
        let (_root, mut workers, _watch) = started();
        assert_eq!(workers.rest(LONGEST), LONGEST, "there are no beats yet");
        workers.beats = true;
        workers.beat_at = Instant::now() + Duration::from_secs(3);
        for _ in 0..2 {
            assert!(workers.rest(LONGEST) <= Duration::from_secs(3));
        }
        workers.beat_at = Instant::now();
        assert_eq!(workers.rest(LONGEST), Duration::ZERO);
        // One that failed is tried again after its pause, and the end of one that is under way wakes.
        workers.beat.not_before = Instant::now() + Duration::from_secs(60);
        assert!(workers.rest(LONGEST) > Duration::from_secs(30));
        workers.beat.busy = true;
        assert_eq!(workers.rest(LONGEST), LONGEST);
    }

    #[test]
    fn the_next_beat_is_due_ten_seconds_after_the_last_began_or_soon_after_one_that_a_plan_held_up()
    {
        let (_root, mut workers, mut watch) = started();
        let mut unmounted = healthy();
        unmounted.mount = None;
        workers.hand_out(&decided(Condition::Healthy, vec![]), &unmounted);
        assert!(workers.rest(LONGEST) == LONGEST || !workers.beat.busy);
        while workers.beat.busy {
            assert_eq!(watch.sleep(LONGEST).unwrap(), Woken::Look);
            workers.outcomes();
        }
        // Its header could not be read: that was a beat.
        assert_eq!(workers.beat_at, workers.beat_begun + BEAT);
        let held_up = Message {
            worker: Which::Beat,
            outcome: None,
        };
        workers.beat_at = workers.beat_begun + SOON;
        workers.take(held_up, &mut Vec::new());
        assert_eq!(workers.beat_at, workers.beat_begun + SOON);
        workers.hand_out(&decided(Condition::NotAssembled, vec![]), &unmounted);
        assert_eq!(workers.rest(LONGEST), LONGEST);
    }

    #[test]
    fn what_came_of_the_last_jobs_is_known_at_the_end() {
        let (_root, mut workers, _watch) = started();
        let step = Step::ClearWriteError;
        let decision = decided(Condition::NotAssembled, vec![step.clone()]);
        workers.hand_out(&decision, &healthy());
        let outcomes = workers.end(Instant::now() + LONGEST);
        assert_eq!(outcomes, [Outcome::done(&step, &healthy())]);
    }
}
