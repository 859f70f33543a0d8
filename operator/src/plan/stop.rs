//! The end of a cluster whose database goes with it: the cache first, which writes what it holds, and then the rest.
//!
//! ```text
//! deleted ─▶ cache to 0 pods ─▶ every process is gone ─▶ the finalizer goes, and with it the database
//!              ▲ a pod cannot write: waits a while         │ not within the limit: given up, and said
//!              └────────────────────────────────┘          ▼
//! ```

use std::time::Duration;

use jiff::Timestamp;

use super::{WaitingOn, members};
use crate::observe::{Member, Seen, World};

/// How long a cache pod that cannot write to the database is left running, in the hope that it can again.
const STORE_PATIENCE: Duration = Duration::from_mins(5);
/// When the database goes all the same. Pods have [`STORE_PATIENCE`] and the five minutes of their grace period until
/// then, and some for a machine that is slow.
pub const STOP_LIMIT: Duration = Duration::from_mins(15);

/// What to do next about a cluster that is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopStep {
    /// Have every cache pod stop, which makes it write what it holds.
    StopCache {
        /// The version of the StatefulSet that was looked at.
        version: Option<String>,
        /// What is waited for then.
        waiting: WaitingOn,
    },
    /// Only wait.
    Wait(WaitingOn),
    /// No cache pod is left: nothing is held that the database could be needed for.
    Stopped,
    /// The limit is reached.
    GivenUp {
        /// What may be lost.
        words: String,
    },
}

/// Decides, for a cluster that is deleted since `asked`.
#[must_use]
pub fn stop(world: &World, asked: Timestamp, now: Timestamp) -> StopStep {
    if members::idle(world) {
        return StopStep::Stopped;
    }
    let since = now.duration_since(asked).unsigned_abs();
    let stopping = WaitingOn::Stopping {
        pods: world.cache_pods.iter().map(|p| p.name.clone()).collect(),
        dirty: known(world).map(|(_, member)| member.dirty).sum(),
    };
    if since >= STOP_LIMIT {
        let minutes = STOP_LIMIT.as_secs() / 60;
        let words = format!("after {minutes} minutes the database goes all the same: {stopping}");
        return StopStep::GivenUp { words };
    }
    let Some(set) = world.cache.as_ref().filter(|set| set.replicas > 0) else {
        return StopStep::Wait(stopping);
    };
    let unable = known(world).find_map(|(name, member)| {
        let problem = member.store_problem.clone().filter(|_| member.dirty > 0)?;
        Some(WaitingOn::StoreBeforeStop {
            member: name.to_owned(),
            dirty: member.dirty,
            problem,
        })
    });
    match unable {
        // Told to stop now, it would give up before its time.
        Some(waiting) if since < STORE_PATIENCE => StopStep::Wait(waiting),
        Some(_) | None => StopStep::StopCache {
            version: set.version.clone(),
            waiting: stopping,
        },
    }
}

fn known(world: &World) -> impl Iterator<Item = (&str, &Member)> {
    world.members.iter().filter_map(|(name, seen)| match seen {
        Seen::Known(member) => Some((name.as_str(), member)),
        Seen::Unknown(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{CASSANDRA, Scene, now, scene};

    fn step(scene: &Scene, minutes: u64) -> StopStep {
        let asked = now() - Duration::from_secs(60 * minutes);
        stop(&scene.world, asked, now())
    }

    /// Two pods, each with changes that are not in the database.
    fn two() -> Scene {
        let dirty = |member: &mut Member| member.dirty = 3;
        let scene = scene(CASSANDRA).ready_for_cache().running(2);
        scene.says("chat-0", dirty).says("chat-1", dirty)
    }

    fn told_to_stop(mut scene: Scene) -> Scene {
        scene.world.cache.as_mut().unwrap().replicas = 0;
        scene
    }

    #[test]
    fn a_deleted_cluster_stops_its_cache_first_and_waits_for_every_process() {
        let words = "the cluster is deleted: chat-0, chat-1 write changes of 6 users and stop, then the database goes";
        match step(&two(), 0) {
            StopStep::StopCache { version, waiting } => {
                assert_eq!(version.as_deref(), Some("7"));
                assert_eq!(waiting.to_string(), words);
            }
            other => panic!("{other:?}"),
        }
        let stopping = told_to_stop(two());
        assert!(matches!(step(&stopping, 1), StopStep::Wait(_)));
        let one_left = stopping.gone("chat-1");
        assert!(matches!(step(&one_left, 4), StopStep::Wait(_)));
        let mut none_left = one_left.gone("chat-0");
        assert!(
            matches!(step(&none_left, 4), StopStep::Wait(_)),
            "its controller may be about to make one"
        );
        none_left.world.cache.as_mut().unwrap().existing = 0;
        assert_eq!(step(&none_left, 4), StopStep::Stopped);
        none_left.world.cache = None;
        assert_eq!(step(&none_left, 4), StopStep::Stopped);
    }

    #[test]
    fn a_pod_that_cannot_write_is_given_time_but_not_for_ever() {
        let away = |member: &mut Member| {
            (member.dirty, member.store_problem) = (3, Some("no quorum".to_owned()));
        };
        let scene = two().says("chat-1", away);
        match step(&scene, 1) {
            StopStep::Wait(waiting) => {
                assert!(waiting.to_string().contains("no quorum"), "{waiting}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(step(&scene, 5), StopStep::StopCache { .. }));
        match step(&told_to_stop(scene), 15) {
            StopStep::GivenUp { words } => {
                assert!(
                    words.contains("chat-0, chat-1 write changes of 6 users"),
                    "{words}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_that_does_not_answer_is_waited_for_as_well() {
        let scene = told_to_stop(two()).gone("chat-0").silent("chat-1");
        assert!(matches!(step(&scene, 2), StopStep::Wait(_)));
    }
}
