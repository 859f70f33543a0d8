//! One super-disk as the agent acts on it: a method for each kind of step, which looks up what it needs again.
//!
//! Whatever accesses a disk may hang as long as the disk does. So these methods run on threads of their own, and the
//! thread that observes and decides calls none of them.

mod history;
mod look;

use std::{
    error::Error,
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
};

use rustix::fs::{Mode, OFlags};

use super::{beats::Beats, freezer::Freezer};
use crate::{
    action::Action,
    assemble::{self, AssembleError, Lock, Outcome, chain},
    execute::Executor,
    heal::{
        Setting, Step,
        facts::{Facts, Leg, Mirror},
    },
    inventory::{Devices, Tried},
    log::say,
    model::Refusal,
    spec::Spec,
};

/// An attempt to change a super-disk that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempt}")]
pub struct DiskError {
    /// What was tried.
    pub attempt: String,
    pub source: Box<dyn Error + Send + Sync>,
}

impl DiskError {
    fn new(attempt: impl ToString, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            attempt: attempt.to_string(),
            source: source.into(),
        }
    }
}

/// How bringing it up ended.
#[derive(Debug)]
pub enum Up {
    /// As it shall be.
    Done,
    /// Mounted, without the fast leg.
    WithoutFastLeg(String),
    /// As it shall be, but for its size.
    NotGrown(String),
    /// Nothing was changed.
    Refused(Refusal),
}

/// A super-disk and what is needed to act on it.
#[derive(Debug)]
pub struct SuperDisk {
    spec: Spec,
    root: PathBuf,
    state_dir: PathBuf,
    beats: Beats,
    freezer: Freezer,
    /// Whether the header is to name a snapshot.
    marked: AtomicBool,
    /// Name of the mirror when it was last seen.
    known: Mutex<Option<String>>,
    /// Arrays that are known to be this volume's, without asking their disks again.
    proven: Mutex<look::Proven>,
}

impl SuperDisk {
    /// For this super-disk, on the node under `root`.
    #[must_use]
    pub fn new(spec: Spec, root: &Path, state_dir: &Path) -> Self {
        let freezer = Freezer::new(&spec.mount);
        Self {
            spec,
            root: root.to_owned(),
            state_dir: state_dir.to_owned(),
            beats: Beats::default(),
            freezer,
            marked: AtomicBool::new(false),
            known: Mutex::new(None),
            proven: Mutex::default(),
        }
    }

    /// Takes over the name under which an agent before this one saw the mirror.
    #[must_use]
    pub fn with_known_mirror(self, mirror: Option<String>) -> Self {
        Self {
            known: Mutex::new(mirror),
            ..self
        }
    }

    /// Which super-disk.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Does one step about `mirror` and, where it has one, the stripe. `begun` is called once nothing has to be waited
    /// for: an attempt that did not get its turn on the node is none.
    pub fn step(&self, step: &Step, facts: &Facts, begun: &dyn Fn()) -> Result<(), DiskError> {
        let mirror = facts.mirror.as_ref();
        let mirror = mirror.ok_or_else(|| DiskError::new(step, "no mirror runs"))?;
        let fast = mirror.fast.as_ref().map(|leg| leg.device.clone());
        if !matches!(step, Step::ReAddFastLeg | Step::RebuildFastLeg | Step::Grow) {
            begun();
        }
        match step {
            Step::Freeze => {
                let frozen = self.freezer.freeze_for_red_line();
                frozen.map_err(|error| DiskError::new(step, error))
            }
            Step::FailFastLeg => self.act(Action::Fail {
                array: mirror.name.clone(),
                member: named(step, fast)?,
                because: "the fast leg cannot stay",
            }),
            Step::RemoveFastLeg => self.act(Action::Remove {
                array: mirror.name.clone(),
                member: if mirror.fast.as_ref().is_some_and(|leg| !leg.present) {
                    "detached".to_owned()
                } else {
                    named(step, fast)?
                },
            }),
            Step::StopStripe => self.act(Action::Stop {
                array: named(
                    step,
                    facts.stripe.as_ref().map(|stripe| stripe.name.clone()),
                )?,
                because: "it cannot be read any more",
            }),
            Step::ReAddFastLeg | Step::Grow => self.fast_leg(step, Tried::default(), begun),
            Step::RebuildFastLeg => {
                let tried = Tried {
                    re_add: Some("copying everything was decided".to_owned()),
                    ..Tried::default()
                };
                self.fast_leg(step, tried, begun)
            }
            Step::ClearWriteError => {
                let file = format!("md/dev-{}/state", named(step, fast)?);
                self.write(step, mirror, &[(&file, "-write_error")])
            }
            Step::Set(setting) => self.set(step, mirror, *setting),
            Step::StartCheck { from, to } => {
                let to = to.map_or_else(|| "max".to_owned(), |to| to.to_string());
                // md takes no lower end above the upper one.
                let files = [
                    ("md/sync_min", "0"),
                    ("md/sync_max", &*to),
                    ("md/sync_min", &*from.to_string()),
                    ("md/sync_action", "check"),
                ];
                self.write(step, mirror, &files)
            }
            Step::EndCheckWindow => {
                let files = [
                    ("md/sync_action", "idle"),
                    ("md/sync_min", "0"),
                    ("md/sync_max", "max"),
                ];
                self.write(step, mirror, &files)
            }
        }
    }

