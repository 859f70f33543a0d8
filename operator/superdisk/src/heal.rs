//! Decides what the running side does next: what is seen, what is remembered and the time in; a condition, what
//! else is worth saying, and steps out. Pure: it opens nothing, starts nothing and reads no clock.
//!
//! ```text
//!                   durable leg not in sync, or it misses writes
//!   any ───────────────────────────────────────────────────────────▶ DurableLost  freeze; until the super-disk ends,
//!                                                                                 also when the leg comes back
//!
//!   Healthy ──leg faulty / member gone──▶ FastLost ──removed, stopped, N devices──▶ Rebuilding ──▶ Healthy
//!      ▲                                     │ kicked, all members alive                 │
//!      └──────────── re-added ◀──────────────┘◀──────────────────────────────────────────┘
//! ```
//!
//! The fast leg's loss is degraded service: it is tried again with growing pauses and a bound, and then said.
//! The durable leg's loss is the red line: the application would go on, without an error, on disks that do
//! not last.

pub mod check;
mod decision;
pub mod facts;
pub mod memory;
pub mod observe;
#[cfg(test)]
pub(crate) mod tests;

pub use self::decision::{Condition, Decision, DurableLoss, Notice, Setting, Step, WaitingOn};
use self::{
    facts::{Facts, Leg, Mirror, Stripe},
    memory::{Attempt, Memory, Seconds},
};
use crate::{
    md::{Knob, MAX_READ_ERRORS, SyncAction},
    size::mirror_kib,
};

/// What differs per installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many devices the fast array has.
    pub local_count: usize,
    /// What a rebuild gets even when the database is busy, KiB/s. md's own 1 MiB/s would take days.
    pub rebuild_min_kib: u64,
    /// The most a rebuild takes, KiB/s.
    pub rebuild_max_kib: u64,
    /// The most a check takes, KiB/s.
    pub check_max_kib: u64,
    /// From the end of a check to the start of the next, seconds.
    pub check_every: Seconds,
    /// Whether the space by which the durable leg has grown is to be used.
    pub grow: bool,
}

/// Sectors of the fast leg that may be read from the durable leg before the fast leg is rebuilt: 1 MiB.
const BAD_SECTORS_MAX: u64 = 2048;
/// A leg that md kicked although its devices live is added back this often, …
const READDS_AN_HOUR: usize = 3;
const READDS_A_DAY: usize = 6;
/// …after a pause of this long, doubled each time within the hour, …
const READD_PAUSE: Seconds = 60;
/// …and is rebuilt when that did not help. Each rebuild reads the whole network disk.
const REBUILDS_A_DAY: usize = 3;
/// Pause after a rebuild that did not last, times the number of them.
const REBUILD_PAUSE: Seconds = 600;
/// A copy that has not begun after this long has been given up by md, …
const STALLED: Seconds = 30;
/// …and is started again after this time; each start reads everything again up to the unreadable sector of the durable
/// leg.
const STALLED_AGAIN: Seconds = 6 * HOUR;
/// Time without a beat after which it is reported: there is one every ten seconds, and a plan may take a while.
const NO_BEAT: Seconds = 120;
const HOUR: Seconds = 3600;
const DAY: Seconds = 24 * HOUR;

