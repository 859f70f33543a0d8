//! A super-disk as the operator sees it: what the agent beside it answers, or how far its pod has come. And the
//! judgement on it, in words for a person. Pure.

use std::fmt::Write as _;

use readstates_operator_api::{SuperDiskState, conditions::Reason};
use serde::Deserialize;

/// What was seen of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperDiskSeen {
    /// Its pod has not come so far, and why, where that is known.
    Before(Option<String>),
    /// It is being put together.
    Assembling,
    /// The container that should have put it together, or minded it, ended like this.
    Ended {
        /// Its exit status.
        status: i32,
        /// The last it wrote.
        said: String,
    },
    /// Its agent answered.
    Answered(Answer),
    /// Its agent runs and did not answer.
    Silent(String),
}

/// What an agent answers to `GET /state`, as far as it matters here. It says more.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the filesystem is mounted where the database looks for it.
    pub mounted: bool,
    /// How it is.
    pub condition: Condition,
    /// Why it was not put together.
    pub refusal: Option<Refusal>,
    /// What failed last.
    pub last_error: Option<String>,
    /// What runs.
    pub facts: Option<Facts>,
}

/// How a super-disk is, in the agent's words.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Condition {
    /// No array runs.
    NotAssembled,
    /// The network disk is lost.
    DurableLost {
        /// Whether writes are stopped.
        frozen: bool,
    },
    /// A copy that nobody asked for is being undone.
    WrongWay,
    /// Both legs are in sync.
    Healthy,
    /// The local disks are being filled.
    Rebuilding,
    /// The local disks are lost.
    FastLost {
        /// What their repair waits for.
        waiting_on: WaitingOn,
    },
}

/// What the repair of the local disks waits for.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WaitingOn {
    /// Nothing.
    Step,
    /// Disks.
    LocalDevices {
        /// That many are there.
        found: u32,
        /// That many are needed.
        wanted: u32,
    },
    /// The next attempt, at that time.
    Pause(u64),
    /// The next day, at that time: all attempts failed.
    GivenUp(u64),
}

/// A refusal.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its stable code.
    pub code: String,
    /// What is wrong and what to do.
    pub text: String,
}

/// What runs.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The mirror of both legs.
    pub mirror: Option<Mirror>,
}

/// The mirror of both legs.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// What it does besides serving.
    pub sync: Sync,
}

/// What a mirror does besides serving.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Sectors done, and sectors to do.
    pub progress: Option<(u64, u64)>,
    /// Present speed.
    pub kib_per_second: u64,
}

/// What that comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// In one word.
    pub state: SuperDiskState,
    /// The code of a refusal.
    pub code: Option<String>,
    /// In a sentence, with what to do.
    pub message: String,
    /// Whether time alone does not cure it.
    pub needs_a_person: bool,
}

/// Judges what was seen.
#[must_use]
pub fn judge(seen: &SuperDiskSeen) -> Judgement {
    let of = |state, message: String| Judgement {
        state,
        code: None,
        message,
        needs_a_person: false,
    };
    match seen {
        SuperDiskSeen::Before(why) => {
            let why = why
                .as_ref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            of(
                SuperDiskState::Waiting,
                format!("its pod has not come to it{why}"),
            )
        }
        SuperDiskSeen::Assembling => of(
            SuperDiskState::Assembling,
            "it is being put together".to_owned(),
        ),
        SuperDiskSeen::Silent(why) => of(
            SuperDiskState::Unknown,
            format!("its agent does not answer: {why}"),
        ),
        SuperDiskSeen::Ended { status, said } => ended(*status, said),
        SuperDiskSeen::Answered(answer) => answered(answer),
    }
}

/// A container that ended: with a refusal, or because something failed.
fn ended(status: i32, said: &str) -> Judgement {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let refused = lines().rev().find_map(|line| {
        let (code, text) = line.split_once(' ')?;
        (status == REFUSED && is_code(code)).then(|| (code.to_owned(), text.to_owned()))
    });
    match refused {
        Some((code, text)) => refusal(code, text),
        None => Judgement {
            state: SuperDiskState::Failed,
            code: None,
            message: format!(
                "it ended with status {status} and said: {}",
                lines().next_back().unwrap_or("nothing")
            ),
            needs_a_person: true,
        },
    }
}

/// The exit status of the disk's program when it refuses.
const REFUSED: i32 = 3;

fn is_code(word: &str) -> bool {
    let rest = word.strip_prefix("E_").unwrap_or_default();
    !rest.is_empty()
        && rest
            .chars()
            .all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit())
}

fn refusal(code: String, text: String) -> Judgement {
    Judgement {
        state: SuperDiskState::Refused,
        code: Some(code),
        message: text,
        needs_a_person: true,
    }
}

