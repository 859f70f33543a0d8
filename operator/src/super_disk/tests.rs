//! Judgements from agents' answers and containers' messages.

use serde_json::json;
use strum::VariantNames as _;
use superdisk::heal;

use super::*;

/// What the disk's own tests say that an agent answers.
macro_rules! answer {
    ($name:literal) => {
        serde_json::from_str::<AgentState>(include_str!(concat!(
            "../../superdisk/tests/fixtures/status/",
            $name,
            ".json"
        )))
        .unwrap()
    };
}

fn told(answer: AgentState) -> (SuperDiskState, bool, String) {
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
            answer!("broken-slot"),
            SuperDiskState::Healthy,
            false,
            "slots of the lineage header on the network disk cannot be written",
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
            answer!("durable-unreadable"),
            SuperDiskState::FastLost,
            true,
            "cannot be read from sector 1204224 on",
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
        (
            answer!("durable-returned"),
            SuperDiskState::DurableLost,
            true,
            "Delete the pod",
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

/// The answer of a healthy one with this condition in it.
fn with_condition(condition: &serde_json::Value) -> AgentState {
    let answer = include_str!("../../superdisk/tests/fixtures/status/healthy.json");
    let mut answer: serde_json::Value = serde_json::from_str(answer).unwrap();
    answer["condition"] = condition.clone();
    serde_json::from_value(answer).unwrap()
}

#[test]
fn every_word_of_an_agent_is_known() {
    let waits = [
        heal::WaitingOn::Step,
        heal::WaitingOn::LocalDevices {
            found: 1,
            wanted: 2,
        },
        heal::WaitingOn::Pause(7),
        heal::WaitingOn::DurableUnreadable { sector: 7 },
        heal::WaitingOn::GivenUp(7),
    ];
    assert_eq!(waits.map(heal::WaitingOn::word), heal::WaitingOn::VARIANTS);
    let lost = heal::Condition::DurableLost {
        why: heal::DurableLoss::Gone,
        frozen: true,
    };
    let fast_lost = waits.map(|waiting_on| heal::Condition::FastLost { waiting_on });
    let mut conditions = vec![
        heal::Condition::NotAssembled,
        lost,
        heal::Condition::WrongWay,
        heal::Condition::Healthy,
        heal::Condition::Rebuilding,
    ];
    conditions.extend(fast_lost);
    let mut words: Vec<&str> = conditions.iter().map(heal::Condition::word).collect();
    words.dedup();
    assert_eq!(words, heal::Condition::VARIANTS);
    for condition in conditions {
        let answer = with_condition(&serde_json::to_value(&condition).unwrap());
        let (state, _, message) = told(answer);
        assert_ne!(state, SuperDiskState::Unknown, "{condition:?}");
        assert!(
            !message.contains("does not know"),
            "{condition:?}: {message}"
        );
    }
}

#[test]
fn an_agent_of_a_later_release_is_not_silent() {
    for mounted in [true, false] {
        let answer = AgentState {
            mounted,
            ..with_condition(&json!({ "is": "split", "of": 2 }))
        };
        let (state, needs_a_person, message) = told(answer);
        assert_eq!((state, needs_a_person), (SuperDiskState::Unknown, true));
        assert!(message.contains("Update the operator"), "{message}");
    }
    for waiting_on in [json!("moon"), json!({ "moon": { "phase": 3 } })] {
        let condition = json!({ "is": "fast-lost", "waiting_on": waiting_on });
        let (state, needs_a_person, message) = told(with_condition(&condition));
        assert_eq!((state, needs_a_person), (SuperDiskState::FastLost, true));
        assert!(message.contains("Update the operator"), "{message}");
    }
}

#[test]
fn a_loss_that_is_not_told_apart_is_a_loss() {
    for why in [json!("gone"), json!({ "bad-sectors": 8 }), json!("moon")] {
        let condition = json!({ "is": "durable-lost", "why": why, "frozen": true });
        let (state, _, message) = told(with_condition(&condition));
        assert_eq!(state, SuperDiskState::DurableLost);
        assert!(message.contains("Do not delete the node"), "{message}");
    }
}

#[test]
fn an_agent_of_the_release_before_says_nothing_of_slots() {
    let told = include_str!("../../superdisk/tests/fixtures/status/healthy.json");
    let mut told: serde_json::Value = serde_json::from_str(told).unwrap();
    told.as_object_mut()
        .unwrap()
        .remove("broken_slots")
        .unwrap();
    let answer: AgentState = serde_json::from_value(told).unwrap();
    assert_eq!(answer, answer!("healthy"));
}

#[test]
fn a_mirror_that_is_not_mounted_is_not_healthy() {
    let answer = AgentState {
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
