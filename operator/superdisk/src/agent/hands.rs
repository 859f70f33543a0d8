//! Does what was decided: one method for each kind of thing, each with what it needs looked up anew.
//!
//! Whatever asks a disk for something may hang for ever with the disk. So these run on threads of their own;
//! the thread that looks and decides calls none of them.

use std::{
    error::Error,
    fmt, fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    action::Action,
    assemble::{self, AssembleError, Lock, Outcome, chain},
    command::{CommandError, Commands, Line, Program},
    execute::{Executor, write_header},
    heal::{
        Knob, Step,
        facts::{Facts, Mirror},
        observe::{LookError, look},
    },
    inventory::{self, Content, Devices, Identity, Tried},
    lineage::{self, Header, State},
    model::{Refusal, Request, Seen},
    spec::Spec,
    superblock,
    sysfs::{FileSystem, NodeKind, Nodes},
};

/// A thing that was tried did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempt}")]
pub struct HandError {
    /// What was tried.
    pub attempt: String,
    /// Why not.
    pub source: Box<dyn Error + Send + Sync>,
}

impl HandError {
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
    /// Nothing was changed.
    Refused(Refusal),
}

/// Acts on one super-disk.
#[derive(Debug)]
pub struct Hands {
    spec: Spec,
    root: PathBuf,
    state_dir: PathBuf,
    lineage: Mutex<Option<Lineage>>,
    /// Of the newest header; 0 while there is none. Apart from it, because that is held while a disk is written to.
    generation: AtomicU64,
    /// Name of the mirror when it was last seen.
    known: Mutex<Option<String>>,
}

/// The newest header, and where the legs keep theirs.
#[derive(Clone, Debug)]
struct Lineage {
    header: Header,
    durable: (Identity, u64),
    fast: Option<u64>,
}

impl Hands {
    /// For this super-disk, on the node under `root`.
    #[must_use]
    pub fn new(spec: Spec, root: &Path, state_dir: &Path) -> Self {
        Self {
            spec,
            root: root.to_owned(),
            state_dir: state_dir.to_owned(),
            lineage: Mutex::new(None),
            generation: AtomicU64::new(0),
            known: Mutex::new(None),
        }
    }

