//! Decides what a snapshot takes: what happened and the time in, what to do out. Pure.
//!
//! ```text
//!          begin          header written       synced, and       frozen            end
//!   Idle ─────────▶ Marking ──────────▶ Syncing ─────────▶ Freezing ─────▶ Frozen ─────▶ Probing ─▶ Idle, proven
//!    ▲                 │                   │  still whole     │              │              │  it was frozen all the time
//!    ├── failed, stop, durable leg lost ───┴──────────────────┘              │              │
//!    └── not proven: time over, caller gone, stop, durable leg lost ─────────┴──────────────┘
//! ```
//!
//! What may hang is done outside, one action after the other; the last one's result comes back as an event. Meanwhile
//! the time may be over, the agent may end or the durable leg be lost: these come at any time, and what comes back
//! after them only cleans up. A thaw may be asked for too often, never too seldom: whoever does it leaves alone what
//! is not ours, and what the red line holds.

mod phase;
mod sentences;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::{
    phase::{Held, Phase},
    sentences::{busy, is_over, stopped, unknown},
};
use super::{
    SnapshotId,
    wire::{Answer, Loss, Past, Refusal},
};

/// The longest that writers wait for a snapshot's maker. Databases give up on a disk after some tens of seconds; clouds
/// cut a snapshot within one.
pub const LONGEST: Duration = Duration::from_secs(10);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Asked to begin, with what stands in the way.
    Begin {
        id: SnapshotId,
        obstacle: Option<Refusal>,
    },
    /// Both legs have the header.
    Marked { generation: u64 },
    /// What was in memory is on both legs; what stands in the way now.
    Synced { obstacle: Option<Refusal> },
    /// The filesystem takes no writes.
    Froze,
    /// The last action did not succeed.
    Failed { why: String },
    /// Asked to end.
    End { id: SnapshotId },
    /// Whether it was still frozen, with the durable leg whole.
    Probed { still: bool },
    /// The time of this snapshot is over.
    TimeOver { id: SnapshotId },
    /// Who asked for this snapshot was gone before it was answered.
    CallerGone { id: SnapshotId },
    /// Writes no longer reach the durable leg.
    DurableLost,
    /// The agent ends.
    Stop,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the header of this snapshot to the durable leg, then to the fast leg. Leads to [`Event::Marked`].
    Mark(SnapshotId),
    /// Write to the legs what is in memory. Leads to [`Event::Synced`].
    Sync,
    /// Stop the writes, on account of this snapshot. Leads to [`Event::Froze`].
    Freeze { id: SnapshotId, generation: u64 },
    /// Find out whether the filesystem is still frozen. Leads to [`Event::Probed`].
    Probe,
    /// Send [`Event::TimeOver`] then.
    Wake { id: SnapshotId, at: Duration },
    /// Write the header of the generation that follows the snapshot's.
    Unmark,
    /// Let writes go on, unless the red line holds them.
    Thaw,
    /// Leave the freeze to the red line.
    HandOver,
    /// Answer the request.
    Answer(Answer),
}

/// The snapshots of one super-disk, one at a time.
#[derive(Debug, Default)]
pub struct Machine {
    phase: Phase,
    last: Option<Past>,
}

impl Machine {
    /// Remembers the snapshot before.
    #[must_use]
    pub fn after(last: Option<Past>) -> Self {
        Self {
            phase: Phase::Idle,
            last,
        }
    }

    /// The snapshot before.
    #[must_use]
    pub fn last(&self) -> Option<&Past> {
        self.last.as_ref()
    }

    /// What is held.
    #[must_use]
    pub fn status(&self, now: Duration) -> Answer {
        let open = match &self.phase {
            Phase::Frozen(held) => Some(held.open(now)),
            Phase::Idle
            | Phase::Marking(_)
            | Phase::Syncing { .. }
            | Phase::Freezing(_)
            | Phase::Probing(_) => None,
        };
        Answer::Status {
            under_way: self.phase.id().filter(|_| open.is_none()).cloned(),
            open,
            last: self.last.clone(),
        }
    }