    /// Brings it up from whatever state it is in.
    pub fn bring_up(&self) -> Result<Up, DiskError> {
        self.plan(&"assemble", Tried::default(), &|| ())
    }

    /// Stops writes and lets them go on.
    #[must_use]
    pub fn freezer(&self) -> &Freezer {
        &self.freezer
    }

    /// Writes to the legs what is in memory.
    pub fn sync(&self) -> Result<(), DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.spec.mount, flags, Mode::empty());
        let synced = folder.and_then(rustix::fs::syncfs);
        synced.map_err(|error| {
            let mount = self.spec.mount.display();
            DiskError::new(format!("write what is in memory to {mount}"), error)
        })
    }

    /// Stops an array that nothing is mounted from.
    pub fn stop(&self, array: &str) -> Result<(), DiskError> {
        self.act(Action::Stop {
            array: array.to_owned(),
            because: "the super-disk ends",
        })
    }

    fn act(&self, action: Action) -> Result<(), DiskError> {
        let mut executor = Executor::new(&self.spec, &self.root, &Devices, None);
        let done = executor.execute(&action);
        done.map(drop)
            .map_err(|error| DiskError::new(action, error))
    }

    fn fast_leg(&self, step: &Step, tried: Tried, begun: &dyn Fn()) -> Result<(), DiskError> {
        match self.plan(step, tried, begun)? {
            Up::Done => Ok(()),
            // To be larger is what growing is for, and nothing else that is done about the fast leg.
            Up::NotGrown(why) if *step == Step::Grow => Err(DiskError::new(step, why)),
            Up::NotGrown(_) => Ok(()),
            Up::WithoutFastLeg(why) => Err(DiskError::new(step, why)),
            Up::Refused(refusal) => Err(DiskError::new(step, refusal.to_string())),
        }
    }

    /// Lets the planner do what it finds left to do, then reads the header again. `begun` is called when its turn on the
    /// node has come.
    fn plan(
        &self,
        attempt: &dyn fmt::Display,
        tried: Tried,
        begun: &dyn Fn(),
    ) -> Result<Up, DiskError> {
        let failed = |error: AssembleError| DiskError::new(attempt.to_string(), error);
        let executor = Executor::new(&self.spec, &self.root, &Devices, None);
        let mut executor = executor.beside(&self.beats);
        let mut log = |line: &str| say(line);
        let (spec, root) = (&self.spec, &self.root);
        let watched = assemble::watch(spec, root, &Devices, &mut executor, &mut log);
        let tried = Tried {
            watched: watched.map_err(failed)?.watched,
            ..tried
        };
        // Others' runs may take long: a snapshot may be begun meanwhile.
        let _lock = Lock::take(&self.state_dir).map_err(failed)?;
        let _planning = self.beats.planning();
        begun();
        let outcome =
            assemble::assemble_having_tried(spec, root, &Devices, &mut executor, tried, &mut log);
        self.learn();
        Ok(match outcome.map_err(failed)? {
            Outcome::Done | Outcome::Planned(_) => Up::Done,
            Outcome::Waiting(crate::action::WaitingOn::FastLeg(refusal)) => {
                Up::WithoutFastLeg(refusal.to_string())
            }
            Outcome::FastLegFailed(error) => Up::WithoutFastLeg(chain(&error)),
            Outcome::NotGrown(why) => Up::NotGrown(why),
            Outcome::Refused(refusal) => Up::Refused(refusal),
        })
    }

    fn set(&self, step: &Step, mirror: &Mirror, setting: Setting) -> Result<(), DiskError> {
        let name = |leg: &Option<Leg>| {
            leg.as_ref()
                .map(|leg| leg.device.clone())
                .unwrap_or_default()
        };
        let file = setting.path();
        let file = file
            .replace("{durable}", &name(&mirror.durable))
            .replace("{fast}", &name(&mirror.fast));
        self.write(step, mirror, &[(&file, &setting.value())])
    }

    fn write(&self, step: &Step, mirror: &Mirror, files: &[(&str, &str)]) -> Result<(), DiskError> {
        let folder = self.root.join("sys/block").join(&mirror.name);
        for (file, value) in files {
            fs::write(folder.join(file), value).map_err(|error| {
                DiskError::new(step, format!("{file} does not take {value}: {error}"))
            })?;
        }
        Ok(())
    }
}

