//! Does one [`Action`]: looks again whether what it was decided by still holds, then starts its command or
//! makes its write. Decides nothing.

mod gone;
mod headers;
mod holds;
mod started;
mod through;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::mount::MountFlags;

use crate::{
    action::{self, Action, Leg},
    command::{CommandError, Commands},
    inventory::{self, ObserveError, Tried},
    lineage::{Header, Point},
    model::Seen,
    spec::{FilesystemKind, Spec},
    sysfs::under,
};
use headers::erase_headers;
pub use headers::{Beside, Place, WriteHeader};
pub(crate) use headers::{in_either_slot, write_header, write_slot};
use holds::still_holds;

/// How long md may take to let go of a member that has failed.
const RELEASE: Duration = Duration::from_secs(10);
/// How long md may take to see that a mirror with one leg has nothing to copy to.
const SETTLED: Duration = Duration::from_secs(10);
/// Three times an agent's pause between two beats: one that is late, or fails, is not taken for the last.
const WATCH: Duration = Duration::from_secs(30);
/// Between two looks at the header meanwhile.
const WATCH_LOOK: Duration = Duration::from_secs(1);
/// Between two looks at something that sysfs tells only when asked.
const PAUSE: Duration = Duration::from_millis(100);

/// A step did not succeed. Its text says what was tried; its source says why it failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// What it was decided by no longer holds; nothing was done.
    #[error("stopped before `{action}`: {what}")]
    Changed {
        /// The step.
        action: String,
        /// What is different.
        what: String,
    },
    /// The node could not be looked at again; nothing was done.
    #[error("stopped before `{action}`: the node cannot be looked at again")]
    Look {
        /// The step.
        action: String,
        source: ObserveError,
    },
    /// The command failed.
    #[error("failed to run a step")]
    Command(#[source] CommandError),
    /// The write or the mount failed.
    #[error("failed to {action}")]
    Write {
        /// The step.
        action: String,
        source: io::Error,
    },
    /// The array was stopped and is still there.
    #[error("{array} was stopped, and its folder in /sys/block is still there after {} s", gone::GONE.as_secs())]
    StillThere {
        /// Its name.
        array: String,
    },
}

/// Does actions, and counts them.
#[derive(Debug)]
pub struct Executor<'a> {
    spec: &'a Spec,
    root: PathBuf,
    blocks: &'a dyn inventory::Blocks,
    commands: Commands,
    beside: Option<&'a dyn Beside>,
    /// Steps until the process ends as if it had been killed; for tests of what that leaves behind.
    fuse: Option<u32>,
}

/// Exit status of a process that SIGKILL ended, as shells show it.
const KILLED: i32 = 137;

impl<'a> Executor<'a> {
    /// For this super-disk, on the node under `root`.
    #[must_use]
    pub fn new(
        spec: &'a Spec,
        root: &Path,
        blocks: &'a dyn inventory::Blocks,
        stop_after: Option<u32>,
    ) -> Self {
        Self {
            spec,
            root: root.to_owned(),
            blocks,
            commands: Commands::new(),
            beside: None,
            fuse: stop_after,
        }
    }

    /// While this writes headers, too.
    #[must_use]
    pub fn beside(self, beside: &'a dyn Beside) -> Self {
        Self {
            beside: Some(beside),
            ..self
        }
    }

    /// Does one action. What the command said is in the answer, for the log.
    pub fn execute(&mut self, action: &Action) -> Result<String, ExecuteError> {
        let now = inventory::observe(self.spec, &self.root, self.blocks, &Tried::default());
        let now = now.map_err(|source| ExecuteError::Look {
            action: action.to_string(),
            source,
        })?;
        still_holds(self.spec, &now, action).map_err(|what| ExecuteError::Changed {
            action: action.to_string(),
            what: what.to_owned(),
        })?;
        let said = self.act(action)?;
        self.burn();
        Ok(said)
    }