/// What to do about `facts`, given what was done before.
#[must_use]
pub fn decide(limits: &Limits, facts: &Facts, memory: &Memory, now: Seconds) -> Decision {
    let Some(mirror) = &facts.mirror else {
        return Decision {
            condition: Condition::NotAssembled,
            notices: Vec::new(),
            steps: Vec::new(),
        };
    };
    let notices = notices(facts, mirror, memory, now);
    if let Some(why) = durable_loss(mirror).or_else(|| returned(facts, mirror, memory)) {
        // Nothing else: adding a leg back now would copy from fast to durable.
        return Decision {
            condition: Condition::DurableLost {
                why,
                frozen: memory.frozen,
            },
            notices,
            // In every round: the filesystem may have been thawed, as backup hooks do, and the kernel does not notify.
            steps: if facts.mount.is_none() {
                Vec::new()
            } else {
                vec![Step::Freeze]
            },
        };
    }
    let (condition, mut steps) = fast_leg(limits, facts, mirror, memory, now);
    if steps.is_empty() && condition == Condition::Healthy && may_grow(limits, facts, memory, now) {
        steps.push(Step::Grow);
    } else {
        steps.extend(check::steps(limits, mirror, memory, &condition, now));
    }
    steps.extend(settings(limits, mirror, memory));
    Decision {
        condition,
        notices,
        steps,
    }
}

/// A person has given the durable leg back to the mirror. What the red line has frozen stays so: nobody else thaws it,
/// and every writer hangs.
fn returned(facts: &Facts, mirror: &Mirror, memory: &Memory) -> Option<DurableLoss> {
    let mount = facts.mount.as_ref();
    let is_mounted = mount.is_some_and(|mount| mount.device == mirror.name);
    (memory.frozen && is_mounted).then_some(DurableLoss::Returned)
}

/// Whether the mirror is to grow now. What failed is tried again a day later: each attempt takes the fast
/// leg out, and copies everything to it.
fn may_grow(limits: &Limits, facts: &Facts, memory: &Memory, now: Seconds) -> bool {
    let again = memory.grew_at.is_none_or(|last| now >= last + DAY);
    let mirror = facts.mirror.as_ref();
    let idle = mirror.is_some_and(|mirror| mirror.sync.action == SyncAction::Idle);
    limits.grow && again && idle && has_room(facts) == Some(true)
}

/// Whether both legs have room for a larger mirror; `None` while one of them is away.
fn has_room(facts: &Facts) -> Option<bool> {
    let (mirror, stripe) = (facts.mirror.as_ref()?, facts.stripe.as_ref()?);
    let durable = mirror.durable.as_ref()?;
    Some(mirror_kib(stripe.bytes, durable.bytes) > mirror.bytes >> 10)
}

/// Whether writes reach the durable leg; `None` when they do.
#[must_use]
pub fn durable_loss(mirror: &Mirror) -> Option<DurableLoss> {
    let Some(leg) = &mirror.durable else {
        return Some(DurableLoss::Removed);
    };
    let flags = leg.flags;
    if flags.faulty {
        Some(DurableLoss::Faulty)
    } else if !leg.present {
        Some(DurableLoss::Gone)
    } else if !flags.in_sync {
        Some(DurableLoss::NotInSync)
    } else if leg.bad_sectors > 0 {
        Some(DurableLoss::BadSectors(leg.bad_sectors))
    } else if flags.write_error {
        Some(DurableLoss::WriteError)
    } else {
        None
    }
}

fn fast_leg(
    limits: &Limits,
    facts: &Facts,
    mirror: &Mirror,
    memory: &Memory,
    now: Seconds,
) -> (Condition, Vec<Step>) {
    let lost = |waiting_on, steps| (Condition::FastLost { waiting_on }, steps);
    match (&mirror.fast, &facts.stripe) {
        (Some(leg), _) if leg.flags.faulty => lost(WaitingOn::Step, vec![Step::RemoveFastLeg]),
        (Some(_), _) if mirror.sync.action == SyncAction::Resync => {
            (Condition::WrongWay, vec![Step::FailFastLeg])
        }
        // md notices only at the next read or write: until then readers would be the ones to find out.
        (Some(_), None) => lost(WaitingOn::Step, vec![Step::FailFastLeg]),
        (Some(_), Some(stripe)) if !stripe.whole() => {
            lost(WaitingOn::Step, vec![Step::FailFastLeg])
        }
        (Some(leg), Some(_)) if !leg.in_sync() && mirror.sync.action == SyncAction::Idle => {
            let (waiting_on, steps) = stalled(leg, memory, now);
            lost(waiting_on, steps)
        }
        (Some(leg), Some(_)) => member(leg, memory, now),
        (None, Some(stripe)) if !stripe.whole() => lost(WaitingOn::Step, vec![Step::StopStripe]),
        (None, Some(_)) => {
            let (waiting_on, steps) = kicked(memory, now);
            lost(waiting_on, steps)
        }
        (None, None) => {
            let (waiting_on, steps) = replaced(limits, facts.local_found, memory, now);
            lost(waiting_on, steps)
        }
    }
}

