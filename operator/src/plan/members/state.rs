//! State of the ring, for the status: which members serve, what moves, what was taken over. Decides nothing.

use std::fmt;

use jiff::Timestamp;
use readstates_operator_api::conditions::Reason;
use readstates_ring::{Incarnation, SLOTS, Slot};

use super::{moving, spread, view::View};
use crate::{
    spec::ValidatedCluster,
    templates::Template,
    world::{Member, RingSeen, Seen, World},
};

/// How the ring stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingState {
    /// Every slot has an owner that serves, each its share, and nothing moves.
    Stable {
        /// The ring's number.
        number: u64,
        /// Members that own slots.
        members: usize,
    },
    /// It is on the way there.
    Changing(Reason, String),
    /// It cannot be told.
    Unknown(String),
}

/// How the ring stands.
#[must_use]
pub fn ring_state(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> RingState {
    let changing = |reason, words: String| RingState::Changing(reason, words);
    let table = match &world.ring {
        RingSeen::Known(table) => table,
        RingSeen::Unreadable(why) => return RingState::Unknown(why.clone()),
        RingSeen::Absent if world.cache_pods.is_empty() => {
            let words = "there is no ring yet";
            return changing(Reason::Changing, words.to_owned());
        }
        RingSeen::Absent => {
            let words = "there is no ring, and cache pods run";
            return changing(Reason::RingLost, words.to_owned());
        }
    };
    let view = View::new(cluster, world, table, (&Template::Wanted, None), now);
    let words = moving::words(known(world));
    if !words.is_empty() {
        return changing(Reason::SlotsMoving, words);
    }
    let unserved = usize::from(SLOTS) - served(world);
    let draining: Vec<_> = known(world).filter(|(_, m)| m.ownership.draining).collect();
    if let Some((name, _)) = draining.first() {
        let words = format!("{name} hands on what it owns");
        return changing(Reason::CacheDraining, words);
    }
    if unserved > 0 {
        let words = format!("{unserved} of {SLOTS} slots have no owner that serves");
        return changing(Reason::SlotsUnowned, words);
    }
    let silent = view.wanted().find_map(|pod| match pod.says {
        Some(Seen::Unknown(why)) => Some(format!("{} could not be asked: {why}", pod.name())),
        Some(Seen::Known(_)) | None => None,
    });
    if let Some(words) = silent {
        return RingState::Unknown(words);
    }
    if let Some((batch, from, to)) = spread::batch(&view) {
        let slots = batch.slots.len();
        let words = format!(
            "{slots} slots of {} wait to move to {}",
            from.name(),
            to.name()
        );
        return changing(Reason::SlotsMoving, words);
    }
    RingState::Stable {
        number: table.number(),
        members: table.members().len(),
    }
}

/// Slots whose owner is a pod that is ready, and the same process as far as that is known.
#[must_use]
pub fn served(world: &World) -> usize {
    let Some(table) = world.ring.table() else {
        return 0;
    };
    let serves = |slot: &Slot| {
        let Some(owner) = table.owner(*slot) else {
            return false;
        };
        let ready = world
            .cache_pods
            .iter()
            .any(|p| p.name == owner.name() && p.ready);
        let other = match world.members.get(owner.name()) {
            Some(Seen::Known(member)) => member.incarnation != owner.incarnation(),
            Some(Seen::Unknown(_)) | None => false,
        };
        ready && !other
    };
    Slot::all().filter(serves).count()
}

/// Slots that are on their way from one member to another.
#[must_use]
pub fn slots_moving(world: &World) -> i64 {
    let streams = known(world).flat_map(|(_, m)| &m.ownership.streaming);
    streams.map(|stream| i64::from(stream.slots)).sum()
}

/// The processes that took slots over from others that had not handed them on, and how many each since it
/// started. `None`: a member that is ready did not say.
#[must_use]
pub fn taken_over(world: &World) -> Option<Vec<(Incarnation, u64)>> {
    let ready = world.cache_pods.iter().filter(|p| p.ready);
    let said: Option<Vec<_>> = ready
        .map(|pod| match world.members.get(&pod.name) {
            Some(Seen::Known(member)) => {
                Some((member.incarnation, member.ownership.taken_from_the_dead))
            }
            Some(Seen::Unknown(_)) | None => None,
        })
        .collect();
    let mut said = said?;
    said.retain(|&(_, slots)| slots > 0);
    Some(said)
}

fn known(world: &World) -> impl Iterator<Item = (&str, &Member)> {
    world.members.iter().filter_map(|(name, seen)| match seen {
        Seen::Known(member) => Some((name.as_str(), member)),
        Seen::Unknown(_) => None,
    })
}

impl fmt::Display for RingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stable { number, members } => write!(
                f,
                "ring {number}: {members} members own all {SLOTS} slots, none is moving"
            ),
            Self::Changing(_, words) => f.write_str(words),
            Self::Unknown(words) => write!(f, "the ring cannot be told: {words}"),
        }
    }
}
