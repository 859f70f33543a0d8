//! The world of the search: its state, the steps it may take, and what must hold.

mod shell;

use crate::{
    Epoch, Incarnation, SlotConfig, Stamp, Succession, fence,
    handoff::{Event, SlotAtMember, Stage, State},
    mutant::{self, Rule},
};

/// The most members there can be.
const MEMBERS: usize = 3;
/// 2026-11-18; time stands still, which is the worst it can do to epochs.
const NOW: i64 = 1_795_000_000_000_000;
/// A process that was there before the first of these.
const NOBODY: Incarnation = Incarnation::new(u64::MAX);

/// How much may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Members at work: 2 or 3.
    pub members: u8,
    /// Operations that the client sends until they are acknowledged: 1 or 2.
    pub operations: u8,
    /// Changes of the ring.
    pub swaps: u8,
    /// Crashes.
    pub crashes: u8,
    /// Leases that run out.
    pub lapses: u8,
    /// Writes to the database.
    pub writes: u8,
    /// How often the store of the ring is restored to what it was before.
    pub restores: u8,
    /// Writes of an owner before the first, which is dead, that are still on their way: 0 or 1, of the first operation.
    pub late_writes: u8,
}

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    ring: SlotConfig,
    /// The line of the ring: see [`crate::Line`].
    line: u8,
    /// All lines that it has been on, a bit for each.
    lines: u64,
    next_line: u8,
    /// What the ring was before, while it can be restored to that.
    past: Vec<(SlotConfig, u8, u64)>,
    /// What those said last that have crashed: the line and the epoch that they knew.
    last_words: Vec<(u8, Epoch)>,
    /// It was restored.
    restored: bool,
    members: [Member; MEMBERS],
    database: Cell,
    /// On their way; sorted, so that equal worlds look equal.
    writes: Vec<Write>,
    /// Sent; each may arrive any number of times.
    messages: Vec<Message>,
    /// Asked of the ring; each is carried out at most once.
    swaps: Vec<Asked>,
    /// Operations that a client has an acknowledgement of.
    acknowledged: u8,
    /// Those of them that a crash or a lost lease may have taken.
    excused: u8,
    /// Versions that a client has, with the operations they stand for.
    versions: Vec<(u64, u8)>,
    next_incarnation: u64,
    left: Budget,
}

/// One member: the state machine as it is, and the shell around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    alive: bool,
    me: Incarnation,
    lease: bool,
    slot: SlotAtMember,
    block: Option<Block>,
    /// What an origin sent: its block, if it has one.
    received: Option<Option<Block>>,
    /// Read from the database, on its way into memory, for an epoch.
    loading: Option<(Epoch, Cell)>,
    /// Applied, not acknowledged yet.
    answer: Option<Answer>,
    writing: Option<Stamp>,
    /// Changed since the write began.
    rearmed: bool,
    seq: u32,
    /// The epoch at which it served last: what it writes was acknowledged then.
    term: Option<Epoch>,
    /// The line of the ring that it has said it knows.
    said: u8,
}

/// A user's block in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Block {
    operations: u8,
    version: u64,
    dirty: bool,
    stamp: Option<Stamp>,
}

/// The user's cell in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Cell {
    operations: u8,
    version: u64,
    stamp: Option<Stamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Write {
    by: Incarnation,
    stamp: Stamp,
    operations: u8,
    version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Answer {
    operation: u8,
    epoch: Epoch,
    version: u64,
    operations: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    to: Incarnation,
    from: Incarnation,
    epoch: Epoch,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum What {
    Offer(Option<Block>),
    LastPart(Option<Block>),
    Confirm,
}

/// A swap that was asked for: by a member, or by an operator that saw the owner gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Asked {
    by: Option<Incarnation>,
    expected: Epoch,
    owner: Incarnation,
    taken_over: bool,
}

/// What may happen next. Members, writes, messages and swaps by their place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A client's operation arrives at a member.
    Arrive { member: usize, operation: u8 },
    /// A member reads the user's cell.
    Load { member: usize },
    /// What it read goes into its memory.
    Loaded { member: usize },
    /// It answers the client.
    Answer { member: usize },
    /// It sends a write.
    Flush { member: usize },
    /// A write lands, and its answer arrives or not.
    Land { write: usize, answered: bool },
    /// A write is given up by who sent it; it may still land.
    GiveUp { member: usize },
    /// A write never lands.
    Vanish { write: usize },
    /// A clean block is evicted.
    Evict { member: usize },
    /// The operator asks for a move.
    Move { member: usize, to: usize },
    /// The state machine hears of something that concerns this member alone.
    Hear { member: usize, event: Event },
    /// A message arrives.
    Receive { message: usize },
    /// The ring carries out a swap, and the answer arrives or not.
    Swap { asked: usize, answered: bool },
    /// A swap is never carried out.
    LoseSwap { asked: usize },
    /// A member reads the ring, tells it what it has forgotten, and says which line it knows.
    Learn { member: usize },
    /// A member that took the slot finds that everybody who lives knows the ring.
    Agree { member: usize },
    /// A member that took the slot finds that one that is dead knew more than the ring does.
    Doubt { member: usize },
    /// The ring is what it was before.
    Restore { past: usize },
    /// An operator sees the owner gone and names another.
    TakeOver { to: usize },
    /// A lease runs out.
    Lapse { member: usize },
    /// It is renewed, after the member has noticed.
    Renew { member: usize },
    /// A process ends.
    Crash { member: usize },
    /// Another starts in its place.
    Restart { member: usize },
}