/// The leg is in the mirror and its devices are there.
fn member(leg: &Leg, memory: &Memory, now: Seconds) -> (Condition, Vec<Step>) {
    if !leg.in_sync() {
        return (Condition::Rebuilding, Vec::new());
    }
    // Too much of it is served by the durable leg. What md remembers as bad survives a re-add.
    let worn = leg.bad_sectors > BAD_SECTORS_MAX;
    if worn && memory.rebuilds_since(now.saturating_sub(DAY)) == 0 {
        return (Condition::Healthy, vec![Step::FailFastLeg]);
    }
    let steps = if leg.flags.write_error {
        vec![Step::ClearWriteError]
    } else {
        Vec::new()
    };
    (Condition::Healthy, steps)
}

/// No progress: md has yet to begin, or has given up because the durable leg cannot be read. md does not start again by
/// itself; the unreadable sectors may have been rewritten meanwhile.
fn stalled(leg: &Leg, memory: &Memory, now: Seconds) -> (WaitingOn, Vec<Step>) {
    let since = memory.stalled_since.unwrap_or(now);
    if now < since + STALLED {
        return (WaitingOn::Step, Vec::new());
    }
    let sector = leg.filled_sectors.unwrap_or_default();
    let again = now >= since + STALLED_AGAIN
        && memory.rebuilds_since(now.saturating_sub(DAY)) < REBUILDS_A_DAY;
    let steps = if again {
        vec![Step::FailFastLeg]
    } else {
        Vec::new()
    };
    (WaitingOn::DurableUnreadable { sector }, steps)
}

/// md kicked the leg, or we did, although all its devices are there.
fn kicked(memory: &Memory, now: Seconds) -> (WaitingOn, Vec<Step>) {
    let readds = memory.readds_since(now.saturating_sub(HOUR));
    let today = memory.readds_since(now.saturating_sub(DAY));
    if readds < READDS_AN_HOUR && today < READDS_A_DAY && !memory.rebuild_wanted {
        let doubled = READD_PAUSE << readds.saturating_sub(1);
        let pause = if readds == 0 { 0 } else { doubled };
        return after(memory, pause, now, Step::ReAddFastLeg);
    }
    rebuild(memory, now)
}

/// There is no fast array: the devices are new, or were never there.
fn replaced(
    limits: &Limits,
    found: usize,
    memory: &Memory,
    now: Seconds,
) -> (WaitingOn, Vec<Step>) {
    let wanted = limits.local_count;
    if found < wanted {
        return (WaitingOn::LocalDevices { found, wanted }, Vec::new());
    }
    rebuild(memory, now)
}

fn rebuild(memory: &Memory, now: Seconds) -> (WaitingOn, Vec<Step>) {
    let day_ago = now.saturating_sub(DAY);
    let done = memory.rebuilds_since(day_ago);
    if done >= REBUILDS_A_DAY {
        let oldest = memory.oldest_rebuild_since(day_ago).unwrap_or(now);
        return (WaitingOn::GivenUp(oldest + DAY), Vec::new());
    }
    let pause = REBUILD_PAUSE * done as Seconds;
    after(memory, pause, now, Step::RebuildFastLeg)
}

