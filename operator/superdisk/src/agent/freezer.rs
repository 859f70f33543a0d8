//! Stops the writes to the filesystem, and lets them go on: for the red line and for snapshots, which know of each
//! other here.
//!
//! | frozen by | thawed by |
//! |---|---|
//! | the red line | the end of the super-disk alone |
//! | a snapshot | its end, its time, the end of its agent; not while the red line holds |
//!
//! One program runs at a time, so that no thaw follows the red line's freeze: the red line says that it holds before it
//! waits for its turn, and a thaw looks at that when it has its own.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::command::{CommandError, Commands, Line, Program};

/// Freezes one filesystem.
#[derive(Debug)]
pub struct Freezer {
    mount: PathBuf,
    run: Run,
    red_line: AtomicBool,
    /// Whether a snapshot holds it; held while a program runs.
    snapshot: Mutex<bool>,
}

/// Runs a program, within a time of its own where one is given.
type Run = fn(&Line, Option<Duration>) -> Result<String, CommandError>;

fn run(line: &Line, time: Option<Duration>) -> Result<String, CommandError> {
    let commands = Commands::new();
    time.map_or_else(
        || commands.run(line),
        |time| commands.run_within(line, time),
    )
}

/// Why a snapshot did not freeze it.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// By the red line, or by somebody else: then it is not ours to thaw.
    #[error("the filesystem is frozen already")]
    Frozen,
    /// The program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl Freezer {
    /// Of what is mounted there.
    #[must_use]
    pub fn new(mount: &Path) -> Self {
        Self {
            mount: mount.to_owned(),
            run,
            red_line: AtomicBool::new(false),
            snapshot: Mutex::new(false),
        }
    }

    /// From now on nothing of a snapshot thaws it. Returns at once.
    pub fn hold_red_line(&self) {
        self.red_line.store(true, Ordering::SeqCst);
    }

    /// Freezes it for the red line. Frozen already is as good.
    pub fn freeze_for_red_line(&self) -> Result<(), CommandError> {
        self.hold_red_line();
        let _turn = self.turn();
        match self.fsfreeze("--freeze", None) {
            Err(error) if is_frozen(&error) => Ok(()),
            result => result,
        }
    }

    /// Freezes it for a snapshot. [`Self::thaw_snapshot`] is due when that fails, too.
    pub fn freeze_for_snapshot(&self, time: Duration) -> Result<(), FreezeError> {
        let mut held = self.turn();
        if *held || self.red_line.load(Ordering::SeqCst) {
            return Err(FreezeError::Frozen);
        }
        match self.fsfreeze("--freeze", Some(time)) {
            Err(error) if is_frozen(&error) => Err(FreezeError::Frozen),
            result => {
                // Also when it failed: a program that was killed may have come to its end in the kernel.
                *held = true;
                Ok(result?)
            }
        }
    }

    /// A snapshot of an agent before this one may have frozen it.
    pub fn take_over(&self) {
        *self.turn() = true;
    }

    /// Whether it is still frozen. When it was not, or that cannot be told, it may be now, and [`Self::thaw_snapshot`] is
    /// due.
    pub fn is_still_frozen(&self, time: Duration) -> Result<bool, CommandError> {
        let mut held = self.turn();
        match self.fsfreeze("--freeze", Some(time)) {
            Err(error) if is_frozen(&error) => Ok(true),
            result => {
                *held = true;
                result.map(|()| false)
            }
        }
    }

    /// Lets writes go on that a snapshot holds, and no others.
    pub fn thaw_snapshot(&self) -> Result<(), CommandError> {
        let mut held = self.turn();
        if *held && !self.red_line.load(Ordering::SeqCst) {
            self.thaw_now()?;
        }
        *held = false;
        Ok(())
    }

    /// Lets writes go on, whatever held them: the super-disk ends.
    pub fn thaw(&self) -> Result<(), CommandError> {
        let mut held = self.turn();
        self.thaw_now()?;
        *held = false;
        self.red_line.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn thaw_now(&self) -> Result<(), CommandError> {
        match self.fsfreeze("--unfreeze", None) {
            // FITHAW answers EINVAL where it is not frozen: somebody was faster.
            Err(CommandError::Failed { said, .. }) if said.ends_with("Invalid argument") => Ok(()),
            result => result,
        }
    }

    fn fsfreeze(&self, how: &str, time: Option<Duration>) -> Result<(), CommandError> {
        let line = Line {
            program: Program::Fsfreeze,
            arguments: vec![how.to_owned(), self.mount.display().to_string()],
        };
        (self.run)(&line, time).map(drop)
    }

    fn turn(&self) -> MutexGuard<'_, bool> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// FIFREEZE answers EBUSY where it is frozen already.
fn is_frozen(error: &CommandError) -> bool {
    matches!(error, CommandError::Failed { said, .. } if said.ends_with("busy"))
}

#[cfg(test)]
pub(super) mod tests {
    use std::{cell::RefCell, os::unix::process::ExitStatusExt, process::ExitStatus};

    use super::*;

    thread_local! {
        /// A filesystem, and what was asked of it.
        static KERNEL: RefCell<(bool, Vec<String>)> = const { RefCell::new((false, Vec::new())) };
    }

    fn kernel(line: &Line, _: Option<Duration>) -> Result<String, CommandError> {
        KERNEL.with_borrow_mut(|(frozen, asked)| {
            let freeze = line.arguments[0] == "--freeze";
            asked.push(line.arguments[0].clone());
            if *frozen == freeze {
                let why = match freeze {
                    true => "freeze failed: Device or resource busy",
                    false => "unfreeze failed: Invalid argument",
                };
                return Err(CommandError::Failed {
                    line: line.clone(),
                    status: ExitStatus::from_raw(1 << 8),
                    said: format!("fsfreeze: /data: {why}"),
                });
            }
            *frozen = freeze;
            Ok(String::new())
        })
    }

    fn freezer() -> Freezer {
        KERNEL.set((false, Vec::new()));
        Freezer {
            run: kernel,
            ..Freezer::new(Path::new("/data"))
        }
    }

    fn is_frozen_now() -> bool {
        KERNEL.with_borrow(|(frozen, _)| *frozen)
    }

    const TIME: Duration = Duration::from_secs(10);

    #[test]
    fn a_snapshot_freezes_and_thaws_and_a_second_thaw_asks_nothing() {
        let freezer = freezer();
        freezer.freeze_for_snapshot(TIME).unwrap();
        assert!(is_frozen_now() && freezer.is_still_frozen(TIME).unwrap());
        freezer.thaw_snapshot().unwrap();
        assert!(!is_frozen_now());
        freezer.thaw_snapshot().unwrap();
        KERNEL.with_borrow(|(_, asked)| {
            assert_eq!(*asked, ["--freeze", "--freeze", "--unfreeze"]);
        });
    }

    #[test]
    fn the_red_line_is_not_thawed_by_the_end_of_a_snapshot_whichever_came_first() {
        let freezer = freezer();
        freezer.freeze_for_snapshot(TIME).unwrap();
        freezer.freeze_for_red_line().unwrap();
        freezer.thaw_snapshot().unwrap();
        assert!(is_frozen_now());
        assert!(matches!(
            freezer.freeze_for_snapshot(TIME),
            Err(FreezeError::Frozen)
        ));
        freezer.thaw_snapshot().unwrap();
        assert!(is_frozen_now());
        // The end of the super-disk does.
        freezer.thaw().unwrap();
        assert!(!is_frozen_now());
    }

    #[test]
    fn the_red_line_holds_before_its_turn_comes() {
        let freezer = freezer();
        freezer.freeze_for_snapshot(TIME).unwrap();
        freezer.hold_red_line();
        freezer.thaw_snapshot().unwrap();
        assert!(is_frozen_now());
    }

    #[test]
    fn what_somebody_else_has_frozen_is_refused_and_left() {
        let freezer = freezer();
        KERNEL.with_borrow_mut(|(frozen, _)| *frozen = true);
        assert!(matches!(
            freezer.freeze_for_snapshot(TIME),
            Err(FreezeError::Frozen)
        ));
        freezer.thaw_snapshot().unwrap();
        assert!(is_frozen_now());
    }

    #[test]
    fn what_somebody_else_has_thawed_is_noticed_and_thawed_again() {
        let freezer = freezer();
        freezer.freeze_for_snapshot(TIME).unwrap();
        KERNEL.with_borrow_mut(|(frozen, _)| *frozen = false);
        assert!(!freezer.is_still_frozen(TIME).unwrap());
        assert!(is_frozen_now());
        freezer.thaw_snapshot().unwrap();
        assert!(!is_frozen_now());
        freezer.thaw_snapshot().unwrap();
    }

    #[test]
    fn what_an_agent_before_has_frozen_is_thawed_by_the_next() {
        let freezer = freezer();
        KERNEL.with_borrow_mut(|(frozen, _)| *frozen = true);
        freezer.take_over();
        freezer.thaw_snapshot().unwrap();
        assert!(!is_frozen_now());
    }
}
