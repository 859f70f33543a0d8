//! The real host of a [`teardown`](crate::teardown): this node, a deadline, and what the agent remembers.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use super::{disk::SuperDisk, state::AgentState};
use crate::{
    assemble::chain,
    heal::facts::Facts,
    log::say,
    stop::Stop,
    teardown::{Host, users},
};

/// A super-disk of this node, to be taken down by a deadline.
#[derive(Debug)]
pub struct AgentHost<'a> {
    disk: &'a SuperDisk,
    agent: &'a AgentState,
    deadline: Instant,
}

impl<'a> AgentHost<'a> {
    /// To be down by `deadline`.
    #[must_use]
    pub fn new(disk: &'a SuperDisk, agent: &'a AgentState, deadline: Instant) -> Self {
        Self {
            disk,
            agent,
            deadline,
        }
    }
}

impl Host for AgentHost<'_> {
    fn look(&self) -> Result<Facts, String> {
        self.disk.look_closely().map_err(|error| chain(&error))
    }

    fn thaw(&self) -> Result<(), String> {
        self.disk.freezer().thaw().map_err(|error| chain(&error))?;
        self.agent.thawed();
        Ok(())
    }

    fn unmount(&self, target: &Path) -> io::Result<()> {
        let folder = rustix::fs::open(
            target,
            rustix::fs::OFlags::RDONLY
                | rustix::fs::OFlags::DIRECTORY
                | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        rustix::fs::syncfs(&folder)?;
        drop(folder);
        rustix::mount::unmount(target, rustix::mount::UnmountFlags::NOFOLLOW)?;
        Ok(())
    }

    fn users(&self, target: &Path) -> Vec<String> {
        users::users(Path::new("/"), target)
    }

    fn mark_clean(&self, facts: &Facts) -> Result<(), String> {
        self.disk.mark_clean(facts).map_err(|error| chain(&error))
    }

    fn stop(&self, array: &str) -> Result<(), String> {
        self.disk.stop(array).map_err(|error| chain(&error))
    }

    fn say(&self, sentence: &str) {
        say(sentence);
    }

    fn pause(&self, at_most: Duration) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let _ = Stop::default().pause(at_most.min(left));
        left.is_zero()
    }
}
