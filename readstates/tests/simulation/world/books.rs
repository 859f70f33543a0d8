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
/// A member that leaves is over a moment after others may have its slots.
const LAST_STEP: Duration = Duration::from_secs(1);

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

    /// Takes in a read that began when `floor` was known. Only a death in between may make its version lower than that.
    pub(crate) fn told_read(&self, user: u64, floor: (u64, Duration), told: (u64, Duration)) {
        if told.0 < floor.0 {
            let what = What::ReadBehind;
            let (channel, message) = (0, 0);
            // From when the version was told until the read.
            let (sent, answered) = (floor.1, told.1);
            let call = Call { sent, answered };
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
        let (mut lost, mut users) = (Vec::new(), Vec::new());
        for user in USERS.chain(historians::USERS) {
            let all = |block: BlockRef<'_>| (found(block), block.version());
            let Some((cached, version)) = process.engine.cache().read(user, all) else {
                continue;
            };
            if self.is_backed(user, process) {
                continue;
            }
            let (stored, written) = self.stored_block(user).await;
            let before = lost.len();
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
            // An answer that nothing was changed may have told the version.
            if version > written || lost.len() > before {
                users.push(user);
            }
        }
        let now = self.now();
        self.say(|| format!("{process:?} takes with it: {lost:?}"));
        self.state(|state| {
            for page in lost {
                state.losses.insert(page, now);
            }
            for user in users {
                state.lost_at.entry(user).or_default().push(now);
            }
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
    pub(crate) async fn stored_block(&self, user: u64) -> (Vec<Found>, u64) {
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
        match finding.what {
            // What it still said at that moment counts.
            What::Lost | What::LostMeanwhile | What::NotSeen => {
                let until = lost_at(finding.user, finding.channel);
                until.is_some_and(|until| finding.call.answered <= until + LAST_WORD)
            }
            // Of the user as a whole: a version that was told although nothing was changed is in memory alone, too.
            What::ReadBehind => self.state(|state| {
                let Call { sent, answered } = finding.call;
                let mut lost_at = state.lost_at.get(&finding.user).into_iter().flatten();
                lost_at.any(|&at| sent <= at + LAST_WORD && at <= answered + LAST_STEP)
            }),
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
            let is_whole = |user: &u64| !state.lost_at.contains_key(user);
            let whole = historians::USERS.filter(is_whole).collect();
            (state.history.clone(), whole)
        })
    }

    /// The books of all clients, and what was seen to be wrong on the way.
    pub(crate) fn books(&self) -> (Book, Vec<String>) {
        self.state(|state| (state.book.clone(), state.wrong.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::How;

    #[test]
    fn a_read_is_behind_only_when_what_it_lacks_was_lost_since_it_was_told() {
        let world = World::new(0, How::default());
        let seconds = Duration::from_secs;
        world.state(|state| state.lost_at.insert(7, vec![seconds(10), seconds(30)]));
        let is_excused = |told, read| {
            world.is_excused(&Finding {
                user: 7,
                channel: 0,
                message: 0,
                what: What::ReadBehind,
                call: Call {
                    sent: seconds(told),
                    answered: seconds(read),
                },
            })
        };
        assert!(is_excused(9, 12) && is_excused(9, 40) && is_excused(29, 31));
        assert!(!is_excused(5, 8), "it was not lost yet");
        assert!(!is_excused(11, 28), "it was told by the owner after");
        assert!(!is_excused(31, 40));
    }
}
