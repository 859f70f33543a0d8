//! The real ground of a [`teardown`](crate::teardown): this node, a deadline, and what the agent remembers.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use super::{hands::Hands, mind::Mind, stop::Stop};
use crate::{
    assemble::chain,
    heal::facts::Facts,
    teardown::{Ground, users},
};

/// A super-disk of this node, to be taken down by a deadline.
#[derive(Debug)]
pub struct Standing<'a> {
    hands: &'a Hands,
    mind: &'a Mind,
    deadline: Instant,
}

impl<'a> Standing<'a> {
    /// To be down by `deadline`.
    #[must_use]
    pub fn new(hands: &'a Hands, mind: &'a Mind, deadline: Instant) -> Self {
        Self {
            hands,
            mind,
            deadline,
        }
    }
}

impl Ground for Standing<'_> {
    fn look(&self) -> Result<Facts, String> {
        self.hands.look_closely().map_err(|error| chain(&error))
    }

    fn is_frozen(&self) -> bool {
        // By a snapshot: its agent may have been killed before it could thaw.
        self.mind.memory().frozen || self.mind.snapshots().frozen.is_some()
    }

    fn thaw(&self) -> Result<(), String> {
        let thawed = self.hands.freezer().thaw();
        let thawed = thawed.map_err(|error| format!("failed to thaw: {}", chain(&error)));
        // Thawed by hand meanwhile, or never frozen: either way the unmount tells.
        self.mind.thawed();
        thawed
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
        self.hands.mark_clean(facts).map_err(|error| chain(&error))
    }

    fn stop(&self, array: &str) -> Result<(), String> {
        self.hands.stop(array).map_err(|error| chain(&error))
    }

    fn say(&self, sentence: &str) {
        super::say(sentence);
    }

    fn pause(&self, at_most: Duration) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let _ = Stop::default().pause(at_most.min(left));
        left.is_zero()
    }
}
