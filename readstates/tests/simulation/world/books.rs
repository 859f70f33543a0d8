//! What was acknowledged and told, and what of it is wrong: the promises are checked here.

use std::time::Duration;

use readstates::{block::BlockRef, codec, store::Store};
use readstates_ledger::{Book, Call, Finding, Found, History, What};
use readstates_ring::{Incarnation, Slot};

use super::World;
use crate::{
    clients::USERS,
    historians,
    process::{Life, Process},
};

/// What was done before a process was stopped may be told a moment later.
const LAST_WORD: Duration = Duration::from_millis(100);

/// A call that was decided at this moment: the simulation knows when.
pub(crate) fn at_once(at: Duration) -> Call {
    let (sent, answered) = (at, at);
    Call { sent, answered }
}

/// The states of a block.
pub(crate) fn found(block: BlockRef<'_>) -> Vec<Found> {
    let states = block.states().map(|state| Found {
        channel: state.channel,
        last_message: state.last_message,
        mention_count: state.mention_count,
    });
    states.collect()
}

impl World {
    /// A process acknowledges a change of a slot at an epoch.
    pub(crate) fn acknowledges(&self, life: &Life, slot: Slot, epoch: i64) {
        let who = life.incarnation;
        self.say(|| format!("{who} acknowledges a change of slot {slot} at epoch {epoch}"));
        let config = self.table().and_then(|table| table.config(slot));
        if let Some(config) = config
            && config.epoch().number() > epoch
            && config.owner() != who
            && self.serves(config.owner(), slot)
        {
            let owner = config.owner();
            self.wrong(format!(
                "{who} acknowledged slot {slot} at epoch {epoch}, which is {owner}'s by now"
            ));
        }
        // Whatever they call themselves, they are two.
        let place = life.place;
        let first = self.state(|state| *state.acknowledged.entry((slot, epoch)).or_insert(place));
        if first != place {
            self.wrong(format!(
                "processes {first} and {place} both acknowledged slot {slot} at epoch {epoch}, the latter as {who}"
            ));
        }
    }

    /// Whether the process that the ring names serves a slot: in a ring that went back it may be dead, or may have
    /// taken the slot and wait for the others to see that.
    fn serves(&self, owner: Incarnation, slot: Slot) -> bool {
        let there = || self.find(owner);
        !self.state(|state| state.ring_went_back)
            || there().is_some_and(|owner| owner.ownership.enter(slot).is_some())
    }

    /// The greatest version of a user that a client was told, and when.
    pub(crate) fn version(&self, user: u64) -> (u64, Duration) {
        self.state(|state| state.versions.get(&user).copied().unwrap_or_default())
    }

    fn told_version(&self, user: u64, told: (u64, Duration)) {
        self.state(|state| {
            let known = state.versions.entry(user).or_default();
            if told.0 > known.0 {
                *known = told;
            }
        });
    }

    /// Takes in a read that began when `floor` was known. Only a death may make its version lower than that.
    pub(crate) fn told_read(&self, user: u64, floor: (u64, Duration), told: (u64, Duration)) {
        if told.0 < floor.0 {
            let (channel, message, call) = (0, 0, at_once(floor.1));
            let what = What::ReadBehind;
            self.note(Finding {
                user,
                channel,
                message,
                what,
                call,
            });
        }
        self.told_version(user, told);
    }

    /// Takes in the answer to a change that was sent when `floor` was known; `applied`: the change, if it was applied
    /// by this attempt.
    pub(crate) fn told_change(
        &self,
        user: u64,
        floor: (u64, Duration),
        told: (u64, Duration),
        applied: Option<(u64, u64)>,
    ) {
        let version = told.0;
        if version < floor.0 {
            let floor = floor.0;
            self.wrong(format!(
                "user {user} went back from version {floor} to {version}"
            ));
        }
        if let Some(change) = applied {
            let first = self.state(|state| *state.changes.entry((user, version)).or_insert(change));
            if first != change {
                self.wrong(format!(
                    "version {version} of user {user} was handed out twice: for {first:?} and for {change:?}"
                ));
            }
        }
        self.told_version(user, told);
    }

    /// Something is wrong, whatever happened before.
    pub(crate) fn wrong(&self, what: String) {
        self.say(|| format!("WRONG: {what}"));
        let what = format!("{what}, at {:?}", self.now());
        self.state(|state| state.wrong.push(what));
    }

    /// Something is wrong, unless it is excused.
    pub(crate) fn note(&self, finding: Finding) {
        self.say(|| format!("found: {finding:?}"));
        self.state(|state| state.book.note(finding));
    }

