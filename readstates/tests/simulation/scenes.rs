//! Events in one order, with all else calm: what random seeds hardly ever do. Each scene holds with all rules, and breaks
//! a promise without the rule that it is about.

mod backed;
mod deaths;
mod moves;
mod restores;
mod slow;

use std::{sync::Arc, time::Duration};

use readstates::ownership::store::RingStore;
use readstates_ring::{Epoch, Incarnation, RingTable, SLOTS, Slot};
use tokio::{task::JoinSet, time::sleep};

use super::{
    clients::Client,
    compare::{Held, compare},
    events::{CLIENTS, settle},
    process::Process,
    runs::How,
    world::World,
};

/// What happens, the rule that the scene is about, and what the books say without it.
pub(crate) const SCENES: [(&str, Scene, &str); 9] = [
    ("R2", Scene::LastPartOfAMoveBefore, "Lost"),
    ("R4", Scene::HandedAfterGivingUp, "by now"),
    ("R5", Scene::TwoUnderOneName, "both acknowledged"),
    ("R8", Scene::WrittenLateByTheDead, "Lost"),
    ("R9", Scene::HandedByALostSwap, "Lost"),
    ("R15", Scene::TakenInARestoredRing, "acknowledged slot"),
    ("R16", Scene::StolenByARestoredRing, "Lost"),
    ("R17", Scene::ForgottenByARestoredRing, "Lost"),
    ("R18", Scene::HandedByALateSwap, "Lost"),
];

/// The same for rules of slots with backups, each with one way not to keep it (`readstates_ring::model::backed`).
pub(crate) const BACKED_SCENES: [(&str, &str, Scene, &str); 8] = [
    (
        "R11",
        "change without ticket",
        Scene::FramesDoNotArrive,
        "Lost",
    ),
    (
        "R11",
        "change without permission",
        Scene::ZombieAnswers,
        "by now",
    ),
    (
        "R11",
        "read without permission",
        Scene::ZombieAnswers,
        "ReadBehind",
    ),
    ("R12", "drops alone", Scene::FramesDoNotArrive, "Lost"),
    (
        "R13",
        "takes from living backup",
        Scene::BackupIsLate,
        "Lost",
    ),
    ("R13", "seeds unreplayed", Scene::PromotedTwice, "Lost"),
    ("R13", "moves unreplayed", Scene::MovedWhenPromoted, "Lost"),
    ("R14", "restamps alone", Scene::WrittenLateByAnOwner, "Lost"),
];

/// Scenes that are about no rule, and hold bounds of their own.
pub(crate) const BOUNDED_SCENES: [(Scene, How); 5] = [
    (Scene::MemberStarves, How::BACKED),
    (Scene::MemberIsUsuallyLate, How::BACKED),
    (Scene::AllStarve, How::REQUIRED),
    (Scene::BackupDies, How::BACKED),
    (Scene::BackupDies, How::REQUIRED),
];

/// A scene by its last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// The last part of a move arrives when the next move of the same slots is about to end: the first one was given
    /// up.
    LastPartOfAMoveBefore,
    /// A swap that hands slots on is carried out after its sender has given it up.
    HandedAfterGivingUp,
    /// A process starts under the name of one that lives, and then that one dies.
    TwoUnderOneName,
    /// Two owners die one after the other. Their last writes land late: that of the first when the second has loaded
    /// what it lacks, that of the second when the third has answered from what the first wrote.
    WrittenLateByTheDead,
    /// A swap that hands slots on is never carried out.
    HandedByALostSwap,
    /// Members have handed on all that they owned, and have ended. The ring forgets it; the member that serves their slots
    /// does not see that, and a new one takes them.
    TakenInARestoredRing,
    /// In a restored ring a process that is dead has taken all slots.
    StolenByARestoredRing,
    /// A member is cut off; others take its slots, write what they acknowledge, and die; the ring forgets them.
    ForgottenByARestoredRing,
    /// A swap that hands slots on is carried out after its sender has given it up. Meanwhile the lease of the
    /// destination has run out, and it runs out again before the destination serves.
    HandedByALateSwap,
    /// An owner dies whose frames have not reached its backup for a while.
    FramesDoNotArrive,
    /// The backup of a dead owner asks to be promoted after the others take that one for dead.
    BackupIsLate,
    /// An owner that its backup does not hear of is asked when that one was promoted.
    ZombieAnswers,
    /// An owner dies, and the one that was promoted, which could not write what it was promoted with.
    PromotedTwice,
    /// An owner dies, and the one that was promoted is asked to move what it could not write.
    MovedWhenPromoted,
    /// A member is late again and again, as owner and as backup, by more than is borne.
    MemberStarves,
    /// The same, by less.
    MemberIsUsuallyLate,
    /// All members are late again and again, and then none is.
    AllStarve,
    /// A backup dies.
    BackupDies,
    /// An owner dies, and then the one that was promoted. The last write of the first one lands in between.
    WrittenLateByAnOwner,
}

