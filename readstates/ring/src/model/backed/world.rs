//! The world of the search: its state, the steps it may take, and what must hold.

mod judge;
mod lead;
#[cfg(test)]
mod named;
mod network;
mod owner;
mod pod;
mod ring;
#[cfg(test)]
mod settled;
mod step;

use std::time::Duration;

use pod::Pod;
pub(super) use step::BackedStep;

use super::Limits;
use crate::{
    Epoch, Incarnation, SlotConfig, Stamp, Succession,
    fence::{Base, Stored},
    handoff::Event,
    model::search::Searched,
    mutant::{self, Shortcut},
    replication::{Acknowledgement, Answer, Entry, Frame, Tickets, What},
    slot::Slot,
};

/// The most pods there can be.
const PODS: usize = 3;
/// The most operations of clients.
const OPERATIONS: usize = 3;
/// The user of the world.
const USER: u64 = 1;
/// Asks for swaps, and is no pod.
const OPERATOR: Incarnation = Incarnation::new(u64::MAX - 1);
/// 2026-11-18; epochs grow by one.
const NOW: i64 = 1_795_000_000_000_000;

/// How often each operation was applied. An operation that was is ignored when it comes again.
type Content = [u8; OPERATIONS];

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackedWorld {
    ring: SlotConfig,
    pods: [Pod; PODS],
    database: Cell,
    /// On their way, each until it lands; sorted, so that equal worlds look equal.
    writes: Vec<Write>,
    /// Sent; each may arrive any number of times, or never.
    frames: Vec<Frame<u8, Content>>,
    acknowledgements: Vec<Acknowledgement>,
    parts: Vec<Part>,
    /// Asked of the ring; each is carried out at most once, whatever has become of who asked.
    swaps: Vec<Asked>,
    /// On the clocks of all pods, which agree: only how far two moments of one pod are apart matters.
    now: Duration,
    facts: Facts,
    next_incarnation: u64,
    left: Limits,
}

/// What clients know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Facts {
    /// Operations that were acknowledged, by their bits.
    acknowledged: u8,
    /// Operations that a read has shown, of a block that was the owner's own.
    shown: u8,
    /// Those of both that a take-over has said to be lost.
    lost: u8,
    /// The slot was taken from the dead, and whoever serves it next says what is lost: the owner before may answer
    /// until then.
    taken: bool,
    /// The latest epoch at which an answer was given.
    answered: Epoch,
    /// Versions that clients have, with what they stand for.
    versions: Vec<(u64, Content)>,
}

/// A user's block in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Block {
    content: Content,
    version: u64,
    dirty: bool,
    base: Base,
}

/// The user's cell in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Cell {
    content: Content,
    version: u64,
    stamp: Option<Stamp>,
    by: Incarnation,
}

impl Cell {
    /// What a pod finds in it.
    fn stored(&self, me: Incarnation) -> Option<Stored> {
        let is_own = self.by == me;
        self.stamp.map(|stamp| Stored { stamp, is_own })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Write {
    stamp: Stamp,
    by: Incarnation,
    content: Content,
    version: u64,
}

/// An operation that was done and is not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pending {
    operation: u8,
    epoch: Epoch,
    tickets: Tickets,
    version: u64,
    content: Content,
}

/// A message of a hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Part {
    to: Incarnation,
    from: Incarnation,
    epoch: Epoch,
    what: OfHandOff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum OfHandOff {
    /// Everything that was sealed: the block, if it is in memory.
    All(Option<Block>),
    Confirmed,
}

/// A swap that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Asked {
    by: Incarnation,
    expected: Epoch,
    owner: Incarnation,
    backup: Option<Incarnation>,
    how: How,
    /// Owner and backup were gone when a third one asked: what it says to be lost may be.
    proven: bool,
}

/// As [`Succession`], in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum How {
    Handed,
    TakenOver,
    Promoted,
}

impl From<Succession> for How {
    fn from(succession: Succession) -> Self {
        match succession {
            Succession::Handed => Self::Handed,
            Succession::TakenOver => Self::TakenOver,
            Succession::Promoted => Self::Promoted,
        }
    }
}

impl From<How> for Succession {
    fn from(how: How) -> Self {
        match how {
            How::Handed => Self::Handed,
            How::TakenOver => Self::TakenOver,
            How::Promoted => Self::Promoted,
        }
    }
}

impl BackedWorld {
    /// Pods that have just started, and have done what the limits say.
    #[must_use]
    pub fn new(left: Limits) -> Self {
        let first = SlotConfig::first(Incarnation::new(0), NOW);
        let nobody = Incarnation::new(u64::MAX);
        let before = SlotConfig::from_parts(Epoch::mint(None, 0), nobody, None, None);
        let pod = |number: u64| Pod::new(Incarnation::new(number), before);
        let mut world = Self {
            ring: first,
            pods: [pod(0), pod(1), pod(2)],
            database: Cell {
                content: [0; OPERATIONS],
                version: 0,
                stamp: None,
                by: nobody,
            },
            writes: Vec::new(),
            frames: Vec::new(),
            acknowledgements: Vec::new(),
            parts: Vec::new(),
            swaps: Vec::new(),
            now: Duration::ZERO,
            facts: Facts {
                acknowledged: 0,
                shown: 0,
                lost: 0,
                taken: false,
                answered: before.epoch(),
                versions: Vec::new(),
            },
            next_incarnation: PODS as u64,
            left: Limits::PLENTY,
        };
        lead::begin(&mut world, left.start);
        // What has happened is over, and the limits are for what comes.
        world.left = left;
        world
    }