    /// A process is over with what it has in memory: what of that is not in the database may be lost, and nothing
    /// else.
    pub(crate) async fn is_over(&self, process: &Process) {
        let (mut lost, mut versions) = (Vec::new(), Vec::new());
        for user in USERS.chain(historians::USERS) {
            let all = |block: BlockRef<'_>| (found(block), block.version());
            let Some((cached, version)) = process.engine.cache().read(user, all) else {
                continue;
            };
            if self.is_backed(user, process) {
                continue;
            }
            let (stored, written) = self.stored_block(user).await;
            if version > written {
                // An answer that nothing was changed may have told it.
                versions.push(user);
            }
            let of = |state: &Found| {
                stored
                    .iter()
                    .find(|it| it.channel == state.channel)
                    .copied()
            };
            let unwritten = cached.iter().filter(|state| of(state) != Some(**state));
            lost.extend(unwritten.map(|state| (user, state.channel)));
            // What was deleted here and is there yet.
            let kept = |state: &&Found| cached.iter().any(|it| it.channel == state.channel);
            let gone = stored.iter().filter(|state| !kept(state));
            lost.extend(gone.map(|state| (user, state.channel)));
        }
        let now = self.now();
        self.say(|| format!("{process:?} takes with it: {lost:?}"));
        self.state(|state| {
            for page in lost {
                state.losses.insert(page, now);
            }
            state.lost_versions.extend(versions);
        });
    }

    /// Whether a member that can be promoted has everything that this one acknowledged of a user.
    fn is_backed(&self, user: u64, owner: &Process) -> bool {
        let config = self
            .table()
            .and_then(|table| table.config(Slot::of_user(user)));
        let config = config.filter(|config| config.owner() == owner.life.incarnation);
        let backup = config.and_then(|config| self.find(config.backup()?));
        backup.is_some_and(|backup| !backup.life.is_stopped() && self.reaches_the_ring(&backup))
    }

    /// Whether this process alone has what another acknowledged: the backup of one that is dead, or seems to be.
    pub(crate) fn is_the_last_with_something(&self, one: &Process) -> bool {
        let seems_dead = |owner| self.find(owner).is_none_or(|it| it.life.is_stopped());
        let Some(table) = self.table() else {
            return false;
        };
        Slot::all()
            .filter_map(|slot| table.config(slot))
            .filter(|config| config.backup() == Some(one.life.incarnation))
            .any(|config| seems_dead(config.owner()))
    }

    /// What the database has of a user.
    pub(crate) async fn stored(&self, user: u64) -> Vec<Found> {
        self.stored_block(user).await.0
    }

    /// What the database has of a user, and at which version.
    async fn stored_block(&self, user: u64) -> (Vec<Found>, u64) {
        let stored = self.blocks.load(user).await.ok().flatten();
        let stored = stored.map(|stored| {
            codec::decode(&stored.bytes).map(|it| (found(it.block), it.block.version()))
        });
        stored.transpose().ok().flatten().unwrap_or_default()
    }

    /// Whether a finding is what a death cost.
    pub(crate) fn is_excused(&self, finding: &Finding) -> bool {
        let lost_at =
            |user, channel| self.state(|state| state.losses.get(&(user, channel)).copied());
        // A version that was told although nothing was changed is in memory alone, too.
        let any = || {
            self.state(|state| {
                let states = state.losses.keys().any(|&(user, _)| user == finding.user);
                states || state.lost_versions.contains(&finding.user)
            })
        };
        match finding.what {
            // What it still said at that moment counts.
            What::Lost | What::LostMeanwhile | What::NotSeen => {
                let until = lost_at(finding.user, finding.channel);
                until.is_some_and(|until| finding.call.answered <= until + LAST_WORD)
            }
            // Of the user as a whole.
            What::ReadBehind => any(),
            What::Doubled | What::Phantom | What::VersionWentBack => false,
        }
    }

    pub(crate) fn hand_in(&self, book: Book) {
        self.state(|state| state.book.take(book));
    }

    pub(crate) fn hand_in_history(&self, history: History) {
        self.state(|state| state.history.take(history));
    }

    /// What was asked and answered, and the users of the historians that no death concerns.
    pub(crate) fn history(&self) -> (History, Vec<u64>) {
        self.state(|state| {
            let lost = |user: &u64| {
                let states = state.losses.keys().any(|(of, _)| of == user);
                states || state.lost_versions.contains(user)
            };
            let whole = historians::USERS.filter(|user| !lost(user)).collect();
            (state.history.clone(), whole)
        })
    }

    /// The books of all clients, and what was seen to be wrong on the way.
    pub(crate) fn books(&self) -> (Book, Vec<String>) {
        self.state(|state| (state.book.clone(), state.wrong.clone()))
    }
}