    /// Believes that the mirror had this name.
    #[must_use]
    pub fn having_seen(self, mirror: Option<String>) -> Self {
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

    /// Looks at what runs. Asks no disk.
    pub fn look(&self) -> Result<Facts, LookError> {
        let request = Request {
            durable: Some(self.spec.durable.clone()),
            local: self.spec.local.clone(),
            local_count: self.spec.local_count,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (target, root) = (&self.spec.mount, &self.root);
        let facts = look(&request, target, known.as_deref(), root, &FileSystem)?;
        if let Some(mirror) = &facts.mirror {
            *known = Some(mirror.name.clone());
        }
        Ok(facts)
    }

    /// The same, without arrays whose superblocks say that they are another volume's: a kernel name may have gone
    /// over to another disk. Asks disks.
    pub fn look_closely(&self) -> Result<Facts, LookError> {
        let mut facts = self.look()?;
        let says = |device: &str, name: &str| self.short_name(device).as_deref() == Some(name);
        let mounted = facts.mount.as_ref().map(|mount| mount.device.clone());
        if let Some(mirror) = &facts.mirror
            && mounted.as_ref() != Some(&mirror.name)
        {
            let name = self.spec.volume.mirror_name();
            let mut legs = mirror.durable.iter().chain(&mirror.fast);
            if !legs.any(|leg| says(&leg.device, &name)) {
                facts.mirror = None;
            }
        }
        if let (None, Some(stripe)) = (&facts.mirror, &facts.stripe) {
            let name = self.spec.volume.stripe_name();
            if !stripe
                .members
                .iter()
                .any(|member| says(&member.device, &name))
            {
                facts.stripe = None;
            }
        }
        Ok(facts)
    }

    /// The name that the superblock of a member gives its array.
    fn short_name(&self, device: &str) -> Option<String> {
        let node = fs::File::open(self.root.join("dev").join(device)).ok()?;
        let mut bytes = vec![0; superblock::BYTES];
        node.read_exact_at(&mut bytes, superblock::OFFSET).ok()?;
        let found = superblock::parse(&bytes).ok()??;
        Some(found.short_name().to_owned())
    }

    /// Does one step about `mirror` and, where it has one, the stripe.
    pub fn step(&self, step: &Step, facts: &Facts) -> Result<(), HandError> {
        let mirror = facts.mirror.as_ref();
        let mirror = mirror.ok_or_else(|| HandError::new(step, "no mirror runs"))?;
        let fast = mirror.fast.as_ref().map(|leg| leg.device.clone());
        match step {
            Step::Freeze => self.freeze("--freeze"),
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
            Step::ReAddFastLeg => self.fast_leg(step, Tried::default()),
            Step::RebuildFastLeg => self.fast_leg(
                step,
                Tried {
                    re_add: Some("copying everything was decided".to_owned()),
                    ..Tried::default()
                },
            ),
            Step::ClearWriteError => {
                let file = format!("md/dev-{}/state", named(step, fast)?);
                self.write(step, mirror, &[(&file, "-write_error")])
            }
            Step::Set(knob) => self.set(step, mirror, *knob),
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
    pub fn bring_up(&self) -> Result<Up, HandError> {
        self.plan(&"assemble", Tried::default())
    }

    /// Lets writes go on.
    pub fn thaw(&self) -> Result<(), HandError> {
        self.freeze("--unfreeze")
    }

    /// Writes the next header to the legs: first the durable one, so that the fast leg is never newer.
    pub fn beat(&self, facts: &Facts) -> Result<(), HandError> {
        self.write_lineage(facts, "write the lineage", Header::next)
    }

    /// Writes that all is well; what else is written after that begins a new generation.
    pub fn mark_clean(&self, facts: &Facts) -> Result<(), HandError> {
        self.write_lineage(facts, "write the clean lineage", |header| {
            header.next_in(State::Clean)
        })
    }

    /// The present life's number, once it was read.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        let generation = self.generation.load(Ordering::Relaxed);
        (generation > 0).then_some(generation)
    }

    /// Stops an array that nothing is mounted from.
    pub fn stop(&self, array: &str) -> Result<(), HandError> {
        self.act(Action::Stop {
            array: array.to_owned(),
            because: "the super-disk ends",
        })
    }

    fn freeze(&self, how: &str) -> Result<(), HandError> {
        let line = Line {
            program: Program::Fsfreeze,
            arguments: vec![how.to_owned(), self.spec.mount.display().to_string()],
        };
        let said = Commands::new().run(&line);
        // FIFREEZE answers EBUSY where it is frozen already.
        let frozen = |error: &CommandError| {
            how == "--freeze"
                && matches!(error, CommandError::Failed { said, .. } if said.ends_with("busy"))
        };
        if said.as_ref().is_err_and(frozen) {
            return Ok(());
        }
        said.map(drop).map_err(|error| HandError::new(line, error))
    }

    fn act(&self, action: Action) -> Result<(), HandError> {
        let mut executor = Executor::new(&self.spec, &self.root, &Devices, None);
        let done = executor.execute(&action);
        done.map(drop)
            .map_err(|error| HandError::new(action, error))
    }

    fn fast_leg(&self, step: &Step, tried: Tried) -> Result<(), HandError> {
        match self.plan(step, tried)? {
            Up::Done => Ok(()),
            Up::WithoutFastLeg(why) => Err(HandError::new(step, why)),
            Up::Refused(refusal) => Err(HandError::new(step, refusal.to_string())),
        }
    }

    /// Lets the planner do what it thinks is left to do, then learns the header anew.
    fn plan(&self, attempt: &dyn fmt::Display, tried: Tried) -> Result<Up, HandError> {
        let failed = |error: AssembleError| HandError::new(attempt.to_string(), error);
        let mut executor = Executor::new(&self.spec, &self.root, &Devices, None);
        let mut log = |line: &str| super::say(line);
        let (spec, root) = (&self.spec, &self.root);
        let watched = assemble::watch(spec, root, &Devices, &mut executor, &mut log);
        let tried = Tried {
            watched: watched.map_err(failed)?.watched,
            ..tried
        };
        let _lock = Lock::take(&self.state_dir).map_err(failed)?;
        let outcome =
            assemble::assemble_having_tried(spec, root, &Devices, &mut executor, tried, &mut log);
        self.learn();
        Ok(match outcome.map_err(failed)? {
            Outcome::Done | Outcome::Planned(_) => Up::Done,
            Outcome::Waiting(crate::action::WaitingOn::FastLeg(refusal)) => {
                Up::WithoutFastLeg(refusal.to_string())
            }
            Outcome::FastLegFailed(error) => Up::WithoutFastLeg(chain(&error)),
            Outcome::Refused(refusal) => Up::Refused(refusal),
        })
    }

    /// Reads the headers. Without one no beat succeeds; each tries again.
    pub fn learn(&self) {
        let found = inventory::observe(&self.spec, &self.root, &Devices, &Tried::default());
        let found = found.ok().and_then(|inventory| {
            let content = present(&inventory.durable.content)?;
            let header = present(&content.lineage)?.clone();
            let durable = (inventory.durable.identity.clone()?, region(content)?);
            let fast = present(&inventory.fast).filter(|fast| fast.stripe == header.fast);
            Some(Lineage {
                header,
                durable,
                fast: fast.and_then(|fast| region(&fast.inside)),
            })
        });
        let generation = found.as_ref().map(|found| found.header.point.generation);
        self.generation
            .store(generation.unwrap_or(0), Ordering::Relaxed);
        *self.lineage.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    fn write_lineage(
        &self,
        facts: &Facts,
        attempt: &str,
        next: impl Fn(&Header) -> Header,
    ) -> Result<(), HandError> {
        if self.generation().is_none() {
            self.learn();
        }
        let mut lineage = self.lineage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = lineage.as_mut() else {
            return Err(HandError::new(
                attempt,
                "the header could not be read: a network disk that is put back in time would not be noticed",
            ));
        };
        let failed = |error: io::Error| HandError::new(attempt, error);
        let (identity, region) = &known.durable;
        if !is_still(&self.root, identity) {
            return Err(HandError::new(
                attempt,
                "the durable device is another one now",
            ));
        }
        let header = next(&known.header);
        let durable = crate::sysfs::under(&self.root, &identity.path);
        write_header(&durable, *region, &header).map_err(failed)?;
        known.header = header;
        // A leg that is not in sync stays behind: it is judged by how far it came.
        let fast = facts
            .mirror
            .as_ref()
            .and_then(|mirror| mirror.fast.as_ref());
        if let (Some(leg), Some(region)) = (fast.filter(|leg| leg.in_sync()), known.fast) {
            let node = self.root.join("dev").join(&leg.device);
            write_header(&node, region, &known.header).map_err(failed)?;
        }
        Ok(())
    }

    fn set(&self, step: &Step, mirror: &Mirror, knob: Knob) -> Result<(), HandError> {
        let name = |leg: &Option<crate::heal::facts::Leg>| {
            leg.as_ref()
                .map(|leg| leg.device.clone())
                .unwrap_or_default()
        };
        let file = knob.path();
        let file = file
            .replace("{durable}", &name(&mirror.durable))
            .replace("{fast}", &name(&mirror.fast));
        self.write(step, mirror, &[(&file, &knob.value())])
    }

    fn write(&self, step: &Step, mirror: &Mirror, files: &[(&str, &str)]) -> Result<(), HandError> {
        let folder = self.root.join("sys/block").join(&mirror.name);
        for (file, value) in files {
            fs::write(folder.join(file), value).map_err(|error| {
                HandError::new(step, format!("{file} does not take {value}: {error}"))
            })?;
        }
        Ok(())
    }
}

fn named(step: &Step, name: Option<String>) -> Result<String, HandError> {
    name.ok_or_else(|| HandError::new(step, "it is not there any more"))
}

fn present<T>(seen: &Seen<T>) -> Option<&T> {
    match seen {
        Seen::Present(value) => Some(value),
        Seen::Absent | Seen::Unknown(_) => None,
    }
}

fn region(content: &Content) -> Option<u64> {
    lineage::region_at(present(&content.superblock)?)
}

/// Whether a path still leads to the device that was looked at, and not to another disk that got its number.
fn is_still(root: &Path, identity: &Identity) -> bool {
    let number = identity.number;
    let kind = FileSystem.kind(&crate::sysfs::under(root, &identity.path));
    let file = root.join(format!("sys/dev/block/{number}/diskseq"));
    matches!(kind, Ok(NodeKind::Block(now)) if now == number)
        && crate::sysfs::number_in(&file).ok() == identity.sequence
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{agent::mind::tests::spec, heal::tests::healthy};

    /// A folder that takes what is written to the mirror.
    fn node() -> (TempDir, Hands) {
        let root = TempDir::new().unwrap();
        let md = root.path().join("sys/block/md101/md");
        for folder in ["dev-sdb", "dev-md100", "bitmap"] {
            fs::create_dir_all(md.join(folder)).unwrap();
        }
        let hands = Hands::new(spec(), root.path(), &root.path().join("state"));
        (root, hands)
    }

    fn written(root: &TempDir, file: &str) -> String {
        fs::read_to_string(root.path().join("sys/block/md101/md").join(file)).unwrap()
    }

    #[test]
    fn a_part_is_compared_between_its_bounds_and_the_bounds_go_with_it() {
        let (root, hands) = node();
        let facts = healthy();
        let part = Step::StartCheck {
            from: 4096,
            to: Some(8192),
        };
        hands.step(&part, &facts).unwrap();
        let bounds = || ["sync_min", "sync_max", "sync_action"].map(|file| written(&root, file));
        assert_eq!(bounds(), ["4096", "8192", "check"]);
        hands.step(&Step::EndCheckWindow, &facts).unwrap();
        assert_eq!(bounds(), ["0", "max", "idle"]);
    }

    #[test]
    fn flags_are_set_on_the_leg_that_is_meant() {
        let (root, hands) = node();
        let facts = healthy();
        for (step, file, value) in [
            (Step::ClearWriteError, "dev-md100/state", "-write_error"),
            (
                Step::Set(Knob::FastNotWriteMostly),
                "dev-md100/state",
                "-writemostly",
            ),
            (
                Step::Set(Knob::DurableWriteMostly),
                "dev-sdb/state",
                "writemostly",
            ),
            (Step::Set(Knob::NoBacklog), "bitmap/backlog", "0"),
        ] {
            hands.step(&step, &facts).unwrap();
            assert_eq!(written(&root, file), value, "{step}");
        }
    }

    #[test]
    fn a_step_without_what_it_is_about_says_so() {
        let (_root, hands) = node();
        let mut facts = healthy();
        facts.mirror.as_mut().unwrap().fast = None;
        let error = hands.step(&Step::ClearWriteError, &facts).unwrap_err();
        assert_eq!(
            chain(&error),
            "failed to let bad sectors of the fast leg be tried again: it is not there any more"
        );
    }

    #[test]
    fn without_a_header_that_was_read_a_beat_fails() {
        let (_root, hands) = node();
        let error = hands.beat(&healthy()).unwrap_err();
        assert!(chain(&error).contains("could not be read"), "{error}");
        assert_eq!(hands.generation(), None);
    }
}
