//! Takes a super-disk down in order: sync, unmount, say so in the lineage, stop the mirror, stop the stripe.
//!
//! ```text
//! look ──▶ mounted? thaw, sync, unmount ──▶ mirror? lineage clean, stop ──▶ stripe? stop ──▶ done
//!   ▲                                                                         │
//!   └─────────────────────── look again, until the deadline ◀─────────────────┘
//! ```
//!
//! Each turn does the one thing that is next, so that it can be killed anywhere and started again. It never unmounts
//! lazily: an array under a lazily unmounted filesystem cannot be stopped, and nothing shows why. Nor does it unmount what
//! is frozen, for the same reason. Whether it is, only an attempt to thaw it tells: the freeze may be somebody else's, or
//! of an agent that could not write it down.

pub mod users;

use std::{io, path::Path, time::Duration};

use crate::heal::{durable_loss, facts::Facts};

/// Between two attempts to unmount what is in use.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// The machine on which a super-disk runs: what can be done there to end it.
pub trait Host {
    /// What still runs.
    fn look(&self) -> Result<Facts, String>;
    /// Lets writes go on, whoever has stopped them. No error where they go on.
    fn thaw(&self) -> Result<(), String>;
    /// Writes what is in memory to the legs and takes the filesystem away.
    fn unmount(&self, target: &Path) -> io::Result<()>;
    /// Processes that use the filesystem, in words.
    fn users(&self, target: &Path) -> Vec<String>;
    /// Writes to the legs that all is well: first the durable leg; the fast leg only when it is in sync.
    fn mark_clean(&self, facts: &Facts) -> Result<(), String>;
    /// Stops an array, and waits until it is gone.
    fn stop(&self, array: &str) -> Result<(), String>;
    /// Writes a line to the log.
    fn say(&self, sentence: &str);
    /// Waits; true when there is no more time.
    fn pause(&self, at_most: Duration) -> bool;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Let writes go on, and take the filesystem away.
    Unmount,
    /// Stop the mirror, saying first that all is well if it is.
    StopMirror {
        /// Its name.
        array: String,
        /// Whether the lineage says that it ended in order: not while the durable leg misses writes.
        clean: bool,
    },
    StopStripe {
        /// Its name.
        array: String,
    },
    /// Nothing runs any more.
    Done,
}

/// Decides what is next. Pure.
#[must_use]
pub fn next(facts: &Facts) -> Next {
    let ours = match (&facts.mount, &facts.mirror) {
        (Some(mount), Some(mirror)) => mount.device == mirror.name,
        (Some(_), None) | (None, _) => false,
    };
    if ours {
        return Next::Unmount;
    }
    if let Some(mirror) = &facts.mirror {
        return Next::StopMirror {
            array: mirror.name.clone(),
            clean: durable_loss(mirror).is_none(),
        };
    }
    match &facts.stripe {
        Some(stripe) => Next::StopStripe {
            array: stripe.name.clone(),
        },
        None => Next::Done,
    }
}

/// Why a super-disk still runs.
#[derive(Debug, thiserror::Error)]
pub enum TeardownError {
    /// It was tried until there was no more time.
    #[error("the super-disk still runs: {attempt} failed: {why}")]
    OutOfTime {
        /// What was tried.
        attempt: &'static str,
        /// What came of it, the last time.
        why: String,
    },
}

/// Does what is next until nothing is.
pub fn teardown(target: &Path, host: &dyn Host) -> Result<(), TeardownError> {
    // Said once each: the turns are many while something holds on.
    let mut said = String::new();
    loop {
        let (attempt, outcome) = turn(target, host);
        let why = match outcome {
            Ok(Turn::Over) => return Ok(()),
            Ok(Turn::Progress) => continue,
            Err(why) => why,
        };
        let sentence = format!("{attempt} failed: {why}");
        if sentence != said {
            host.say(&sentence);
            said = sentence;
        }
        if host.pause(BUSY_PAUSE) {
            return Err(TeardownError::OutOfTime { attempt, why });
        }
    }
}

enum Turn {
    Progress,
    Over,
}