impl World {
    /// Members that have just started, the first of which owns the slot.
    #[must_use]
    pub fn new(left: Budget) -> Self {
        let ring = SlotConfig::first(Incarnation::new(0), NOW);
        let epoch_before = Epoch::mint(None, 0);
        let late = Write {
            by: NOBODY,
            stamp: Stamp::new(epoch_before, 0),
            operations: 1,
            version: fence::first_version(0, epoch_before),
        };
        let member = |number: u64| {
            let me = Incarnation::new(number);
            // The ring was empty before: everybody learns its first config.
            let before = SlotConfig::from_parts(epoch_before, me, None, None);
            let mut slot = SlotAtMember::at_start(me, before);
            slot.step(Event::Learned(ring));
            // Everybody has.
            let epoch = ring.epoch();
            slot.step(Event::Agreed { epoch });
            let term = slot.admits();
            Member {
                term,
                ..Member::new(me, slot)
            }
        };
        Self {
            ring,
            line: 0,
            lines: 1,
            next_line: 1,
            past: Vec::new(),
            last_words: Vec::new(),
            restored: false,
            members: [member(0), member(1), member(2)],
            database: Cell {
                operations: 0,
                version: 0,
                stamp: None,
            },
            writes: vec![late; usize::from(left.late_writes.min(1))],
            messages: Vec::new(),
            swaps: Vec::new(),
            acknowledged: 0,
            excused: 0,
            versions: Vec::new(),
            next_incarnation: MEMBERS as u64,
            left,
        }
    }

