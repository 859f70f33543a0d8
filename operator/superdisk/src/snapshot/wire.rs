//! The agent's socket: one line of JSON for a request, one for its answer. Values, and the sentences of refusals.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::SnapshotId;

/// Longest request, in bytes with its end of line: an ID has 64.
pub const REQUEST_BYTES: usize = 1024;

/// Where the agent of a volume listens.
#[must_use]
pub fn socket_path(state_dir: &Path, volume: &str) -> PathBuf {
    state_dir.join(format!("{volume}.sock"))
}

/// What is asked of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Hold a moment for this snapshot.
    Begin { id: SnapshotId },
    /// Let it go: the snapshot was cut.
    End { id: SnapshotId },
    /// Say what is held.
    Status,
}

/// What the agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The filesystem is frozen, and the durable leg says which snapshot it is.
    Begun(Open),
    /// It is not frozen any more.
    Ended(Past),
    /// What is held, and what was held last.
    Status {
        open: Option<Open>,
        /// A snapshot that is not held yet, or not any more: its request is being carried out.
        #[serde(skip_serializing_if = "Option::is_none")]
        under_way: Option<SnapshotId>,
        last: Option<Past>,
    },
    /// Nothing was changed.
    Refused(Refusal),
    /// It was tried; the filesystem takes writes as before.
    Failed {
        id: SnapshotId,
        /// What was tried, and why it failed.
        why: String,
    },
}

/// A moment that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub id: SnapshotId,
    /// What the snapshot's header says; consent to a copy of it names this number.
    pub generation: u64,
    /// How much longer it is held, in milliseconds.
    pub left_millis: u64,
}

/// A moment that was held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    pub id: SnapshotId,
    pub generation: u64,
    /// Why it was not held until its end; `None` when it was, and the snapshot is proven.
    pub lost: Option<Loss>,
}

/// Why a moment was not held until its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The end came too late.
    TimeOver,
    /// Something else has thawed the filesystem, or it cannot be told whether it did.
    Thawed,
    /// The durable leg was lost meanwhile.
    DurableLost,
    /// The agent ended, or was killed.
    AgentEnded,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeOver => {
                "its end came more than 10 s after its begin, and the agent had thawed by then"
            }
            Self::Thawed => "something else thawed the filesystem before its end",
            Self::DurableLost => "the network disk was lost before its end",
            Self::AgentEnded => "the agent ended before it",
        })
    }
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub next_step: String,
}

impl Refusal {
    /// A refusal. The texts are sentences without their full stops.
    pub(crate) fn new(code: Code, message: impl Into<String>, next_step: &str) -> Self {
        Self {
            code,
            message: message.into(),
            next_step: next_step.to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.as_str();
        write!(f, "{code} {}. {}.", self.message, self.next_step)
    }
}

/// Stable codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// The durable leg alone would not be a complete copy now, or cannot be marked.
    #[serde(rename = "E_SNAPSHOT_NOT_NOW")]
    NotNow,
    /// The red line.
    #[serde(rename = "E_SNAPSHOT_DURABLE_LOST")]
    DurableLost,
    /// Another request is under way, or another snapshot is held.
    #[serde(rename = "E_SNAPSHOT_BUSY")]
    Busy,
    /// The ID was for another moment, which is over.
    #[serde(rename = "E_SNAPSHOT_OVER")]
    Over,
    /// The agent knows of no snapshot with this ID.
    #[serde(rename = "E_SNAPSHOT_UNKNOWN")]
    Unknown,
    /// The moment was not held until its end.
    #[serde(rename = "E_SNAPSHOT_NOT_PROVEN")]
    NotProven,
    /// It was tried, and failed.
    #[serde(rename = "E_SNAPSHOT_FAILED")]
    Failed,
    /// The agent does not understand what is asked.
    #[serde(rename = "E_SNAPSHOT_BAD_REQUEST")]
    BadRequest,
}

impl Code {
    /// The code as programs read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotNow => "E_SNAPSHOT_NOT_NOW",
            Self::DurableLost => "E_SNAPSHOT_DURABLE_LOST",
            Self::Busy => "E_SNAPSHOT_BUSY",
            Self::Over => "E_SNAPSHOT_OVER",
            Self::Unknown => "E_SNAPSHOT_UNKNOWN",
            Self::NotProven => "E_SNAPSHOT_NOT_PROVEN",
            Self::Failed => "E_SNAPSHOT_FAILED",
            Self::BadRequest => "E_SNAPSHOT_BAD_REQUEST",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json<T: Serialize>(value: &T) -> String {
        serde_json::to_string(value).unwrap()
    }

    fn id() -> SnapshotId {
        "s-1".parse().unwrap()
    }

    #[test]
    fn a_request_and_an_answer_are_one_line_each() {
        let longest = Request::Begin {
            id: "x".repeat(SnapshotId::MAX).parse().unwrap(),
        };
        assert!(json(&longest).len() < REQUEST_BYTES);
        assert_eq!(
            json(&Request::End { id: id() }),
            r#"{"request":"end","id":"s-1"}"#
        );
        let open = Open {
            id: id(),
            generation: 7,
            left_millis: 9_876,
        };
        assert_eq!(
            json(&Answer::Begun(open)),
            r#"{"answer":"begun","id":"s-1","generation":7,"left_millis":9876}"#
        );
        let past = Past {
            id: id(),
            generation: 7,
            lost: Some(Loss::TimeOver),
        };
        assert_eq!(
            json(&Answer::Ended(past)),
            r#"{"answer":"ended","id":"s-1","generation":7,"lost":"time-over"}"#
        );
    }

    #[test]
    fn a_refusal_names_its_code_first() {
        let refusal = Refusal::new(Code::Busy, "Another one is held", "End it first");
        assert_eq!(
            refusal.to_string(),
            "E_SNAPSHOT_BUSY Another one is held. End it first."
        );
        assert_eq!(json(&refusal.code), r#""E_SNAPSHOT_BUSY""#);
    }

    #[test]
    fn an_id_that_is_none_is_no_request() {
        let parsed: Result<Request, _> =
            serde_json::from_str(r#"{"request":"begin","id":"../etc"}"#);
        assert!(
            parsed
                .unwrap_err()
                .to_string()
                .contains("a snapshot ID has")
        );
    }
}
