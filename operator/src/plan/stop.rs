//! The end of a cluster whose database goes with it: the cache first, which writes what it holds, and then the rest.
//!
//! ```text
//! deleted ─▶ cache to 0 pods ─▶ every process is gone ─▶ the finalizer goes, and with it the database
//!              ▲ a pod cannot write: waits a while         │ not within the limit: given up, and said
//!              └────────────────────────────────┘          ▼
//! ```
//! Before the finalizer goes, cache pods of another cluster that write the database, too, have to leave it.

use std::time::Duration;

use jiff::Timestamp;
use readstates_operator_api::Waiting;

use super::{WaitingOn, members};
use crate::world::{Member, Seen, World};

/// How long a cache pod that cannot write to the database is left running, in the hope that it can again.
const STORE_PATIENCE: Duration = Duration::from_mins(5);
/// How long after the pods were told to stop the database goes all the same: the five minutes of their grace period,
/// and as long again for a machine that is slow.
const STOPPING_LIMIT: Duration = Duration::from_mins(10);
/// When a cluster goes at the latest.
pub const STOP_LIMIT: Duration = STORE_PATIENCE.saturating_add(STOPPING_LIMIT);

/// How long the end of a cluster has been waited for.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed<'a> {
    /// When the deletion was asked for, by the clock of the API server.
    pub asked: Timestamp,
    /// What was waited for when the cluster was last looked at, by the clock of an operator.
    pub before: Option<&'a Waiting>,
    /// Now, by this operator's clock.
    pub now: Timestamp,
}

impl Elapsed<'_> {
    /// Since the deletion; nothing, when that is in the future.
    #[must_use]
    pub fn in_all(&self) -> Duration {
        Duration::try_from(self.now.duration_since(self.asked)).unwrap_or_default()
    }

    /// How long `waiting` has been waited for, by both clocks: one that is wrong must not make time pass.
    fn with(&self, waiting: &WaitingOn) -> Duration {
        let reason = waiting.reason();
        let before = self
            .before
            .filter(|before| before.reason == reason.as_str());
        before.map_or(Duration::ZERO, |before| {
            let waited = Duration::try_from(self.now.duration_since(before.since.0));
            waited.unwrap_or_default().min(self.in_all())
        })
    }
}

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

/// Decides, for a cluster that is deleted.
#[must_use]
pub fn stop(world: &World, elapsed: Elapsed<'_>) -> StopStep {
    if members::idle(world) {
        return still_written(world).map_or(StopStep::Stopped, StopStep::Wait);
    }
    let stopping = stopping(world, true);
    if elapsed.with(&stopping) >= STOPPING_LIMIT {
        let minutes = STOPPING_LIMIT.as_secs() / 60;
        let words = format!("after {minutes} minutes the database goes all the same: {stopping}");
        return StopStep::GivenUp { words };
    }
    let Some(set) = world.cache.as_ref().filter(|set| set.replicas > 0) else {
        return StopStep::Wait(stopping);
    };
    match unable(world) {
        // Told to stop now, it would give up before its time.
        Some(waiting) if elapsed.with(&waiting) < STORE_PATIENCE => StopStep::Wait(waiting),
        Some(_) | None => StopStep::StopCache {
            version: set.version.clone(),
            waiting: stopping,
        },
    }
}

/// Cache pods of other clusters that cannot write without this database. However long they take: without it they would
/// hold more and more changes, and none of them could be replaced.
pub(super) fn still_written(world: &World) -> Option<WaitingOn> {
    let pods = world.writers.clone();
    (!pods.is_empty()).then_some(WaitingOn::StillWritten { pods })
}

/// What is waited for while cache pods stop.
pub(super) fn stopping(world: &World, deleted: bool) -> WaitingOn {
    WaitingOn::Stopping {
        deleted,
        pods: world.cache_pods.iter().map(|p| p.name.clone()).collect(),
        dirty: known(world).map(|(_, member)| member.dirty).sum(),
    }
}

