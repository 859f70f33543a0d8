//! The world of the search: its state, the steps it may take, and what must hold.

mod member;
mod shell;
mod step;

use member::Member;
pub(super) use step::Step;

use super::Budget;
use crate::{
    Epoch, Incarnation, SlotConfig, Stamp, Succession,
    fence::{self, Base, Stored},
    handoff::{Event, SlotAtMember, State},
    mutant::{self, Rule},
};

/// The most members there can be.
const MEMBERS: usize = 3;
/// 2026-11-18; time stands still, which is the worst it can do to epochs.
const NOW: i64 = 1_795_000_000_000_000;
/// A process that was there before the first of these.
const NOBODY: Incarnation = Incarnation::new(u64::MAX);

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
    /// Operations of which an origin that has handed them on, or has asked to, has crashed with its copy.
    copies_lost: u8,
    /// Versions that a client has, with the operations they stand for.
    versions: Vec<(u64, u8)>,
    next_incarnation: u64,
    left: Budget,
}

/// A user's block in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Block {
    operations: u8,
    version: u64,
    dirty: bool,
    base: Base,
}

/// The user's cell in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Cell {
    operations: u8,
    version: u64,
    stamp: Option<Stamp>,
    by: Incarnation,
}

impl Cell {
    /// What a process finds in it.
    fn stored(&self, me: Incarnation) -> Option<Stored> {
        let is_own = self.by == me;
        self.stamp.map(|stamp| Stored { stamp, is_own })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Write {
    by: Incarnation,
    stamp: Stamp,
    operations: u8,
    version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ModelAnswer {
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
            version: fence::next_version(Base::Foreign, 0, first_version(epoch_before)),
        };
        let member = |number: u64| {
            let me = Incarnation::new(number);
            // The ring was empty before: every member learns its first config.
            let before = SlotConfig::from_parts(epoch_before, me, None, None);
            let mut slot = SlotAtMember::at_start(me, before);
            slot.step(Event::Learned(ring));
            // Every member has seen it.
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
                by: NOBODY,
            },
            writes: vec![late; usize::from(left.late_writes.min(1))],
            messages: Vec::new(),
            swaps: Vec::new(),
            acknowledged: 0,
            excused: 0,
            copies_lost: 0,
            versions: Vec::new(),
            next_incarnation: MEMBERS as u64,
            left,
        }
    }

    /// Whether every living member has seen that a member took the slot, and no dead one knew more.
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

    /// Whether the slot would go on with what is in memory though a dead process knew of a line that the ring has never
    /// been on; or a dead process knew of an epoch that is no lower; or the ring was asked to name another before.
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

    /// The last words of the processes that a member takes for dead.
    fn words_of_the_dead(&self, me: Incarnation) -> impl Iterator<Item = (u8, Epoch)> + '_ {
        let silent = move |member: &&Member| member.alive && !member.lease && member.me != me;
        let silent = self.members[..self.at_work()].iter().filter(silent);
        let said = silent.map(|member| (member.said, member.slot.config().epoch()));
        said.chain(self.last_words.iter().copied())
    }

    /// A member that takes the slot from itself as from a dead process has written everything before it asks.
    fn is_written(&self, asked: usize) -> bool {
        let Asked { by, taken_over, .. } = self.swaps[asked];
        match by.filter(|_| taken_over) {
            None => true,
            Some(by) => self.place(by).is_some_and(|by| {
                let member = &self.members[by];
                let clean = member.block.is_none_or(|block| !block.dirty);
                // What was received and never served is the origin's to write.
                let written = member.writing.is_none() && member.handed.is_none();
                written && (clean || member.unserved)
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
    fn check(&self) -> Result<(), String> {
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

impl super::search::Searched for World {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.possible()
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        self.carry_out_step(step)?;
        self.check()
    }
}

/// Whether a swap asked for this way hands over or takes over.
fn succession(asked: &Asked) -> Succession {
    match asked.taken_over {
        false => Succession::Handed,
        true => Succession::TakenOver,
    }
}

/// The first version of a term that begins at this epoch.
fn first_version(epoch: Epoch) -> u64 {
    fence::first_version(Stamp::new(epoch, 0))
}

/// The incarnation of a process that starts in the place of another.
fn reborn(before: Incarnation, next: &mut u64) -> Incarnation {
    if mutant::drops(Rule::R5) {
        return before;
    }
    *next += 1;
    Incarnation::new(*next - 1)
}