/// `step`, unless the last attempt is less than `pause` ago.
fn after(memory: &Memory, pause: Seconds, now: Seconds, step: Step) -> (WaitingOn, Vec<Step>) {
    let last = memory.attempts.last().map_or(0, |Attempt { at, .. }| *at);
    if pause > 0 && now < last + pause {
        return (WaitingOn::Pause(last + pause), Vec::new());
    }
    (WaitingOn::Step, vec![step])
}

fn settings(limits: &Limits, mirror: &Mirror, memory: &Memory) -> Vec<Step> {
    let now = mirror.knobs;
    let max = match mirror.sync.action {
        SyncAction::Check | SyncAction::Repair => limits.check_max_kib,
        SyncAction::Idle
        | SyncAction::Recover
        | SyncAction::Resync
        | SyncAction::Reshape
        | SyncAction::Frozen => limits.rebuild_max_kib,
    };
    let min = limits.rebuild_min_kib.min(max);
    let durable_read = mirror
        .durable
        .as_ref()
        .is_some_and(|leg| !leg.flags.write_mostly);
    let fast_unread = mirror
        .fast
        .as_ref()
        .is_some_and(|leg| leg.flags.write_mostly);
    // A check that has reached its limit is ended, not let go on.
    let checking = mirror.sync.action == SyncAction::Check;
    let cut_short = now.sync_ends_early && !memory.check.is_open() && !checking;
    [
        (
            now.max_read_errors != MAX_READ_ERRORS,
            Setting::Knob(Knob::MaxReadErrors, MAX_READ_ERRORS),
        ),
        (
            now.sync_speed_min != min,
            Setting::Knob(Knob::SyncSpeedMin, min),
        ),
        (
            now.sync_speed_max != max,
            Setting::Knob(Knob::SyncSpeedMax, max),
        ),
        (now.rotational, Setting::Knob(Knob::Rotational, 0)),
        (now.backlog != 0, Setting::Knob(Knob::Backlog, 0)),
        (cut_short, Setting::SyncToTheEnd),
        (durable_read, Setting::DurableWriteMostly),
        (fast_unread, Setting::FastNotWriteMostly),
    ]
    .into_iter()
    .filter(|(wrong, _)| *wrong)
    .map(|(_, setting)| Step::Set(setting))
    .collect()
}

fn notices(facts: &Facts, mirror: &Mirror, memory: &Memory, now: Seconds) -> Vec<Notice> {
    let mut found = Vec::new();
    match &facts.mount {
        None => found.push(Notice::NotMounted),
        Some(mount) if mount.device != mirror.name => found.push(Notice::ForeignMount),
        Some(mount) if mount.read_only => found.push(Notice::ReadOnly),
        Some(_) => {}
    }
    let gone = |stripe: &Stripe| stripe.members.iter().filter(|one| !one.present).count();
    match facts.stripe.as_ref().map_or(0, gone) {
        0 => {}
        count => found.push(Notice::MembersGone(count)),
    }
    if let Some(leg) = &mirror.durable
        && let Some(slot @ 1..) = leg.slot
    {
        found.push(Notice::DurableSlot(u32::from(slot)));
    }
    if let Some(leg) = &mirror.fast
        && leg.bad_sectors > 0
    {
        found.push(Notice::FastBadSectors(leg.bad_sectors));
    }
    if mirror.knobs.backlog > 0 {
        found.push(Notice::WriteBehind(mirror.knobs.backlog));
    }
    // A durable leg that is lost takes no header, and that is said already.
    let silent = memory.last_beat.map_or(0, |last| now.saturating_sub(last));
    if silent >= NO_BEAT && durable_loss(mirror).is_none() {
        found.push(Notice::NoBeat(silent));
    }
    if !memory.broken_slots.is_none() {
        found.push(Notice::BrokenSlots(memory.broken_slots));
    }
    if memory.check.last_mismatch > 0 {
        found.push(Notice::Mismatch(memory.check.last_mismatch));
    }
    found
}