    fn act(&self, action: &Action) -> Result<String, ExecuteError> {
        if let Some(line) = action.line() {
            let run = || self.commands.run(&line).map_err(ExecuteError::Command);
            return match action {
                Action::Stop { array, because: _ } => {
                    let said = run()?;
                    let folder = self.root.join("sys/block").join(array);
                    let gone = gone::wait_until_gone(&folder, &|| drop(run()));
                    gone.map(|()| said).map_err(|()| ExecuteError::StillThere {
                        array: array.clone(),
                    })
                }
                // md holds on to a member while requests to it are on their way.
                Action::Remove { .. } => retry(RELEASE, run),
                Action::StartStripe { array, .. }
                | Action::StartMirror { array, .. }
                | Action::StartMirrorFromFast { array, .. } => {
                    let folder = self.root.join("sys/block").join(array);
                    started::outcome(&folder, self.commands.run(&line))
                        .map_err(ExecuteError::Command)
                }
                Action::Fail { .. }
                | Action::CreateStripe { .. }
                | Action::ForgetLineage { .. }
                | Action::ForgetMirror(_)
                | Action::CreateMirror { .. }
                | Action::Watch { .. }
                | Action::LimitWait { .. }
                | Action::ReadThrough { .. }
                | Action::ReAddDurable { .. }
                | Action::Mark { .. }
                | Action::SettleMarks { .. }
                | Action::ReAdd { .. }
                | Action::Add { .. }
                | Action::WriteMostly { .. }
                | Action::WriteLineage { .. }
                | Action::Format { .. }
                | Action::Set { .. }
                | Action::AddBitmap { .. }
                | Action::GrowMirror { .. }
                | Action::GrowFilesystem { .. }
                | Action::Mount { .. } => run(),
            };
        }
        self.without_program(action)
            .map_err(|source| ExecuteError::Write {
                action: action.to_string(),
                source,
            })
    }

    /// What is done by a write or a mount; what is worth saying of it.
    fn without_program(&self, action: &Action) -> io::Result<String> {
        match action {
            // A kernel that does not take it waits as long as it did: that is no reason to go without the device.
            Action::LimitWait { .. } => Ok(match self.write(action) {
                Ok(()) => String::new(),
                Err(error) => format!("it is not taken: {error}"),
            }),
            Action::ReadThrough { stripe, through } => {
                let fast = under(&self.root, &Path::new("/dev").join(stripe.array()));
                through::read_through(self.blocks, &fast, through)?;
                Ok(String::new())
            }
            Action::WriteLineage {
                leg,
                region,
                header,
            } => {
                let write = |node: &Path, header: &Header| {
                    write_header(&under(&self.root, node), *region, header)
                };
                let refused = match (leg, self.beside) {
                    (Leg::Durable(durable), Some(beside)) => {
                        let place = Place {
                            durable,
                            region: *region,
                        };
                        beside.in_turn(place, header, &|header| write(&durable.path, header))?
                    }
                    (Leg::Durable(durable), None) => write(&durable.path, header)?,
                    (Leg::Fast { array, stripe: _ }, _) => {
                        write(&Path::new("/dev").join(array), header)?
                    }
                };
                Ok(refused.map_or_else(String::new, |error| {
                    format!("its place cannot be written, the other one is used: {error}")
                }))
            }
            _ => self.write(action).map(|()| String::new()),
        }
    }