fn named(step: &Step, name: Option<String>) -> Result<String, DiskError> {
    name.ok_or_else(|| DiskError::new(step, "it is not there any more"))
}

#[cfg(test)]
pub(super) mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use tempfile::TempDir;

    use super::*;
    use crate::{
        agent::{AgentState, state::tests::spec},
        claim::StateFolder,
        heal::tests::{NOW, healthy},
        md::Knob,
    };

    /// A folder that takes what is written to the mirror.
    pub(in crate::agent) fn node() -> (TempDir, SuperDisk) {
        let root = TempDir::new().unwrap();
        let md = root.path().join("sys/block/md101/md");
        for folder in ["dev-sdb", "dev-md100", "bitmap"] {
            fs::create_dir_all(md.join(folder)).unwrap();
        }
        let disk = SuperDisk::new(spec(), root.path(), &root.path().join("state"));
        (root, disk)
    }

    fn written(root: &TempDir, file: &str) -> String {
        fs::read_to_string(root.path().join("sys/block/md101/md").join(file)).unwrap()
    }

    #[test]
    fn a_part_is_compared_between_its_bounds_and_the_bounds_go_with_it() {
        let (root, disk) = node();
        let facts = healthy();
        let part = Step::StartCheck {
            from: 4096,
            to: Some(8192),
        };
        disk.step(&part, &facts, &|| ()).unwrap();
        let bounds = || ["sync_min", "sync_max", "sync_action"].map(|file| written(&root, file));
        assert_eq!(bounds(), ["4096", "8192", "check"]);
        disk.step(&Step::EndCheckWindow, &facts, &|| ()).unwrap();
        assert_eq!(bounds(), ["0", "max", "idle"]);
    }

    #[test]
    fn flags_are_set_on_the_leg_that_is_meant() {
        let (root, disk) = node();
        let facts = healthy();
        for (step, file, value) in [
            (Step::ClearWriteError, "dev-md100/state", "-write_error"),
            (
                Step::Set(Setting::FastNotWriteMostly),
                "dev-md100/state",
                "-writemostly",
            ),
            (
                Step::Set(Setting::DurableWriteMostly),
                "dev-sdb/state",
                "writemostly",
            ),
            (
                Step::Set(Setting::Knob(Knob::Backlog, 0)),
                "bitmap/backlog",
                "0",
            ),
        ] {
            disk.step(&step, &facts, &|| ()).unwrap();
            assert_eq!(written(&root, file), value, "{step}");
        }
    }

    #[test]
    fn an_attempt_counts_from_its_turn_on_the_node() {
        let (root, disk) = node();
        let uuid = "0d1e8f3c-5b0a-4c1e-9a57-1f2e3d4c5b6a\n";
        for (file, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/random/boot_id", uuid),
            ("proc/sys/kernel/random/uuid", uuid),
            ("proc/self/mountinfo", ""),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let state = root.path().join("state");
        let agent = AgentState::new(&spec(), StateFolder::new(&state, "vol"), root.path());
        let step = Step::RebuildFastLeg;
        let attempts = || agent.memory().attempts.len();
        let another = Lock::take(&state).unwrap();
        let (begins, begun) = mpsc::channel();
        let before = || {
            agent.before(&step, NOW);
            begins.send(()).unwrap();
        };
        thread::scope(|scope| {
            let waits = scope.spawn(|| disk.step(&step, &healthy(), &before));
            begun.recv_timeout(Duration::from_millis(500)).unwrap_err();
            assert_eq!(attempts(), 0);
            drop(another);
            begun.recv().unwrap();
            // There are no disks: it fails, and has been an attempt all the same.
            waits.join().unwrap().unwrap_err();
        });
        assert_eq!(attempts(), 1);
    }

    #[test]
    fn a_step_without_what_it_is_about_says_so() {
        let (_root, disk) = node();
        let mut facts = healthy();
        facts.mirror.as_mut().unwrap().fast = None;
        let error = disk.step(&Step::ClearWriteError, &facts, &|| ());
        let error = error.unwrap_err();
        assert_eq!(
            chain(&error),
            "failed to let bad sectors of the fast leg be tried again: it is not there any more"
        );
    }
}
