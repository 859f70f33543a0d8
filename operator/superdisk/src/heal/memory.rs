//! Memory of the agent from round to round and across restarts: attempts, so that they stay bounded; the freeze, which
//! the kernel does not report; how far the check is.
//!
//! Values only; [`crate::agent`] keeps them in the state folder, which a reboot empties as it empties the kernel.

use serde::{Deserialize, Serialize};

use super::{Step, check::CheckMemory, facts::Facts};
use crate::{lineage::BrokenSlots, md::SyncAction};

/// Seconds since 1970.
pub type Seconds = u64;

/// Attempts older than this decide nothing any more.
const KEEP: Seconds = 24 * 3600;

/// Whether a fast leg that is there is not whole, and nothing fills it: md has given up, or is about to begin.
fn is_stalled(facts: &Facts) -> bool {
    let (Some(mirror), Some(stripe)) = (&facts.mirror, &facts.stripe) else {
        return false;
    };
    let idle = mirror.sync.action == SyncAction::Idle;
    let fast = mirror.fast.as_ref();
    idle && stripe.whole() && fast.is_some_and(|leg| !leg.in_sync() && !leg.flags.faulty)
}

/// What was done before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// We froze the filesystem and have not thawed it.
    pub frozen: bool,
    /// The next repair of the fast leg copies everything.
    pub rebuild_wanted: bool,
    /// Attempts to get the fast leg back within a day, oldest first.
    pub attempts: Vec<Attempt>,
    /// The comparison of the legs.
    pub check: CheckMemory,
    /// When an attempt to make the mirror larger began, until it is as large as the legs allow. Left out when there is nothing to say: an agent
    /// of the release before reads the rest then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grew_at: Option<Seconds>,
    /// Since when the fast leg is not whole and nothing fills it.
    #[serde(default)]
    pub stalled_since: Option<Seconds>,
    /// When the lineage was written last; before that, when it was first to be written.
    #[serde(default)]
    pub last_beat: Option<Seconds>,
    /// Which slots did not take the last header that was for them. Left out when there is nothing to say: an agent of the
    /// release before reads the rest then.
    #[serde(default, skip_serializing_if = "BrokenSlots::is_none")]
    pub broken_slots: BrokenSlots,
}

/// One attempt to get the fast leg back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began.
    pub at: Seconds,
    pub kind: AttemptKind,
}

/// How it was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptKind {
    /// Copying what changed.
    ReAdd,
    /// Copying everything.
    Rebuild,
}

impl Memory {
    /// Takes note of what only time tells.
    pub fn observe(&mut self, facts: &Facts, now: Seconds) {
        self.forget_the_future(now);
        self.stalled_since = is_stalled(facts).then(|| self.stalled_since.unwrap_or(now));
        if facts.mirror.is_some() {
            self.last_beat.get_or_insert(now);
        }
        // It has grown: an attempt that failed leaves room.
        if super::has_room(facts) == Some(false) {
            self.grew_at = None;
        }
        if let Some(mirror) = &facts.mirror {
            self.check.observe(mirror, now);
        }
    }

    /// What was done while the clock was ahead was done now at the latest: a pause is not longer for it.
    fn forget_the_future(&mut self, now: Seconds) {
        let Self {
            frozen: _,
            rebuild_wanted: _,
            attempts,
            check,
            grew_at,
            stalled_since,
            last_beat,
            broken_slots: _,
        } = self;
        let attempts = attempts.iter_mut().map(|attempt| &mut attempt.at);
        let others = [&mut check.last_finished, grew_at, stalled_since, last_beat];
        for at in attempts.chain(others.into_iter().flatten()) {
            *at = now.min(*at);
        }
    }

    /// The lineage was written, though not to these slots.
    pub fn beat(&mut self, now: Seconds, broken: BrokenSlots) {
        self.last_beat = Some(now);
        self.broken_slots = broken;
    }

    /// Before `step` is done: an attempt counts even when it never comes back.
    pub fn before(&mut self, step: &Step, now: Seconds) {
        match step {
            Step::ReAddFastLeg => self.attempt(AttemptKind::ReAdd, now),
            Step::RebuildFastLeg => self.attempt(AttemptKind::Rebuild, now),
            Step::Grow => self.grew_at = Some(now),
            Step::Freeze
            | Step::FailFastLeg
            | Step::RemoveFastLeg
            | Step::StopStripe
            | Step::ClearWriteError
            | Step::Set(_)
            | Step::StartCheck { .. }
            | Step::EndCheckWindow => {}
        }
    }

    /// After `step` was done without an error. `fast_bad_sectors` as seen when it was decided.
    pub fn after(&mut self, step: &Step, fast_bad_sectors: u64) {
        match step {
            Step::Freeze => self.frozen = true,
            Step::FailFastLeg => {
                let stalled = self.stalled_since.is_some();
                self.rebuild_wanted |= stalled || fast_bad_sectors > super::BAD_SECTORS_MAX;
            }
            Step::RebuildFastLeg => self.rebuild_wanted = false,
            Step::StartCheck { from, to } => self.check.open(*from, *to),
            Step::ReAddFastLeg
            | Step::Grow
            | Step::RemoveFastLeg
            | Step::StopStripe
            | Step::ClearWriteError
            | Step::Set(_)
            | Step::EndCheckWindow => {}
        }
    }

    fn attempt(&mut self, kind: AttemptKind, now: Seconds) {
        self.attempts.retain(|one| one.at + KEEP > now);
        self.attempts.push(Attempt { at: now, kind });
    }

    /// How often the leg was added back since `since`.
    #[must_use]
    pub fn readds_since(&self, since: Seconds) -> usize {
        self.since(since, AttemptKind::ReAdd).count()
    }

    /// How often the fast leg was rebuilt since `since`.
    #[must_use]
    pub fn rebuilds_since(&self, since: Seconds) -> usize {
        self.since(since, AttemptKind::Rebuild).count()
    }

    /// When the first of those began.
    #[must_use]
    pub fn oldest_rebuild_since(&self, since: Seconds) -> Option<Seconds> {
        self.since(since, AttemptKind::Rebuild)
            .map(|one| one.at)
            .min()
    }

    fn since(&self, since: Seconds, kind: AttemptKind) -> impl Iterator<Item = &Attempt> {
        let wanted = move |one: &&Attempt| one.kind == kind && one.at > since;
        self.attempts.iter().filter(wanted)
    }
}
