//! A super-disk as the operator sees it: what the agent beside it answers, or how far its pod has come. And the
//! judgement on it, in words for a person. Pure.

mod answer;
mod judge;

use readstates_operator_api::{SuperDiskState, conditions::Reason};

pub use self::{
    answer::{
        AgentState, BrokenSlots, Condition, DurableLoss, Facts, Mirror, Refusal, Sync, WaitingOn,
    },
    judge::{judge, smaller_than},
};

/// What was seen of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperDiskSeen {
    /// Its pod has not come so far, and why, where that is known.
    Before(Option<String>),
    /// It is being put together.
    Assembling,
    /// The container that should have assembled or maintained it ended like this.
    Ended {
        status: i32,
        /// The last it wrote.
        said: String,
    },
    /// Its agent answered.
    Answered(AgentState),
    /// Its agent runs and did not answer.
    Silent(String),
}

/// The judgement for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub state: SuperDiskState,
    /// The code of a refusal.
    pub code: Option<String>,
    /// In a sentence, with what to do.
    pub message: String,
    /// Whether time alone does not cure it.
    pub needs_a_person: bool,
}

/// A state as the reason of a condition or an event.
#[must_use]
pub fn reason(state: SuperDiskState) -> Reason {
    match state {
        SuperDiskState::Waiting => Reason::SuperDiskWaiting,
        SuperDiskState::Refused => Reason::SuperDiskRefused,
        SuperDiskState::Failed => Reason::SuperDiskFailed,
        SuperDiskState::Assembling => Reason::SuperDiskAssembling,
        SuperDiskState::Healthy => Reason::SuperDiskHealthy,
        SuperDiskState::Rebuilding => Reason::FastLegRebuilding,
        SuperDiskState::FastLost => Reason::FastLegLost,
        SuperDiskState::DurableLost => Reason::DurableLegLost,
        SuperDiskState::Unknown => Reason::NotObserved,
    }
}

#[cfg(test)]
mod tests;
