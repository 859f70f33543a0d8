//! The drawing: what is above stands on what is below, a line each, states in colour on a terminal.

use std::fmt::Write;

use super::Report;
use crate::{
    heal::{
        Condition, DurableLoss, Notice, WaitingOn,
        facts::{Facts, Leg, Mirror, Stripe},
        memory::Seconds,
    },
    lineage::BrokenSlots,
    md::SyncAction,
    sysfs::SECTOR_BYTES,
};

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// For files and pipes.
    Plain,
    /// For terminals.
    Colour,
}

/// How a word is meant.
#[derive(Clone, Copy)]
enum Tone {
    Good,
    Busy,
    Bad,
    Faint,
}

impl Paint {
    /// `text`, and after it as many blanks as `width` wants: escapes have no width.
    fn word(self, tone: Tone, text: &str, width: usize) -> String {
        let blanks = " ".repeat(width.saturating_sub(text.chars().count()));
        let code = match tone {
            Tone::Good => "32",
            Tone::Busy => "33",
            Tone::Bad => "1;31",
            Tone::Faint => "2",
        };
        match self {
            Self::Plain => format!("{text}{blanks}"),
            Self::Colour => format!("\x1b[{code}m{text}\x1b[0m{blanks}"),
        }
    }
}

const BAR_CELLS: u64 = 24;
/// Between the marks of the tree and a leg's state.
const NAME_WIDTH: usize = 12;
const STATE_WIDTH: usize = 24;

/// Draws it. Ends with a newline.
#[must_use]
pub fn draw(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(format!(
        "super-disk {} on {}",
        report.volume,
        report.target.display()
    ));
    line(headline(report, paint));
    if let Some(mirror) = report
        .facts
        .as_ref()
        .and_then(|facts| facts.mirror.as_ref())
    {
        line(String::new());
        tree(report, mirror, paint).into_iter().for_each(&mut line);
        line(String::new());
        background(report, mirror).into_iter().for_each(&mut line);
    }
    let said = said(report);
    if !said.is_empty() {
        line(String::new());
    }
    for sentence in said {
        line(format!("  {} {sentence}", paint.word(Tone::Bad, "!", 1)));
    }
    text
}

fn headline(report: &Report, paint: Paint) -> String {
    let (tone, word, rest) = match &report.condition {
        Condition::NotAssembled => (Tone::Bad, "NOT ASSEMBLED", "no array of it runs".to_owned()),
        Condition::DurableLost { why, frozen } => {
            let writes = if *frozen {
                "writes are stopped"
            } else {
                "WRITES ARE NOT YET STOPPED"
            };
            (Tone::Bad, "DURABLE LEG LOST", format!("{why}; {writes}"))
        }
        Condition::WrongWay => (
            Tone::Bad,
            "WRONG WAY",
            "md copies between the legs in a direction that the agent did not choose; it is being stopped"
                .to_owned(),
        ),
        Condition::Healthy => (
            Tone::Good,
            "HEALTHY",
            "reads come from the local disks, writes go to both legs".to_owned(),
        ),
        Condition::Rebuilding => (
            Tone::Busy,
            "REBUILDING",
            "the local disks are being filled; until then reads come from the network disk"
                .to_owned(),
        ),
        Condition::FastLost { waiting_on } => (
            Tone::Busy,
            "FAST LEG LOST",
            format!(
                "reads come from the network disk; {}",
                waiting(*waiting_on, report.at)
            ),
        ),
    };
    format!("  {}  {rest}", paint.word(tone, word, 0))
}

fn waiting(on: WaitingOn, now: Seconds) -> String {
    match on {
        WaitingOn::Step => "it is being repaired".to_owned(),
        WaitingOn::LocalDevices { found, wanted } => {
            format!("{found} of {wanted} local disks are there and free")
        }
        WaitingOn::Pause(until) => {
            format!("next attempt in {}", duration(until.saturating_sub(now)))
        }
        WaitingOn::DurableUnreadable { sector } => format!(
            "the network disk cannot be read from sector {sector} on: rewrite or trim what is there, or restore it"
        ),
        WaitingOn::GivenUp(until) => format!(
            "given up for {}: replace the node",
            duration(until.saturating_sub(now))
        ),
    }
}

