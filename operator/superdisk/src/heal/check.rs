//! Schedule of the comparison of both legs: md's own `check`, monthly, in windows, never `repair`.
//!
//! Pure. A window is bounded by `sync_min` and `sync_max`; md stops at the latter and waits, and what it counted is
//! added up over the windows. A check that something interrupted goes on at the window it was in.

use serde::{Deserialize, Serialize};

use super::{
    Condition, Limits, Step,
    facts::{Mirror, SyncAction},
    memory::{Memory, Seconds},
    observe::SECTOR_BYTES,
};

/// What is compared in one go: 4 GiB, about two minutes of a network disk that gives 30 MiB/s for it.
const WINDOW_SECTORS: u64 = (4 << 30) / SECTOR_BYTES;

/// How far the comparison is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckMemory {
    /// When the last one came to its end, or when we first thought of one.
    pub last_finished: Option<Seconds>,
    /// Sectors it found to differ.
    pub last_mismatch: u64,
    /// Where the next window begins.
    pub position: u64,
    /// Differing sectors in the windows before that.
    pub mismatch: u64,
    /// The window that md works on; `None` between windows.
    pub window: Option<Window>,
}

/// A part of the mirror under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First sector.
    pub from: u64,
    /// The sector after the last; `None` up to the end.
    pub to: Option<u64>,
}

impl CheckMemory {
    /// Whether md's limits are ours at this moment.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.window.is_some()
    }

    pub(super) fn open(&mut self, from: u64, to: Option<u64>) {
        self.window = Some(Window { from, to });
    }

    /// Takes note of what md did since the last look. The first look starts the clock: a new mirror was
    /// compared by being built.
    pub fn observe(&mut self, mirror: &Mirror, now: Seconds) {
        self.last_finished.get_or_insert(now);
        let Some(window) = self.window else { return };
        match mirror.sync.action {
            SyncAction::Check => {
                if let (Some(to), Some((done, _))) = (window.to, mirror.sync.progress)
                    && done >= to
                {
                    self.mismatch += mirror.mismatch_sectors;
                    self.position = to;
                    self.window = None;
                }
            }
            // The last window has no end to wait at.
            SyncAction::Idle if window.to.is_none() => {
                self.last_mismatch = self.mismatch + mirror.mismatch_sectors;
                self.last_finished = Some(now);
                (self.position, self.mismatch, self.window) = (0, 0, None);
            }
            // Interrupted: by a repair of the fast leg, by hand, by a restart.
            SyncAction::Idle
            | SyncAction::Recover
            | SyncAction::Resync
            | SyncAction::Repair
            | SyncAction::Reshape
            | SyncAction::Frozen => self.window = None,
        }
    }
}

/// What to do about the comparison; nothing while the legs are not both in sync.
pub(super) fn steps(
    limits: &Limits,
    mirror: &Mirror,
    memory: &Memory,
    condition: &Condition,
    now: Seconds,
) -> Vec<Step> {
    let check = &memory.check;
    let healthy = matches!(condition, Condition::Healthy);
    match mirror.sync.action {
        SyncAction::Check if !check.is_open() && mirror.knobs.sync_ends_early => {
            vec![Step::EndCheckWindow]
        }
        SyncAction::Idle if healthy && !check.is_open() && due(limits, memory, now) => {
            let sectors = mirror.bytes / SECTOR_BYTES;
            let end = check.position + WINDOW_SECTORS;
            vec![Step::StartCheck {
                from: check.position,
                to: (end < sectors).then_some(end),
            }]
        }
        SyncAction::Idle
        | SyncAction::Recover
        | SyncAction::Resync
        | SyncAction::Check
        | SyncAction::Repair
        | SyncAction::Reshape
        | SyncAction::Frozen => Vec::new(),
    }
}

fn due(limits: &Limits, memory: &Memory, now: Seconds) -> bool {
    let check = &memory.check;
    check.position > 0
        || check
            .last_finished
            .is_some_and(|finished| now >= finished.saturating_add(limits.check_every))
}