    /// What to do now, in this order. `now` is any time that only grows.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Action> {
        match event {
            Event::Begin { id, obstacle } => self.begin(id, obstacle, now),
            Event::Marked { generation } => self.marked(generation),
            Event::Synced { obstacle } => self.synced(obstacle, now),
            Event::Froze => self.froze(now),
            Event::Failed { why } => self.failed(why),
            Event::End { id } => self.end(&id, now),
            Event::Probed { still } => self.probed(still),
            Event::TimeOver { id } => self.over(&id),
            Event::CallerGone { id } => {
                let actions = self.over(&id);
                // Nobody was told of it: the ID may be used again.
                self.last = self.last.take().filter(|last| last.id != id);
                actions
            }
            Event::DurableLost => self.ends(Loss::DurableLost),
            Event::Stop => self.ends(Loss::AgentEnded),
        }
    }

    fn begin(&mut self, id: SnapshotId, obstacle: Option<Refusal>, now: Duration) -> Vec<Action> {
        // Asked again: the answer may have been lost.
        if let Phase::Frozen(held) = &self.phase
            && held.id == id
        {
            return vec![Action::Answer(Answer::Begun(held.open(now)))];
        }
        if let Some(own) = self.phase.id() {
            return vec![refused(busy(own))];
        }
        if self.last.as_ref().is_some_and(|last| last.id == id) {
            return vec![refused(is_over(&id))];
        }
        if let Some(obstacle) = obstacle {
            return vec![refused(obstacle)];
        }
        self.phase = Phase::Marking(id.clone());
        vec![Action::Mark(id)]
    }

    fn marked(&mut self, generation: u64) -> Vec<Action> {
        let Phase::Marking(id) = &self.phase else {
            return interrupted();
        };
        let id = id.clone();
        self.phase = Phase::Syncing { id, generation };
        vec![Action::Sync]
    }

    fn synced(&mut self, obstacle: Option<Refusal>, now: Duration) -> Vec<Action> {
        let Phase::Syncing { id, generation } = &self.phase else {
            return interrupted();
        };
        let (id, generation) = (id.clone(), *generation);
        if let Some(obstacle) = obstacle {
            self.phase = Phase::Idle;
            return vec![Action::Unmark, refused(obstacle)];
        }
        let freeze = Action::Freeze {
            id: id.clone(),
            generation,
        };
        self.phase = Phase::Freezing(Held {
            id,
            generation,
            // From here on writers wait.
            until: now + LONGEST,
        });
        vec![freeze]
    }

    fn froze(&mut self, now: Duration) -> Vec<Action> {
        let Phase::Freezing(held) = &self.phase else {
            return interrupted();
        };
        let held = held.clone();
        if now >= held.until {
            self.phase = Phase::Idle;
            let why = "freezing the filesystem took longer than 10 s".to_owned();
            return undo(held.id, why);
        }
        let actions = vec![
            Action::Wake {
                id: held.id.clone(),
                at: held.until,
            },
            Action::Answer(Answer::Begun(held.open(now))),
        ];
        self.phase = Phase::Frozen(held);
        actions
    }

    fn failed(&mut self, why: String) -> Vec<Action> {
        match std::mem::take(&mut self.phase) {
            Phase::Marking(id) | Phase::Syncing { id, .. } | Phase::Freezing(Held { id, .. }) => {
                undo(id, why)
            }
            // It cannot be told whether it was frozen all the time.
            Phase::Probing(held) => self.not_proven(held, Loss::Thawed),
            phase @ (Phase::Idle | Phase::Frozen(_)) => {
                self.phase = phase;
                interrupted()
            }
        }
    }

    fn end(&mut self, id: &SnapshotId, now: Duration) -> Vec<Action> {
        if let Phase::Frozen(held) = &self.phase
            && held.id == *id
        {
            let held = held.clone();
            if now >= held.until {
                return self.not_proven(held, Loss::TimeOver);
            }
            self.phase = Phase::Probing(held);
            return vec![Action::Probe];
        }
        if self.phase.id() == Some(id) {
            return vec![refused(busy(id))];
        }
        vec![match &self.last {
            Some(last) if last.id == *id => Action::Answer(Answer::Ended(last.clone())),
            Some(_) | None => refused(unknown(id)),
        }]
    }

    fn probed(&mut self, still: bool) -> Vec<Action> {
        let Phase::Probing(held) = &self.phase else {
            // It was over in the meantime; and looking may have frozen it again.
            let answer = self.last.clone().map(Answer::Ended);
            let answer = answer.map_or_else(|| refused(stopped()), Action::Answer);
            return vec![Action::Thaw, Action::Unmark, answer];
        };
        let held = held.clone();
        if !still {
            return self.not_proven(held, Loss::Thawed);
        }
        let past = held.past(None);
        self.phase = Phase::Idle;
        self.last = Some(past.clone());
        // The header first: nothing is written in the snapshot's generation.
        vec![
            Action::Unmark,
            Action::Thaw,
            Action::Answer(Answer::Ended(past)),
        ]
    }

    /// The time of a snapshot is over.
    fn over(&mut self, id: &SnapshotId) -> Vec<Action> {
        match std::mem::take(&mut self.phase) {
            Phase::Frozen(held) | Phase::Probing(held) if held.id == *id => {
                self.give_up(held, Loss::TimeOver)
            }
            // Its end came in time, and may hang in the header: the thaw does not wait for that.
            Phase::Idle => vec![Action::Thaw],
            phase @ (Phase::Marking(_)
            | Phase::Syncing { .. }
            | Phase::Freezing(_)
            | Phase::Frozen(_)
            | Phase::Probing(_)) => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    /// Whatever is under way ends now, not in order.
    fn ends(&mut self, loss: Loss) -> Vec<Action> {
        let red_line = loss == Loss::DurableLost;
        match std::mem::take(&mut self.phase) {
            // What is being done for a begin comes back, and is undone then.
            Phase::Idle | Phase::Marking(_) | Phase::Syncing { .. } => Vec::new(),
            Phase::Freezing(_) if red_line => vec![Action::HandOver],
            Phase::Freezing(_) => Vec::new(),
            Phase::Frozen(held) | Phase::Probing(held) if red_line => {
                self.last = Some(held.past(Some(loss)));
                vec![Action::HandOver]
            }
            Phase::Frozen(held) | Phase::Probing(held) => self.give_up(held, loss),
        }
    }

    /// Writers first: they have waited long enough.
    fn give_up(&mut self, held: Held, loss: Loss) -> Vec<Action> {
        self.phase = Phase::Idle;
        self.last = Some(held.past(Some(loss)));
        vec![Action::Thaw, Action::Unmark]
    }

    fn not_proven(&mut self, held: Held, loss: Loss) -> Vec<Action> {
        let mut actions = self.give_up(held, loss);
        let past = self.last.clone().map(Answer::Ended);
        actions.extend(past.map(Action::Answer));
        actions
    }
}

/// What was done for a begin comes after what made it void.
fn interrupted() -> Vec<Action> {
    vec![Action::Thaw, Action::Unmark, refused(stopped())]
}

/// A begin that did not come to its end. Its maker was told of nothing, so the ID may be used again.
fn undo(id: SnapshotId, why: String) -> Vec<Action> {
    vec![
        Action::Thaw,
        Action::Unmark,
        Action::Answer(Answer::Failed { id, why }),
    ]
}

fn refused(refusal: Refusal) -> Action {
    Action::Answer(Answer::Refused(refusal))
}