fn tree(report: &Report, mirror: &Mirror, paint: Paint) -> Vec<String> {
    let stripe = report
        .facts
        .as_ref()
        .and_then(|facts: &Facts| facts.stripe.as_ref());
    let filesystem = report.facts.as_ref().and_then(|facts| facts.mount.as_ref());
    let filesystem = filesystem
        .filter(|mount| mount.device == mirror.name)
        .map_or_else(
            || "not mounted".to_owned(),
            |mount| mount.filesystem.clone(),
        );
    let mut lines = vec![format!(
        "  {:<width$}{}, {filesystem}",
        mirror.name,
        bytes(mirror.bytes),
        width = NAME_WIDTH + 13
    )];
    let durable = mirror.durable.as_ref();
    lines.push(leg_line("├─ durable", durable, paint));
    let fast = mirror.fast.as_ref();
    lines.push(leg_line("└─ fast   ", fast, paint));
    lines.extend(stripe.iter().flat_map(|stripe| member_lines(stripe, paint)));
    lines
}

fn leg_line(branch: &str, leg: Option<&Leg>, paint: Paint) -> String {
    let Some(leg) = leg else {
        let state = paint.word(Tone::Bad, "not in the mirror", STATE_WIDTH);
        return format!("  {branch}  {:<NAME_WIDTH$} {state}", "–");
    };
    let (tone, state) = state(leg);
    let state = paint.word(tone, &state, STATE_WIDTH);
    let traffic = leg.traffic;
    let mut line = format!("  {branch}  {:<NAME_WIDTH$} {state}", leg.device);
    let _ = write!(
        line,
        " {:>12} reads {:>12} writes",
        traffic.reads, traffic.writes
    );
    if leg.healed_sectors > 0 {
        let _ = write!(
            line,
            "  {} healed",
            bytes(leg.healed_sectors * SECTOR_BYTES)
        );
    }
    if leg.bad_sectors > 0 {
        let _ = write!(line, "  {} bad", bytes(leg.bad_sectors * SECTOR_BYTES));
    }
    line
}

fn state(leg: &Leg) -> (Tone, String) {
    let (tone, word) = if leg.flags.faulty {
        (Tone::Bad, "failed")
    } else if !leg.present {
        (Tone::Bad, "gone")
    } else if leg.flags.in_sync {
        (Tone::Good, "in sync")
    } else {
        (Tone::Busy, "not in sync")
    };
    let extra = if leg.flags.write_mostly {
        ", write-mostly"
    } else {
        ""
    };
    (tone, format!("{word}{extra}"))
}

fn member_lines(stripe: &Stripe, paint: Paint) -> Vec<String> {
    let last = stripe.members.len().saturating_sub(1);
    let lines = stripe.members.iter().enumerate().map(|(index, member)| {
        let branch = if index == last { "└─" } else { "├─" };
        let (tone, word) = match (member.present, stripe.broken) {
            (false, _) => (Tone::Bad, "gone"),
            (true, true) => (Tone::Bad, "there, the array is broken"),
            (true, false) => (Tone::Faint, "there"),
        };
        let state = paint.word(tone, word, STATE_WIDTH);
        let size = if member.present {
            bytes(member.bytes)
        } else {
            String::new()
        };
        format!(
            "     {branch} {:<width$} {state} {size:>18}",
            member.device,
            width = NAME_WIDTH + 6
        )
    });
    lines.collect()
}

fn background(report: &Report, mirror: &Mirror) -> Vec<String> {
    let mut lines = Vec::new();
    let sync = &mirror.sync;
    let title = match sync.action {
        SyncAction::Idle | SyncAction::Frozen => None,
        SyncAction::Recover => Some("rebuild"),
        SyncAction::Resync => Some("resync"),
        SyncAction::Check => Some("check"),
        SyncAction::Repair => Some("repair"),
        SyncAction::Reshape => Some("reshape"),
    };
    if let Some(title) = title {
        lines.push(format!(
            "  {title:<13}{}",
            progress(sync.progress, sync.kib_per_second)
        ));
    }
    let patrol = &report.patrol;
    let outcome = match patrol.last_unreadable {
        0 => "everything could be read".to_owned(),
        blocks => format!("{blocks} blocks could be read from neither leg"),
    };
    lines.push(format!(
        "  last patrol  {}",
        last(patrol.last_finished, report.at, &outcome)
    ));
    if patrol.position > 0 {
        let share = patrol.position as f64 / mirror.bytes.max(1) as f64;
        lines.push(format!("  patrol       {:.1} % read", share * 100.0));
    }
    let check = &report.check;
    let outcome = match check.last_mismatch {
        0 => "no differences".to_owned(),
        sectors => format!("legs differ in {}", bytes(sectors * SECTOR_BYTES)),
    };
    lines.push(format!(
        "  last check   {}",
        last(check.last_finished, report.at, &outcome)
    ));
    if let Some(generation) = report.generation {
        lines.push(format!("  generation   {generation}"));
    }
    lines
}

