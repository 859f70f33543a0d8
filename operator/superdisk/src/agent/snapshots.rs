//! Carries out what [`crate::snapshot::machine`] decides: one action after the other, each result back as an event.
//!
//! ```text
//!   socket ── begin, end ──▶ machine ──▶ actions ─┐        main thread ── durable leg lost, stop ──▶ machine
//!                               ▲                 │        timer ── time over ─────────────────────▶ machine
//!                               └──── result ◀────┘
//! ```
//!
//! Requests are carried out one at a time, and none waits for another. What the timer and the main thread say never
//! waits for a request that hangs in a disk: the machine is asked in no time, and a thaw needs no disk of ours.

use std::{
    sync::{Arc, Mutex, PoisonError, TryLockError},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{disk::SuperDisk, http::Source, now, socket, state::AgentState};
use crate::{
    assemble::chain,
    execute::retry,
    heal::{Limits, decide, durable_loss, facts::Facts},
    log::say,
    snapshot::{
        SnapshotId,
        machine::{Action, Event, LONGEST, Machine},
        obstacle::{Known, obstacle},
        wire::{Answer, Code, Loss, Past, Refusal, Request},
    },
    stop::Stop,
};

/// How long it may take to find out that a filesystem is frozen. One that is not is frozen by that, which takes longer.
const PROBE: Duration = Duration::from_secs(2);
/// How long a thaw that fails is tried again: nothing may be left frozen.
const THAW: Duration = Duration::from_secs(5);

/// What an agent that comes after this one has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The boot in which it was written: a freeze does not outlast one.
    pub boot: String,
    /// The snapshot that holds the filesystem, from before it is frozen until it is thawed.
    pub frozen: Option<Past>,
    /// The snapshot before.
    pub last: Option<Past>,
}

/// The snapshots of one super-disk.
#[derive(Debug)]
pub struct Snapshots {
    disk: Arc<SuperDisk>,
    agent: Arc<AgentState>,
    limits: Limits,
    began: Instant,
    machine: Mutex<Machine>,
    /// Held while a request is carried out.
    request: Mutex<()>,
}

impl Snapshots {
    /// Goes on from where an agent before this one was: what it had frozen is thawed, unless the red line holds it.
    #[must_use]
    pub fn new(disk: Arc<SuperDisk>, agent: Arc<AgentState>, limits: Limits) -> Arc<Self> {
        let kept = agent.snapshots();
        let last = kept.frozen.clone().or(kept.last);
        let snapshots = Self {
            disk,
            agent,
            limits,
            began: Instant::now(),
            machine: Mutex::new(Machine::after(last)),
            request: Mutex::new(()),
        };
        if snapshots.agent.memory().frozen {
            snapshots.disk.freezer().hold_red_line();
        }
        if let Some(held) = kept.frozen {
            say(&format!(
                "the snapshot {} is over: its agent ended before it",
                held.id
            ));
            snapshots.disk.freezer().take_over();
            snapshots.thaw();
        }
        Arc::new(snapshots)
    }

    /// Writes no longer reach the durable leg. Returns at once.
    pub fn durable_lost(self: &Arc<Self>) {
        self.drive(Event::DurableLost);
    }

    /// The super-disk is to end.
    pub fn stop(self: &Arc<Self>) {
        self.drive(Event::Stop);
    }