    /// Everything that may happen next.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(32);
        for index in 0..self.at_work() {
            if self.members[index].alive {
                self.steps_of(index, &mut steps);
            } else {
                steps.push(Step::Restart { member: index });
            }
        }
        for write in 0..self.writes.len() {
            steps.extend([
                Step::Land {
                    write,
                    answered: true,
                },
                Step::Land {
                    write,
                    answered: false,
                },
                Step::Vanish { write },
            ]);
        }
        for (message, sent) in self.messages.iter().enumerate() {
            if self.place(sent.to).is_some() {
                steps.push(Step::Receive { message });
            }
        }
        for asked in 0..self.swaps.len() {
            if self.left.swaps > 0 && self.is_written(asked) {
                steps.extend([
                    Step::Swap {
                        asked,
                        answered: true,
                    },
                    Step::Swap {
                        asked,
                        answered: false,
                    },
                ]);
            }
            steps.push(Step::LoseSwap { asked });
        }
        if self.left.restores > 0 {
            steps.extend((0..self.past.len()).map(|past| Step::Restore { past }));
        }
        let gone = self
            .place(self.ring.owner())
            .is_none_or(|owner| !self.members[owner].lease);
        if gone && self.left.swaps > 0 {
            let able = (0..self.at_work()).filter(|&to| self.members[to].may_take(self.ring));
            steps.extend(able.map(|to| Step::TakeOver { to }));
        }
        steps
    }

    fn steps_of(&self, index: usize, steps: &mut Vec<Step>) {
        let member = &self.members[index];
        let admits = member.slot.admits();
        if admits.is_some() && member.answer.is_none() {
            if member.block.is_some() {
                let open =
                    (0..self.left.operations).filter(|bit| self.acknowledged & (1 << bit) == 0);
                steps.extend(open.map(|operation| Step::Arrive {
                    member: index,
                    operation,
                }));
            } else if member.loading.is_none() {
                steps.push(Step::Load { member: index });
            }
        }
        let may = [
            (member.loading.is_some(), Step::Loaded { member: index }),
            (member.answer.is_some(), Step::Answer { member: index }),
            (
                member.may_flush() && self.left.writes > 0,
                Step::Flush { member: index },
            ),
            (member.writing.is_some(), Step::GiveUp { member: index }),
            (member.may_evict(), Step::Evict { member: index }),
            (
                member.slot.config() != self.ring || member.said != self.line,
                Step::Learn { member: index },
            ),
            (self.agrees(index), Step::Agree { member: index }),
            (self.doubts(index), Step::Doubt { member: index }),
            (self.left.crashes > 0, Step::Crash { member: index }),
            (
                member.lease && self.left.lapses > 0,
                Step::Lapse { member: index },
            ),
            (member.may_renew(), Step::Renew { member: index }),
        ];
        steps.extend(
            may.into_iter()
                .filter(|(may, _)| *may)
                .map(|(_, step)| step),
        );
        steps.extend(member.hears().into_iter().map(|event| Step::Hear {
            member: index,
            event,
        }));
        if let State::Owner {
            streaming_to: None, ..
        } = member.slot.state()
            && self.left.swaps > 0
        {
            let others = (0..self.at_work()).filter(|&to| to != index && self.members[to].alive);
            steps.extend(others.map(|to| Step::Move { member: index, to }));
        }
    }

    /// Whether everybody who lives has seen that a member took the slot, and nobody who is dead knew more.
    fn agrees(&self, index: usize) -> bool {
        self.is_seen(index) && !self.is_doubtful(index)
    }

    fn doubts(&self, index: usize) -> bool {
        self.is_seen(index) && self.is_doubtful(index)
    }

    fn is_seen(&self, index: usize) -> bool {
        let member = &self.members[index];
        let taking = matches!(member.slot.state(), State::Taking { .. });
        let mine = member.slot.config() == self.ring && member.lease;
        let at_work = &self.members[..self.at_work()];
        let mut living = at_work.iter().filter(|it| it.alive && it.lease);
        taking && mine && living.all(|it| it.said == self.line)
    }

    /// Whether the dead knew of another line, and what was here before is what the slot would go on with; or of an epoch
    /// that is no lower.
    fn is_doubtful(&self, index: usize) -> bool {
        if mutant::drops(Rule::R17) {
            return false;
        }
        let member = &self.members[index];
        let is_warm = self.ring.inherits().is_some();
        let asked = matches!(member.slot.state(), State::Taking { cold: true, .. });
        let forgotten = |(line, epoch): (u8, Epoch)| {
            (is_warm && self.lines & (1 << line) == 0) || epoch >= self.ring.epoch()
        };
        asked || self.words_of_the_dead(member.me).any(forgotten)
    }

    /// What those have said last whom a member takes for dead.
    fn words_of_the_dead(&self, me: Incarnation) -> impl Iterator<Item = (u8, Epoch)> + '_ {
        let silent = move |member: &&Member| member.alive && !member.lease && member.me != me;
        let silent = self.members[..self.at_work()].iter().filter(silent);
        let said = silent.map(|member| (member.said, member.slot.config().epoch()));
        said.chain(self.last_words.iter().copied())
    }

    /// Whoever takes the slot from itself as from the dead has written everything before it asks.
    fn is_written(&self, asked: usize) -> bool {
        let Asked { by, taken_over, .. } = self.swaps[asked];
        match by.filter(|_| taken_over) {
            None => true,
            Some(by) => self.place(by).is_some_and(|by| {
                let member = &self.members[by];
                member.writing.is_none() && member.block.is_none_or(|block| !block.dirty)
            }),
        }
    }

    fn at_work(&self) -> usize {
        usize::from(self.left.members).min(MEMBERS)
    }

    /// Where the process with this incarnation lives, if it does.
    fn place(&self, incarnation: Incarnation) -> Option<usize> {
        self.members
            .iter()
            .position(|member| member.alive && member.me == incarnation)
    }

    /// What must hold whenever nothing is on its way to ring and database.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.writes.is_empty() || !self.swaps.is_empty() {
            return Ok(());
        }
        let Some(owner) = self.place(self.ring.owner()) else {
            return Ok(());
        };
        let owner = &self.members[owner];
        let other_serves = |other: &Member| other.me != owner.me && other.unbroken();
        if !owner.lease || self.members.iter().any(other_serves) {
            return Ok(());
        }
        if owner.slot.admits() != Some(self.ring.epoch()) || owner.loading.is_some() {
            return Ok(());
        }
        let must = self.acknowledged & !self.excused;
        let missing = |there: u8| must & !there;
        let in_memory = owner.block.map(|block| block.operations);
        if missing(in_memory.unwrap_or(self.database.operations)) != 0 {
            return Err(format!(
                "acknowledged {must:#04b}, and the owner answers from {in_memory:?} over {:#04b}",
                self.database.operations
            ));
        }
        let clean = owner.block.is_none_or(|block| !block.dirty) && owner.writing.is_none();
        if clean && missing(self.database.operations) != 0 {
            return Err(format!(
                "acknowledged {must:#04b}, nothing is dirty, and the database has {:#04b}",
                self.database.operations
            ));
        }
        Ok(())
    }
}