fn last(at: Option<Seconds>, now: Seconds, outcome: &str) -> String {
    match at {
        None => "never".to_owned(),
        Some(at) => format!("{} ago, {outcome}", duration(now.saturating_sub(at))),
    }
}

/// `[#########...............] 37.5 %, 180 MiB/s, 38 min left`
fn progress(progress: Option<(u64, u64)>, kib_per_second: u64) -> String {
    let Some((done, all)) = progress.filter(|(_, all)| *all > 0) else {
        return "waiting to begin".to_owned();
    };
    let done = done.min(all);
    let cells = (done as f64 / all as f64 * BAR_CELLS as f64) as u64;
    let bar = "#".repeat(cells as usize) + &".".repeat((BAR_CELLS - cells) as usize);
    let percent = done as f64 / all as f64 * 100.0;
    let mut text = format!("[{bar}] {percent:.1} %, {}/s", bytes(kib_per_second << 10));
    if let Some(left) = ((all - done) / 2).checked_div(kib_per_second) {
        let _ = write!(text, ", {} left", duration(left));
    }
    text
}

/// What stands below the drawing, in sentences.
fn said(report: &Report) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(refusal) = &report.refusal {
        said.push(format!("{} {}", refusal.code, refusal.text));
    }
    said.extend(report.notices.iter().map(|notice| match notice {
        Notice::NotMounted => format!("Nothing is mounted at {}.", report.target.display()),
        Notice::ForeignMount => format!("Something else is mounted at {}.", report.target.display()),
        Notice::ReadOnly => "The filesystem is read-only.".to_owned(),
        Notice::DurableSlot(slot) => format!(
            "The durable leg has slot {slot}, not 0: md's repair would overwrite it. Do not use it."
        ),
        Notice::FastBadSectors(sectors) => format!(
            "{} of the local disks cannot be written again; reads of it come from the network disk.",
            bytes(sectors * SECTOR_BYTES)
        ),
        Notice::MembersGone(1) => "A local disk left the node.".to_owned(),
        Notice::MembersGone(count) => format!("{count} local disks left the node."),
        Notice::WriteBehind(backlog) => format!(
            "md may acknowledge {backlog} writes before the network disk has them; it is being told not to. A snapshot \
             that was taken now is not complete."
        ),
        Notice::NoBeat(silent) => format!(
            "The lineage header was not written for {}: a network disk that is put back in time would not be noticed.",
            duration(*silent)
        ),
        Notice::BrokenSlots(broken) => format!(
            "One of the two slots of the lineage header on {} cannot be written; the other one is used. Nothing is lost; \
             replace the disk before the other place breaks, too.",
            legs(*broken)
        ),
        Notice::Mismatch(_) => "The legs differ where no read failed. The durable leg counts: fail \
             the fast leg, and it is rebuilt."
            .to_owned(),
    }));
    if let Condition::DurableLost { why, .. } = report.condition {
        let what_to_do = match why {
            DurableLoss::Returned => {
                "Writes stay stopped until this pod ends: delete it. The next one takes writes again, or asks which leg's \
                 data counts."
            }
            DurableLoss::Removed
            | DurableLoss::Faulty
            | DurableLoss::Gone
            | DurableLoss::NotInSync
            | DurableLoss::WriteError
            | DurableLoss::BadSectors(_) => {
                "The newest data is on the local disks alone. Keep this node; see `superdisk resolve`."
            }
        };
        said.push(what_to_do.to_owned());
    }
    if let Some(error) = &report.last_error {
        said.push(error.clone());
    }
    said
}

fn legs(broken: BrokenSlots) -> &'static str {
    let BrokenSlots { durable, fast } = broken;
    match (durable, fast) {
        (true, true) => "the network disk, and one of those on the local disks,",
        (true, false) => "the network disk",
        (false, _) => "the local disks",
    }
}

/// `6.0 GiB`: the largest unit that leaves a whole number before the point.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `38 min`: one unit, the largest that fits twice.
fn duration(seconds: Seconds) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        172_800.. => format!("{} days", seconds / 86_400),
    }
}