    /// Where the process with this incarnation lives, if it does.
    fn place(&self, incarnation: Incarnation) -> Option<usize> {
        self.pods.iter().position(|pod| pod.me == incarnation)
    }

    fn is_dead(&self, incarnation: Incarnation) -> bool {
        let place = self.place(incarnation);
        place.is_none_or(|at| !self.pods[at].lease)
    }

    /// Whether a backup says of the config in force that it is incomplete.
    fn is_incomplete(&self, incarnation: Incarnation) -> bool {
        let place = self.place(incarnation);
        place.is_some_and(|at| {
            let pod = &self.pods[at];
            pod.slot.config() == self.ring && pod.backup.is_incomplete(slot())
        })
    }

    /// Takes a step, and all reads that are possible after it: they only add to what must hold.
    ///
    /// # Errors
    /// When that breaks a promise.
    pub fn take(&mut self, step: &BackedStep) -> Result<(), String> {
        self.carry_out(step)?;
        self.read_all()
    }

    fn carry_out(&mut self, step: &BackedStep) -> Result<(), String> {
        match *step {
            BackedStep::Arrive { pod, operation } => self.arrive(pod, operation),
            BackedStep::Answer { pod } => return self.answer(pod),
            BackedStep::Load { pod } => {
                let database = self.database;
                let pod = &mut self.pods[pod];
                pod.loading = pod.slot.admits().map(|epoch| (epoch, database));
            }
            BackedStep::Loaded { pod } => return self.loaded(pod),
            BackedStep::Flush { pod } => self.flush(pod),
            BackedStep::Land { write, answered } => self.land(write, answered),
            BackedStep::GiveUp { pod } => self.pods[pod].writing = None,
            BackedStep::Evict { pod } => self.pods[pod].block = None,
            BackedStep::Beat { pod } => {
                self.left.beats -= 1;
                self.beat(pod);
            }
            BackedStep::Seed { pod, to } => self.seed(pod, to),
            BackedStep::Name { pod } => self.name(pod),
            BackedStep::Drop { pod } => self.drop_backup(pod),
            BackedStep::Promote { pod } => self.promote(pod),
            BackedStep::Depose => self.depose(),
            BackedStep::Wait { pod } => self.now = self.now.max(self.pods[pod].serves_from),
            BackedStep::TakeOver { pod } => self.take_over(pod),
            BackedStep::Deliver { frame } => self.deliver(frame),
            BackedStep::Accept { acknowledgement } => self.accept(acknowledgement),
            BackedStep::Swap { asked } => self.swap(asked),
            BackedStep::Learn { pod } => return self.learn(pod),
            BackedStep::Agree { pod } => return self.agree(pod),
            BackedStep::Move { pod, to } => return self.hand_over(pod, to),
            BackedStep::Finish { pod } => return self.hear(pod, Event::Finished),
            BackedStep::TimeOut { pod } => return self.hear(pod, Event::StreamFailed),
            BackedStep::Receive { part } => return self.receive(part),
            BackedStep::Lapse { pod } => {
                self.left.lapses -= 1;
                self.pods[pod].lease = false;
            }
            BackedStep::Renew { pod } => return self.renew(pod),
            BackedStep::Crash { pod } => self.crash(pod),
        }
        Ok(())
    }

    fn crash(&mut self, index: usize) {
        self.left.crashes -= 1;
        let before = self.pods[index].me;
        let me = match mutant::takes(Shortcut::PromotesIncomplete) {
            true => before,
            false => {
                self.next_incarnation += 1;
                Incarnation::new(self.next_incarnation - 1)
            }
        };
        self.pods[index] = Pod::new(me, self.ring);
        // What is for nobody never arrives.
        let pods = &self.pods;
        let lives = |it: Incarnation| pods.iter().any(|pod| pod.me == it);
        self.frames.retain(|frame| lives(frame.to));
        self.acknowledgements.retain(|it| lives(it.to));
        self.parts.retain(|part| lives(part.to));
    }
}

impl Searched for BackedWorld {
    type Step = BackedStep;

    fn steps(&self) -> Vec<BackedStep> {
        self.possible()
    }

    fn take(&mut self, step: &BackedStep) -> Result<(), String> {
        self.take(step)
    }
}

/// The slot of the world.
fn slot() -> Slot {
    Slot::of_user(USER)
}

/// An entry of the world's slot.
fn entry(epoch: Epoch, what: What<u8, Content>) -> Entry<u8, Content> {
    Entry {
        slot: slot(),
        epoch,
        what,
    }
}

/// Puts an item where it belongs in a sorted list without repetitions.
fn insert<T: Ord>(list: &mut Vec<T>, item: T) {
    if let Err(place) = list.binary_search(&item) {
        list.insert(place, item);
    }
}