/// A cache pod that could not write what it holds, if it were told to stop now.
pub(super) fn unable(world: &World) -> Option<WaitingOn> {
    known(world).find_map(|(name, member)| {
        let problem = member.store_problem.clone().filter(|_| member.dirty > 0)?;
        Some(WaitingOn::StoreBeforeStop {
            member: name.to_owned(),
            dirty: member.dirty,
            problem,
        })
    })
}

fn known(world: &World) -> impl Iterator<Item = (&str, &Member)> {
    world.members.iter().filter_map(|(name, seen)| match seen {
        Seen::Known(member) => Some((name.as_str(), member)),
        Seen::Unknown(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use readstates_operator_api::conditions::Reason;

    use super::*;
    use crate::fixtures::{CASSANDRA, Scene, now, scene};

    fn ago(minutes: i64) -> Timestamp {
        now() - jiff::SignedDuration::from_mins(minutes)
    }

    fn waiting(reason: Reason, minutes: i64) -> Waiting {
        Waiting {
            reason: reason.to_string(),
            message: String::new(),
            pod: None,
            since: Time(ago(minutes)),
        }
    }

    /// What is done after waiting for `reason` for this many minutes.
    fn after(scene: &Scene, minutes: i64, reason: Reason) -> StopStep {
        let before = waiting(reason, minutes);
        let elapsed = Elapsed {
            asked: ago(minutes),
            before: Some(&before),
            now: now(),
        };
        stop(&scene.world, elapsed)
    }

    fn step(scene: &Scene, minutes: i64) -> StopStep {
        after(scene, minutes, Reason::CacheStopping)
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
        let cannot = |minutes| after(&scene, minutes, Reason::UnsafeToStop);
        match cannot(1) {
            StopStep::Wait(waiting) => {
                assert!(waiting.to_string().contains("no quorum"), "{waiting}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(cannot(4), StopStep::Wait(_)));
        assert!(matches!(cannot(5), StopStep::StopCache { .. }));
        let stopping = told_to_stop(scene);
        assert!(matches!(step(&stopping, 9), StopStep::Wait(_)));
        match step(&stopping, 10) {
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
    fn cache_pods_of_another_cluster_keep_the_database_however_long_it_takes() {
        let mut none_left = told_to_stop(two()).gone("chat-0").gone("chat-1");
        none_left.world.cache.as_mut().unwrap().existing = 0;
        none_left.world.writers = vec!["old-0".to_owned()];
        match after(&none_left, 600, Reason::StillWritten) {
            StopStep::Wait(waiting) => assert_eq!(waiting.reason(), Reason::StillWritten),
            other => panic!("{other:?}"),
        }
        none_left.world.writers.clear();
        assert_eq!(step(&none_left, 600), StopStep::Stopped);
    }

    #[test]
    fn a_clock_that_is_wrong_by_an_hour_gives_nothing_up() {
        let scene = told_to_stop(two());
        let gives_up = |asked, before: Option<&Waiting>| {
            let elapsed = Elapsed {
                asked: ago(asked),
                before,
                now: now(),
            };
            matches!(stop(&scene.world, elapsed), StopStep::GivenUp { .. })
        };
        let cache = |minutes| waiting(Reason::CacheStopping, minutes);
        // This operator's clock is an hour ahead of the API server's.
        assert!(!gives_up(60, None));
        assert!(!gives_up(61, Some(&cache(1))));
        assert!(gives_up(70, Some(&cache(10))));
        // An hour behind, or the operator before it was.
        assert!(!gives_up(-60, None));
        assert!(!gives_up(-59, Some(&cache(1))));
        assert!(!gives_up(1, Some(&cache(61))));
        assert!(!gives_up(1, Some(&cache(-59))));
        // The cluster was waiting for its cache to stop long before it was deleted.
        assert!(!gives_up(0, Some(&cache(600))));
    }

    #[test]
    fn a_pod_that_does_not_answer_is_waited_for_as_well() {
        let scene = told_to_stop(two()).gone("chat-0").silent("chat-1");
        assert!(matches!(step(&scene, 2), StopStep::Wait(_)));
    }
}
