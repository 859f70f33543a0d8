//! Status of a running super-disk, for people and programs: facts, memory and decision in; a [`Report`] out, as a
//! drawing or as JSON. Pure.

mod draw;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use draw::{Paint, draw};

use crate::{
    heal::{
        Condition, Decision, Notice,
        check::CheckMemory,
        facts::Facts,
        memory::{Memory, Seconds},
    },
    lineage::BrokenSlots,
    patrol,
};

/// All that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// When it was true, seconds since 1970.
    pub at: Seconds,
    pub volume: String,
    /// Where it belongs.
    pub target: PathBuf,
    /// Mounted there: a database may start.
    pub mounted: bool,
    /// Mounted, and what is written lasts: a database may serve.
    pub ready: bool,
    /// How it is.
    pub condition: Condition,
    /// What else is worth saying.
    pub notices: Vec<Notice>,
    /// Why it was not assembled, when it was refused.
    pub refusal: Option<RefusalReport>,
    /// What failed: of a step until a step does not, of writing the header until a beat does not.
    pub last_error: Option<String>,
    /// What runs; `None` when it could not be looked at.
    pub facts: Option<Facts>,
    /// Reading everything.
    pub patrol: patrol::Record,
    /// Comparing the legs.
    pub check: CheckMemory,
    /// Generation of the newest header on the durable leg: it grows with each start and with snapshots; `None` when not
    /// known.
    pub generation: Option<u64>,
    /// When that header was written last.
    pub last_beat: Option<Seconds>,
    /// Where one of both slots did not take it.
    pub broken_slots: BrokenSlots,
}

/// A refusal, as told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalReport {
    /// Its stable code.
    pub code: String,
    /// What is wrong and what to do, in sentences.
    pub text: String,
}

/// What a report is made of besides facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub volume: String,
    /// Where it belongs.
    pub target: PathBuf,
    pub patrol: patrol::Record,
    /// Of the last attempt to assemble.
    pub refusal: Option<RefusalReport>,
    /// Of the last step, and of the last beat.
    pub last_error: Option<String>,
    /// Of the header.
    pub generation: Option<u64>,
}

/// Puts it together. Without facts nothing is ready.
#[must_use]
pub fn report(
    context: Context,
    facts: Option<Facts>,
    decision: Decision,
    memory: &Memory,
    at: Seconds,
) -> Report {
    let Context {
        volume,
        target,
        patrol,
        refusal,
        last_error,
        generation,
    } = context;
    let Decision {
        condition,
        notices,
        steps: _,
    } = decision;
    let mounted = facts.as_ref().is_some_and(is_mounted);
    let lasts = match condition {
        Condition::Healthy
        | Condition::Rebuilding
        | Condition::WrongWay
        | Condition::FastLost { .. } => true,
        Condition::NotAssembled | Condition::DurableLost { .. } => false,
    };
    Report {
        at,
        volume,
        target,
        mounted,
        ready: mounted && lasts && !memory.frozen && !notices.contains(&Notice::ReadOnly),
        condition,
        notices,
        refusal,
        last_error,
        facts,
        patrol,
        check: memory.check.clone(),
        generation,
        last_beat: memory.last_beat,
        broken_slots: memory.broken_slots,
    }
}

/// Whether the mirror, and nothing else, is what is mounted.
fn is_mounted(facts: &Facts) -> bool {
    match (&facts.mirror, &facts.mount) {
        (Some(mirror), Some(mount)) => mirror.name == mount.device,
        (None, _) | (_, None) => false,
    }
}