    fn ask(&self, event: Event) -> Vec<Action> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.on(event, self.began.elapsed())
    }

    fn last(&self) -> Option<Past> {
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.last().cloned()
    }

    /// Does what follows from an event, until nothing does; the answer, and whether it was frozen on the way.
    fn drive(self: &Arc<Self>, event: Event) -> (Option<Answer>, bool) {
        let (mut answer, mut froze) = (None, false);
        let mut next = Some(event);
        while let Some(event) = next.take() {
            froze |= event == Event::Froze;
            for action in self.ask(event) {
                match action {
                    Action::Answer(found) => answer = Some(found),
                    action => next = self.act(action).or(next),
                }
            }
        }
        (answer, froze)
    }

    /// Does one action; what came of it, where that decides how it goes on.
    fn act(self: &Arc<Self>, action: Action) -> Option<Event> {
        let failed = |error: &dyn std::error::Error| Event::Failed { why: chain(error) };
        match action {
            Action::Mark(id) => Some(match self.disk.look() {
                Ok(facts) => match self.disk.mark(&id, &facts) {
                    Ok(generation) => Event::Marked { generation },
                    Err(error) => failed(&error),
                },
                Err(error) => failed(&error),
            }),
            Action::Sync => Some(match self.disk.sync() {
                Ok(()) => Event::Synced {
                    obstacle: self.obstacle(),
                },
                Err(error) => failed(&error),
            }),
            Action::Freeze { id, generation } => {
                let lost = Some(Loss::AgentEnded);
                let held = Past {
                    id,
                    generation,
                    lost,
                };
                // Before it is done: an agent that is killed in it leaves a filesystem that the next one thaws. It thaws
                // none that it does not know of.
                if let Err(error) = self.agent.keep_snapshots(Some(held), self.last()) {
                    return Some(failed(&error));
                }
                Some(match self.disk.freezer().freeze_for_snapshot(LONGEST) {
                    Ok(()) => Event::Froze,
                    Err(error) => failed(&error),
                })
            }
            Action::Probe => Some(
                match (self.facts(), self.disk.freezer().is_still_frozen(PROBE)) {
                    (Ok(facts), Ok(still)) => Event::Probed {
                        still: still && facts.mirror.is_some() && !is_lost(&facts),
                    },
                    (Err(why), _) => Event::Failed { why },
                    (_, Err(error)) => failed(&error),
                },
            ),
            Action::Wake { id, at } => {
                let snapshots = Arc::clone(self);
                // Ends by itself within the time of a snapshot, or with the process.
                thread::spawn(move || {
                    let left = at.saturating_sub(snapshots.began.elapsed());
                    let _ = Stop::default().pause(left);
                    snapshots.drive(Event::TimeOver { id });
                });
                None
            }
            Action::Unmark => {
                self.unmark();
                None
            }
            Action::Thaw => {
                self.thaw();
                None
            }
            Action::HandOver => {
                self.disk.freezer().hold_red_line();
                None
            }
            Action::Answer(_) => None,
        }
    }

    fn facts(&self) -> Result<Facts, String> {
        self.disk.look().map_err(|error| chain(&error))
    }

    /// The generation after the snapshot; a beat makes up for it where that fails.
    fn unmark(&self) {
        let looked = self.facts();
        let seen = looked.as_ref().ok();
        // A header that is on the local disks alone would speak for a durable leg that has it not.
        let reached = seen.filter(|facts| facts.mirror.is_some() && !is_lost(facts));
        let done = self.disk.unmark(reached).map_err(|error| chain(&error));
        if let Err(why) = done.and(looked.map(drop)) {
            say(&format!(
                "the header still names the snapshot, until the next is written: {why}"
            ));
        }
    }

    fn thaw(&self) {
        // The main thread may not have noticed yet.
        if self.facts().is_ok_and(|facts| is_lost(&facts)) {
            self.disk.freezer().hold_red_line();
        }
        match retry(THAW, || self.disk.freezer().thaw_snapshot()) {
            Ok(()) => {
                if let Err(error) = self.agent.keep_snapshots(None, self.last()) {
                    say(&chain(&error));
                }
            }
            Err(error) => say(&format!(
                "failed to thaw: {}; run `fsfreeze --unfreeze` on the filesystem",
                chain(&error)
            )),
        }
    }

    fn obstacle(&self) -> Option<Refusal> {
        let facts = match self.facts() {
            Ok(facts) => facts,
            Err(why) => {
                return Some(Refusal::new(
                    Code::NotNow,
                    format!("The super-disk cannot be looked at: {why}"),
                    "Ask again in some seconds",
                ));
            }
        };
        let memory = self.agent.memory();
        let decision = decide(&self.limits, &facts, &memory, now());
        let known = Known {
            red_line: memory.frozen,
            lineage: self.disk.generation().is_some(),
            planning: self.disk.is_planning(),
            stopping: self.agent.is_stopping(),
        };
        obstacle(&facts, &decision, known)
    }

    fn begin(self: &Arc<Self>, id: SnapshotId) -> socket::Reply {
        let event = Event::Begin {
            id: id.clone(),
            obstacle: self.obstacle(),
        };
        let (answer, froze) = self.drive(event);
        socket::Reply {
            answer: answer.unwrap_or_else(nothing),
            owed: froze.then_some(id),
        }
    }
}

/// Whether the red line stands.
fn is_lost(facts: &Facts) -> bool {
    let mirror = facts.mirror.as_ref();
    mirror.is_some_and(|mirror| durable_loss(mirror).is_some())
}

/// Every request leads to an answer.
fn nothing() -> Answer {
    Answer::Refused(Refusal::new(
        Code::Busy,
        "The agent has no answer",
        "Ask again",
    ))
}

impl socket::Handler for Arc<Snapshots> {
    fn answer(&self, request: Request) -> socket::Reply {
        if request == Request::Status {
            let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
            return machine.status(self.began.elapsed()).into();
        }
        let _one = match self.request.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return socket::busy().into(),
        };
        match request {
            Request::Begin { id } => self.begin(id),
            Request::End { id } => {
                let (answer, _) = self.drive(Event::End { id });
                answer.unwrap_or_else(nothing).into()
            }
            Request::Status => nothing().into(),
        }
    }

    fn caller_gone(&self, id: SnapshotId) {
        say(&format!(
            "who asked for the snapshot {id} is gone: it is given up"
        ));
        self.drive(Event::CallerGone { id });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        agent::{disk::tests::node, state::tests::spec},
        claim::StateFolder,
        heal::tests::LIMITS,
    };

    #[test]
    fn nothing_is_frozen_that_cannot_be_written_down_for_the_next_agent() {
        let (root, disk) = node();
        let folder = root.path().join("state");
        let state = StateFolder::new(&folder, "vol");
        let agent = Arc::new(AgentState::new(&spec(), state, root.path()));
        let snapshots = Snapshots::new(Arc::new(disk), agent, LIMITS);
        // Nobody can write where a folder is.
        fs::create_dir_all(folder.join("vol.snapshot.new")).unwrap();
        let freeze = Action::Freeze {
            id: "nightly".parse().unwrap(),
            generation: 7,
        };
        let Some(Event::Failed { why }) = snapshots.act(freeze) else {
            panic!("it was frozen");
        };
        assert!(why.contains("vol.snapshot.json"), "{why}");
    }
}
