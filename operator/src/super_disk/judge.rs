//! The judgement on what was seen of a super-disk.

use std::fmt::Write as _;

use readstates_operator_api::SuperDiskState;

use super::{
    AgentState, BrokenSlots, Condition, DurableLoss, Facts, Judgement, Refusal, SuperDiskSeen,
    Sync, WaitingOn,
};

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

fn answered(answer: &AgentState) -> Judgement {
    let AgentState {
        mounted,
        condition,
        refusal: refused,
        last_error,
        facts,
        broken_slots,
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
        (Condition::NotAssembled | Condition::Unknown, Some(Refusal { code, text })) => {
            refusal(code.clone(), text.clone())
        }
        (Condition::Unknown, None) => {
            let (why, needs_a_person) = not_known();
            of(SuperDiskState::Unknown, why, needs_a_person)
        }
        (Condition::NotAssembled, None) => of(
            SuperDiskState::Assembling,
            format!("it is being put together.{failed}"),
            false,
        ),
        (
            Condition::DurableLost {
                why: Some(DurableLoss::Returned),
                frozen: _,
            },
            _,
        ) => {
            let message = "the network disk was lost and is back, and writes are still stopped. Delete the pod: the \
                           next one takes writes again, or asks which leg's data counts";
            of(SuperDiskState::DurableLost, message.to_owned(), true)
        }
        (Condition::DurableLost { why: None, frozen }, _) => {
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
        (Condition::Healthy, _) => of(SuperDiskState::Healthy, healthy(*broken_slots), false),
        (Condition::WrongWay, _) => of(
            SuperDiskState::Rebuilding,
            "a copy between the legs that the agent did not start is being undone".to_owned(),
            false,
        ),
        (Condition::Rebuilding, _) => of(
            SuperDiskState::Rebuilding,
            rebuilding(facts.as_ref()),
            false,
        ),
        (Condition::FastLost { waiting_on }, _) => {
            let (why, needs_a_person) = waiting_on.map_or_else(not_known, fast_lost);
            let message = format!("the network disk serves alone: {why}.{failed}");
            of(SuperDiskState::FastLost, message, needs_a_person)
        }
    }
}

/// The mirror's size in bytes, if it is smaller than a volume of `volume` bytes by more than md leaves unused. `None` if it
/// is not, or if its agent has not answered.
#[must_use]
pub fn smaller_than(seen: &SuperDiskSeen, volume: u64) -> Option<u64> {
    let SuperDiskSeen::Answered(answer) = seen else {
        return None;
    };
    let mirror = answer.facts.as_ref()?.mirror.as_ref()?;
    let kept = volume / KEPT_PART + KEPT_BYTES;
    (mirror.bytes < volume.saturating_sub(kept)).then_some(mirror.bytes)
}

/// More than md leaves unused of a volume: on large ones 129 MiB before the data, and up to 64 MiB after it.
const KEPT_PART: u64 = 64;
const KEPT_BYTES: u64 = 4 << 20;

/// With what is to be replaced before more of it breaks.
fn healthy(broken: BrokenSlots) -> String {
    let BrokenSlots { durable, fast } = broken;
    let disks = match (durable, fast) {
        (false, false) => return "both legs are in sync".to_owned(),
        (true, false) => "the network disk",
        (false, true) => "the local disks",
        (true, true) => "the network disk and one on the local disks",
    };
    format!(
        "both legs are in sync; one of the two slots of the lineage header on {disks} cannot be written, and the \
         other one is used"
    )
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

/// What an agent of a later release says.
fn not_known() -> (String, bool) {
    let why = "its agent says something that this release of the operator does not know. Update the operator";
    (why.to_owned(), true)
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
        WaitingOn::DurableUnreadable { sector } => (
            format!(
                "the copy to its local disks stopped, for the network disk cannot be read from sector {sector} on. \
                 Rewrite or trim the files that are there, or restore the network disk from a snapshot; the database \
                 goes on"
            ),
            true,
        ),
        WaitingOn::GivenUp(_) => (
            "every attempt of a day to take its local disks back failed. Replace the node; the database goes on"
                .to_owned(),
            true,
        ),
    }
}