impl Member {
    fn new(me: Incarnation, slot: SlotAtMember) -> Self {
        Self {
            alive: true,
            me,
            lease: true,
            slot,
            block: None,
            received: None,
            loading: None,
            answer: None,
            writing: None,
            rearmed: false,
            seq: 0,
            term: None,
            said: 0,
        }
    }

    /// Whether it takes the slot when it finds this ring, and the owner gone: not when it knows more than the ring.
    fn may_take(&self, ring: SlotConfig) -> bool {
        let knows_more = self.slot.config().epoch() > ring.epoch() || self.unbroken();
        self.alive && self.lease && !knows_more
    }

    /// Whether it serves, and nobody can have taken the slot from it.
    fn unbroken(&self) -> bool {
        self.alive && self.lease && self.slot.unbroken().is_some()
    }

    fn may_flush(&self) -> bool {
        self.block.is_some_and(|block| block.dirty)
            && self.writing.is_none()
            && self.slot.flushes().is_some()
    }

    fn may_evict(&self) -> bool {
        self.block.is_some_and(|block| !block.dirty)
            && self.writing.is_none()
            && self.slot.admits().is_some()
            && self.answer.is_none()
    }

    /// Whoever renews the lease tells the state machine first that it had run out.
    fn may_renew(&self) -> bool {
        let noticed = match self.slot.state() {
            State::Sealed { stage, .. } => matches!(stage, Stage::WithoutLease { .. }),
            State::Ready { lapsed, .. } => lapsed,
            State::Away | State::Receiving { .. } => true,
            State::Owner { .. } | State::Taking { .. } => false,
        };
        !self.lease && noticed
    }

    /// What the shell of this member may report now.
    fn hears(&self) -> Vec<Event> {
        let mut events = Vec::new();
        match self.slot.state() {
            State::Owner {
                streaming_to: Some(_),
                ..
            } => events.extend([Event::CaughtUp, Event::StreamFailed]),
            State::Sealed {
                stage: Stage::Finishing { .. },
                ..
            } => {
                events.push(Event::TimedOut);
                if self.answer.is_none() {
                    events.push(Event::Finished);
                }
            }
            State::Sealed {
                stage: Stage::Sent { .. } | Stage::Handing { .. },
                ..
            } => events.push(Event::TimedOut),
            State::Receiving { .. } | State::Ready { .. } => events.push(Event::OriginSilent),
            State::Sealed {
                stage: Stage::Retaking { .. } | Stage::WithoutLease { .. },
                ..
            }
            | State::Owner { .. }
            | State::Taking { .. }
            | State::Away => {}
        }
        if !self.lease && !self.may_renew() {
            events.push(Event::LeaseLost);
        }
        events
    }
}

/// Whether a swap asked for this way hands over or takes over.
fn succession(asked: &Asked) -> Succession {
    match asked.taken_over {
        false => Succession::Handed,
        true => Succession::TakenOver,
    }
}

/// The incarnation of a process that starts in the place of another.
fn reborn(before: Incarnation, next: &mut u64) -> Incarnation {
    if mutant::drops(Rule::R5) {
        return before;
    }
    *next += 1;
    Incarnation::new(*next - 1)
}