    /// Of these, what says nothing.
    fn write(&self, action: &Action) -> io::Result<()> {
        let md = |array: &str| self.root.join("sys/block").join(array);
        match action {
            Action::Mark { array, chunks } => {
                fs::write(md(array).join("md/bitmap_set_bits"), action::ranges(chunks))
            }
            Action::SettleMarks { array } => {
                let folder = md(array).join("md");
                fs::write(folder.join("sync_action"), "idle")?;
                retry(SETTLED, || {
                    match fs::read_to_string(folder.join("resync_start"))?.trim() {
                        "none" => Ok(()),
                        sector => Err(io::Error::other(format!(
                            "md still means to copy from sector {sector} on"
                        ))),
                    }
                })
            }
            Action::WriteMostly { array, member, on } => {
                let word = if *on { "writemostly" } else { "-writemostly" };
                fs::write(md(array).join(format!("md/dev-{member}/state")), word)
            }
            Action::Set { array, knob, value } => {
                fs::write(md(array).join(knob.file()), value.to_string())
            }
            Action::ForgetLineage { stripe, region } => {
                let node = under(&self.root, &Path::new("/dev").join(stripe.array()));
                erase_headers(&node, *region, self.blocks)
            }
            Action::Mount { array, at, kind } => {
                fs::create_dir_all(at)?;
                // A clone of a volume has the same filesystem UUID, and xfs mounts only one such otherwise;
                // that the same mirror is not there twice is known by now.
                let data = match kind {
                    FilesystemKind::Xfs => Some(c"nouuid"),
                    FilesystemKind::Ext4 => None,
                };
                let source = Path::new("/dev").join(array);
                let flags = MountFlags::NOATIME;
                rustix::mount::mount(&source, at, kind.as_str(), flags, data)?;
                Ok(())
            }
            Action::Watch { durable, seen } => {
                let node = under(&self.root, &durable.path);
                watch(
                    WATCH,
                    WATCH_LOOK,
                    || inventory::header_on(self.blocks, &node),
                    *seen,
                );
                Ok(())
            }
            Action::LimitWait { device, millis } => {
                fs::write(md(device).join("queue/io_timeout"), millis.to_string())
            }
            Action::Stop { .. }
            | Action::Fail { .. }
            | Action::Remove { .. }
            | Action::CreateStripe { .. }
            | Action::StartStripe { .. }
            | Action::ForgetMirror(_)
            | Action::CreateMirror { .. }
            | Action::StartMirror { .. }
            | Action::ReadThrough { .. }
            | Action::StartMirrorFromFast { .. }
            | Action::ReAddDurable { .. }
            | Action::ReAdd { .. }
            | Action::Add { .. }
            | Action::WriteLineage { .. }
            | Action::Format { .. }
            | Action::AddBitmap { .. }
            | Action::GrowMirror { .. }
            | Action::GrowFilesystem { .. } => {
                Err(io::Error::other("it is done by a program, and has none"))
            }
        }
    }

    fn burn(&mut self) {
        if let Some(left) = &mut self.fuse {
            *left = left.saturating_sub(1);
            if *left == 0 {
                std::process::exit(KILLED);
            }
        }
    }
}

/// Lets the time pass, unless the header goes on from what was seen of it: more than that nobody has to know.
fn watch(time: Duration, every: Duration, header: impl Fn() -> Seen<Header>, seen: Point) {
    let goes_on = || matches!(header(), Seen::Present(header) if header.point != seen);
    let end = Instant::now() + time;
    while Instant::now() < end && !goes_on() {
        pause(every);
    }
}

/// Tries until it succeeds or the time is over.
pub fn retry<T, E>(time: Duration, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + time;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => pause(PAUSE),
            result => return result,
        }
    }
}

/// Lets some time pass.
#[expect(
    clippy::disallowed_methods,
    reason = "neither mdadm nor sysfs tells when; there is nothing to wait on"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::superblock::Uuid;

    fn header() -> Header {
        Header::first("pvc-1".parse().unwrap(), Uuid([1; 16]), Uuid([2; 16]))
    }

    /// How often the header was looked at: its first looks find `found`, and then it has gone on.
    fn looks(time: Duration, found: Seen<Header>, first: usize) -> usize {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            match looks.get() > first {
                true => Seen::Present(header().next()),
                false => found.clone(),
            }
        };
        watch(time, Duration::from_millis(1), look, header().point);
        looks.get()
    }

    #[test]
    fn a_watch_ends_when_the_header_goes_on_and_otherwise_when_its_time_is_over() {
        const HOUR: Duration = Duration::from_secs(3600);
        for unmoved in [
            Seen::Present(header()),
            Seen::Unknown("EIO".to_owned()),
            Seen::Absent,
        ] {
            assert_eq!(looks(HOUR, unmoved.clone(), 3), 4);
            let time = Duration::from_millis(20);
            let began = Instant::now();
            looks(time, unmoved, usize::MAX);
            assert!(began.elapsed() >= time);
        }
    }
}