fn answered(answer: &Answer) -> Judgement {
    let Answer {
        mounted,
        condition,
        refusal: refused,
        last_error,
        facts,
    } = answer;
    let of = |state, message: String, needs_a_person| Judgement {
        state,
        code: None,
        message,
        needs_a_person,
    };
    let failed = last_error
        .as_ref()
        .map(|error| format!(" The last attempt failed: {error}."))
        .unwrap_or_default();
    match (condition, refused) {
        (Condition::NotAssembled, Some(Refusal { code, text })) => {
            refusal(code.clone(), text.clone())
        }
        (Condition::NotAssembled, None) => of(
            SuperDiskState::Assembling,
            format!("it is being put together.{failed}"),
            false,
        ),
        (Condition::DurableLost { frozen }, _) => {
            let writes = if *frozen {
                "writes are stopped"
            } else {
                "writes are being stopped"
            };
            let message = format!(
                "the network disk is lost and {writes}; the newest data may be on the local disks alone. Do not \
                 delete the node: attach the network disk again, then delete the pod"
            );
            of(SuperDiskState::DurableLost, message, true)
        }
        (_, _) if !mounted => of(
            SuperDiskState::Assembling,
            format!("its filesystem is not mounted yet.{failed}"),
            false,
        ),
        (Condition::Healthy, _) => of(
            SuperDiskState::Healthy,
            "both legs are in sync".to_owned(),
            false,
        ),
        (Condition::WrongWay, _) => of(
            SuperDiskState::Rebuilding,
            "a copy between the legs that nobody asked for is being undone".to_owned(),
            false,
        ),
        (Condition::Rebuilding, _) => of(
            SuperDiskState::Rebuilding,
            rebuilding(facts.as_ref()),
            false,
        ),
        (Condition::FastLost { waiting_on }, _) => {
            let (why, needs_a_person) = fast_lost(*waiting_on);
            let message = format!("the network disk serves alone: {why}.{failed}");
            of(SuperDiskState::FastLost, message, needs_a_person)
        }
    }
}

/// With whole percents: what is written to a status shall not change all the time.
fn rebuilding(facts: Option<&Facts>) -> String {
    let mut text =
        "the local disks are filled from the network disk, which serves meanwhile".to_owned();
    let sync = facts.and_then(|f| f.mirror.as_ref()).map(|m| &m.sync);
    if let Some(Sync {
        progress: Some((done, all)),
        kib_per_second: _,
    }) = sync
    {
        let percent = done
            .saturating_mul(100)
            .checked_div(*all)
            .unwrap_or_default();
        // Writing to a String does not fail.
        let _ = write!(text, ": {percent} %");
    }
    text
}

fn fast_lost(waiting_on: WaitingOn) -> (String, bool) {
    match waiting_on {
        WaitingOn::Step => ("its local disks are being taken back".to_owned(), false),
        WaitingOn::LocalDevices { found, wanted } => (
            format!(
                "{found} of {wanted} local disks are there and free. Replace the node, or put disks in; the \
                 database goes on"
            ),
            true,
        ),
        WaitingOn::Pause(_) => ("its local disks are tried again soon".to_owned(), false),
        WaitingOn::GivenUp(_) => (
            "every attempt of a day to take its local disks back failed. Replace the node; the database goes on"
                .to_owned(),
            true,
        ),
    }
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
mod tests {
    use super::*;

    /// What the disk's own tests say that an agent answers.
    macro_rules! answer {
        ($name:literal) => {
            serde_json::from_str::<Answer>(include_str!(concat!(
                "../superdisk/tests/fixtures/status/",
                $name,
                ".json"
            )))
            .unwrap()
        };
    }

    fn told(answer: Answer) -> (SuperDiskState, bool, String) {
        let judged = judge(&SuperDiskSeen::Answered(answer));
        (judged.state, judged.needs_a_person, judged.message)
    }

    #[test]
    fn every_answer_of_an_agent_is_understood() {
        let table = [
            (
                answer!("healthy"),
                SuperDiskState::Healthy,
                false,
                "both legs",
            ),
            (
                answer!("check"),
                SuperDiskState::Healthy,
                false,
                "both legs",
            ),
            (
                answer!("rebuilding"),
                SuperDiskState::Rebuilding,
                false,
                "serves meanwhile: 37 %",
            ),
            (
                answer!("fast-lost"),
                SuperDiskState::FastLost,
                true,
                "1 of 2 local disks are there and free. Replace the node",
            ),
            (
                answer!("given-up"),
                SuperDiskState::FastLost,
                true,
                "every attempt of a day",
            ),
            (
                answer!("member-gone"),
                SuperDiskState::FastLost,
                false,
                "being taken back",
            ),
            (
                answer!("durable-lost"),
                SuperDiskState::DurableLost,
                true,
                "Do not delete the node",
            ),
        ];
        for (answer, state, needs_a_person, words) in table {
            let (is, needs, message) = told(answer);
            assert_eq!((is, needs), (state, needs_a_person), "{message}");
            assert!(message.contains(words), "{message}");
        }
        let refused = judge(&SuperDiskSeen::Answered(answer!("refused")));
        assert_eq!(refused.state, SuperDiskState::Refused);
        assert_eq!(refused.code.as_deref(), Some("E_SSD_MISSING"));
    }

    #[test]
    fn a_mirror_that_is_not_mounted_is_not_healthy() {
        let answer = Answer {
            mounted: false,
            ..answer!("healthy")
        };
        assert_eq!(told(answer).0, SuperDiskState::Assembling);
    }

    #[test]
    fn a_container_that_refused_is_told_from_one_that_failed() {
        let ended = |status, said: &str| {
            let judged = judge(&SuperDiskSeen::Ended {
                status,
                said: said.to_owned(),
            });
            (judged.state, judged.code, judged.message)
        };
        let line = "StartMirror mdadm --assemble\nE_SSD_MISSING 0 of 1 local devices are there. Use another node.\n";
        assert_eq!(
            ended(3, line),
            (
                SuperDiskState::Refused,
                Some("E_SSD_MISSING".to_owned()),
                "0 of 1 local devices are there. Use another node.".to_owned()
            )
        );
        for (status, said, words) in [
            (
                1,
                line,
                "it ended with status 1 and said: E_SSD_MISSING 0 of 1",
            ),
            (
                3,
                "E_ nothing",
                "it ended with status 3 and said: E_ nothing",
            ),
            (137, "\n", "it ended with status 137 and said: nothing"),
        ] {
            let (state, code, message) = ended(status, said);
            assert_eq!((state, code), (SuperDiskState::Failed, None));
            assert!(message.starts_with(words), "{message}");
        }
    }
}