impl Scene {
    /// Plays it; returns how much was done, or what is wrong.
    pub(crate) async fn play(self, world: &Arc<World>) -> Result<Held, String> {
        world.calm_down();
        for ordinal in 0..3 {
            Process::start(world, ordinal);
        }
        while world.owned() < u32::from(SLOTS) {
            sleep(Duration::from_millis(50)).await;
        }
        settle(world).await?;
        if world.backed {
            backed::all_named(world).await?;
        }
        // Users are loaded, and what is acknowledged from then on is in memory alone.
        clients(world, 0, Duration::from_secs(2)).await;
        match self {
            Self::LastPartOfAMoveBefore => moves::last_part_of_the_move_before(world).await?,
            Self::HandedAfterGivingUp => moves::handed_after_giving_up(world).await?,
            Self::TwoUnderOneName => deaths::two_under_one_name(world).await?,
            Self::WrittenLateByTheDead => deaths::written_late(world).await?,
            Self::HandedByALostSwap => moves::handed_by_a_lost_swap(world).await?,
            Self::TakenInARestoredRing => restores::taken(world).await?,
            Self::StolenByARestoredRing => restores::stolen(world).await?,
            Self::ForgottenByARestoredRing => restores::forgotten(world).await?,
            Self::HandedByALateSwap => moves::handed_late(world).await?,
            Self::FramesDoNotArrive => backed::frames_do_not_arrive(world).await?,
            Self::BackupIsLate => backed::backup_is_late(world).await?,
            Self::ZombieAnswers => backed::zombie_answers(world).await?,
            Self::PromotedTwice => backed::promoted_twice(world).await?,
            Self::MovedWhenPromoted => backed::moved_when_promoted(world).await?,
            Self::MemberStarves => slow::member_starves(world).await?,
            Self::MemberIsUsuallyLate => slow::member_is_usually_late(world).await?,
            Self::AllStarve => slow::all_starve(world).await?,
            Self::BackupDies => slow::backup_dies(world).await?,
            Self::WrittenLateByAnOwner => backed::written_late(world).await?,
        }
        settle(world).await?;
        compare(world).await
    }
}

/// All clients work for so long; each time they are others, with channels of their own.
async fn clients(world: &Arc<World>, shift: u64, length: Duration) {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let until = world.now() + length;
        clients.spawn(Client::shifted(world, number, shift).run(until));
    }
    while clients.join_next().await.is_some() {}
}

async fn unwritten_changes(world: &Arc<World>) {
    world.set_database_away(true);
    clients(world, 1, Duration::from_millis(1_500)).await;
}

async fn until(what: impl Fn() -> bool) -> Result<(), String> {
    for _ in 0..60_000 {
        if what() {
            return Ok(());
        }
        sleep(Duration::from_millis(1)).await;
    }
    Err("the scene does not come to its next event within a minute".to_owned())
}

async fn table(world: &World) -> Result<Arc<RingTable>, String> {
    let current = world.ring.get().await.map_err(|error| error.to_string())?;
    Ok(current.ok_or("there is no ring")?.table)
}

/// A member and the slots that it owns.
type Owning = (Arc<Process>, Vec<(Slot, Epoch)>);

/// The member with the most users in memory, and its slots.
fn busiest(members: &[Arc<Process>]) -> Result<Owning, String> {
    let users = |process: &&Arc<Process>| process.engine.totals().users;
    let origin = members.iter().max_by_key(users).ok_or("no member lives")?;
    let routes = Arc::clone(origin.ownership.routes().table());
    let slots = routes.owned_by(origin.life.incarnation).collect();
    Ok((Arc::clone(origin), slots))
}

/// A member asks to move slots to another, and begins to.
async fn begin_move(
    origin: &Process,
    to: Incarnation,
    slots: &[(Slot, Epoch)],
) -> Result<(), String> {
    match origin.ownership.begin_move(to, slots).await {
        Ok(1..) => Ok(()),
        begun => Err(format!("the move does not begin: {begun:?}")),
    }
}