fn turn(target: &Path, host: &dyn Host) -> (&'static str, Result<Turn, String>) {
    let facts = match host.look() {
        Ok(facts) => facts,
        Err(why) => return ("looking at the arrays", Err(why)),
    };
    match next(&facts) {
        Next::Unmount => match host.thaw() {
            Ok(()) => ("unmounting", unmount(target, host).map(|()| Turn::Progress)),
            Err(why) => ("thawing", Err(why)),
        },
        Next::StopMirror { array, clean } => {
            // A header that cannot be written costs a full copy at the next start: no reason to stay.
            let marked = if clean {
                host.mark_clean(&facts)
            } else {
                Ok(())
            };
            if let Err(why) = marked {
                host.say(&format!("writing the lineage failed: {why}"));
            }
            let stopped = host.stop(&array);
            ("stopping the mirror", stopped.map(|()| Turn::Progress))
        }
        Next::StopStripe { array } => {
            let stopped = host.stop(&array);
            ("stopping the stripe", stopped.map(|()| Turn::Progress))
        }
        Next::Done => ("looking", Ok(Turn::Over)),
    }
}

fn unmount(target: &Path, host: &dyn Host) -> Result<(), String> {
    let Err(error) = host.unmount(target) else {
        host.say(&format!("unmounted {}", target.display()));
        return Ok(());
    };
    let busy = rustix::io::Errno::BUSY.raw_os_error();
    if error.raw_os_error() != Some(busy) {
        return Err(error.to_string());
    }
    let users = host.users(target);
    if users.is_empty() {
        return Err("it is in use, by a process that cannot be seen from here".to_owned());
    }
    Err(format!("it is in use by {}", users.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::heal::tests::healthy;

    /// A super-disk that can be taken down, and what was done to it.
    struct TeardownWorld {
        facts: RefCell<Facts>,
        /// By whom does not matter.
        frozen: RefCell<bool>,
        busy_for: RefCell<u32>,
        patience: RefCell<u32>,
        broken: Option<&'static str>,
        done: RefCell<Vec<String>>,
    }

    fn world(facts: Facts) -> TeardownWorld {
        TeardownWorld {
            facts: RefCell::new(facts),
            frozen: RefCell::new(false),
            busy_for: RefCell::new(0),
            patience: RefCell::new(10),
            broken: None,
            done: RefCell::default(),
        }
    }

    impl TeardownWorld {
        fn did(&self, what: impl Into<String>) {
            self.done.borrow_mut().push(what.into());
        }

        fn taken_down(&self) -> (Result<(), String>, Vec<String>) {
            let result = teardown(Path::new("/data"), self).map_err(|error| error.to_string());
            (result, self.done.borrow().clone())
        }
    }

    impl Host for TeardownWorld {
        fn look(&self) -> Result<Facts, String> {
            Ok(self.facts.borrow().clone())
        }

        fn thaw(&self) -> Result<(), String> {
            if self.frozen.replace(false) {
                self.did("thaw");
            }
            Ok(())
        }

        fn unmount(&self, target: &Path) -> io::Result<()> {
            let mut busy = self.busy_for.borrow_mut();
            if *busy > 0 {
                *busy -= 1;
                return Err(rustix::io::Errno::BUSY.into());
            }
            assert!(!*self.frozen.borrow(), "it would stay frozen for ever");
            self.did(format!("unmount {}", target.display()));
            self.facts.borrow_mut().mount = None;
            Ok(())
        }

        fn users(&self, _: &Path) -> Vec<String> {
            vec!["scylla (7) with /data/commitlog".to_owned()]
        }

        fn mark_clean(&self, facts: &Facts) -> Result<(), String> {
            let fast = facts
                .mirror
                .as_ref()
                .and_then(|mirror| mirror.fast.as_ref());
            self.did(if fast.is_some() {
                "clean: both"
            } else {
                "clean: durable"
            });
            Ok(())
        }

        fn stop(&self, array: &str) -> Result<(), String> {
            if let Some(why) = self.broken {
                return Err(why.to_owned());
            }
            self.did(format!("stop {array}"));
            let mut facts = self.facts.borrow_mut();
            if facts
                .mirror
                .as_ref()
                .is_some_and(|mirror| mirror.name == array)
            {
                facts.mirror = None;
            } else {
                facts.stripe = None;
            }
            Ok(())
        }

        fn say(&self, sentence: &str) {
            self.did(format!("say {sentence}"));
        }

        fn pause(&self, _: Duration) -> bool {
            let mut patience = self.patience.borrow_mut();
            *patience -= 1;
            *patience == 0
        }
    }

    #[test]
    fn everything_ends_in_order_and_a_second_time_there_is_nothing_to_do() {
        let world = world(healthy());
        let (result, done) = world.taken_down();
        assert_eq!(result, Ok(()));
        assert_eq!(
            done,
            [
                "unmount /data",
                "say unmounted /data",
                "clean: both",
                "stop md101",
                "stop md100"
            ]
        );
        world.done.borrow_mut().clear();
        assert_eq!(world.taken_down(), (Ok(()), vec![]));
    }

    #[test]
    fn every_state_that_a_kill_leaves_is_gone_on_from() {
        let ends = |change: fn(&mut Facts)| {
            let mut facts = healthy();
            change(&mut facts);
            world(facts).taken_down().1
        };
        let unmounted = ends(|facts| facts.mount = None);
        assert_eq!(unmounted, ["clean: both", "stop md101", "stop md100"]);
        let stripe_alone = ends(|facts| (facts.mount, facts.mirror) = (None, None));
        assert_eq!(stripe_alone, ["stop md100"]);
        let no_fast_leg = ends(|facts| {
            (facts.mount, facts.stripe) = (None, None);
            facts.mirror.as_mut().unwrap().fast = None;
        });
        assert_eq!(no_fast_leg, ["clean: durable", "stop md101"]);
    }

    #[test]
    fn whoever_holds_on_is_named_once_and_waited_for() {
        let mut world = world(healthy());
        world.busy_for = RefCell::new(3);
        let (result, done) = world.taken_down();
        assert_eq!(result, Ok(()));
        let named = "say unmounting failed: it is in use by scylla (7) with /data/commitlog";
        assert_eq!(done[..2], [named, "unmount /data"]);
    }

    #[test]
    fn out_of_time_says_what_was_tried_and_forces_nothing() {
        let mut held = world(healthy());
        held.busy_for = RefCell::new(u32::MAX);
        let (result, done) = held.taken_down();
        let why = "the super-disk still runs: unmounting failed: it is in use by scylla (7) with \
                   /data/commitlog";
        assert_eq!(result, Err(why.to_owned()));
        assert_eq!(done.len(), 1, "{done:?}");

        let mut stuck = world(healthy());
        stuck.broken = Some("mdadm says busy");
        let (result, done) = stuck.taken_down();
        let why = "the super-disk still runs: stopping the mirror failed: mdadm says busy";
        assert_eq!(result, Err(why.to_owned()));
        assert!(
            !done.contains(&"stop md100".to_owned()),
            "the stripe is under the mirror"
        );
    }

    #[test]
    fn after_the_durable_leg_is_lost_nothing_is_called_clean() {
        let mut facts = healthy();
        facts.mirror.as_mut().unwrap().durable = None;
        let mut world = world(facts);
        world.frozen = RefCell::new(true);
        let (_, done) = world.taken_down();
        assert_eq!(
            done,
            [
                "thaw",
                "unmount /data",
                "say unmounted /data",
                "stop md101",
                "stop md100"
            ]
        );
    }

    #[test]
    fn what_is_frozen_again_while_it_is_in_use_is_thawed_before_each_attempt() {
        let mut world = world(healthy());
        world.busy_for = RefCell::new(1);
        world.frozen = RefCell::new(true);
        let result = turn(Path::new("/data"), &world).1;
        assert!(result.is_err());
        world.frozen.replace(true);
        let (result, done) = world.taken_down();
        assert_eq!(result, Ok(()));
        assert_eq!(done[..3], ["thaw", "thaw", "unmount /data"]);
    }

    #[test]
    fn what_somebody_else_mounted_there_is_left() {
        let mut facts = healthy();
        facts.mount.as_mut().unwrap().device = "sda1".to_owned();
        let done = world(facts).taken_down().1;
        assert_eq!(done, ["clean: both", "stop md101", "stop md100"]);
    }
}
