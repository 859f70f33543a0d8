//! Actions as lines for people: the command as it could be typed.

use std::fmt;

use super::{
    Action, Leg,
    line::{dev, node},
};
use crate::lineage::{SLOT_BYTES, State};

impl fmt::Display for Action {
    /// The command as it could be typed, and why where that is not plain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line() {
            write!(f, "{line}")?;
        }
        match self {
            Self::Stop { because, .. } | Self::Fail { because, .. } => write!(f, "  # {because}"),
            Self::Mark { array, chunks } => {
                let chunks = ranges(chunks);
                write!(f, "echo {chunks} > /sys/block/{array}/md/bitmap_set_bits")
            }
            Self::SettleMarks { array } => {
                write!(f, "echo idle > /sys/block/{array}/md/sync_action")
            }
            Self::WriteMostly { array, member, on } => {
                let word = if *on { "writemostly" } else { "-writemostly" };
                write!(f, "echo {word} > /sys/block/{array}/md/dev-{member}/state")
            }
            Self::WriteLineage {
                leg,
                region,
                header,
            } => {
                let node = match leg {
                    Leg::Durable(identity) => node(identity),
                    Leg::Fast { array, stripe: _ } => dev(array),
                };
                let at = region + (header.slot() * SLOT_BYTES) as u64;
                let state = match header.state {
                    State::Creating => "creating",
                    State::InUse => "in use",
                    State::Clean => "clean",
                };
                let point = header.point;
                let (generation, beat) = (point.generation, point.beat);
                write!(
                    f,
                    "write lineage to {node} at {at}  # generation {generation}, beat {beat}, {state}"
                )
            }
            Self::ForgetLineage { stripe, region } => {
                write!(f, "erase lineage of {} at {region}", dev(stripe.array()))
            }
            Self::Set { array, knob, value } => {
                write!(f, "echo {value} > /sys/block/{array}/{}", knob.file())
            }
            Self::LimitWait { device, millis } => {
                write!(f, "echo {millis} > /sys/block/{device}/queue/io_timeout")
            }
            Self::ReadThrough { stripe, through } => {
                let bytes: u64 = through.parts.iter().map(|(from, to)| to - from).sum();
                write!(
                    f,
                    "read {} MiB of {}  # nothing is copied before all of it can be read",
                    bytes.div_ceil(1 << 20),
                    dev(stripe.array())
                )
            }
            Self::Mount { array, at, kind } => {
                write!(
                    f,
                    "mount -t {kind} -o noatime {} {}",
                    dev(array),
                    at.display()
                )
            }
            Self::Watch { durable, seen } => {
                let (generation, beat) = (seen.generation, seen.beat);
                write!(
                    f,
                    "watch the lineage of {}  # generation {generation}, beat {beat}: another boot had it in use",
                    node(durable)
                )
            }
            Self::Remove { .. }
            | Self::CreateStripe { .. }
            | Self::StartStripe { .. }
            | Self::ForgetMirror(_)
            | Self::CreateMirror { .. }
            | Self::StartMirror { .. }
            | Self::StartMirrorFromFast { .. }
            | Self::ReAddDurable { .. }
            | Self::ReAdd { .. }
            | Self::Add { .. }
            | Self::Format { .. }
            | Self::AddBitmap { .. }
            | Self::GrowMirror { .. }
            | Self::GrowFilesystem { .. } => Ok(()),
        }
    }
}

/// Ranges of chunks as md reads them: `3-5 9`.
pub(crate) fn ranges(chunks: &[(u64, u64)]) -> String {
    let range = |&(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    chunks.iter().map(range).collect::<Vec<_>>().join(" ")
}
