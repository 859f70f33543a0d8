//! Super-disks in the status, and the events when one changes. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::events::{Event, EventType};
use readstates_operator_api::{
    ReadStateClusterStatus, SuperDiskState, SuperDiskStatus,
    conditions::{Condition, ConditionStatus, ConditionType, Reason},
    labels::KEEP_LEG,
};

use super::event::event;
use crate::{
    super_disk::{Judgement, SuperDiskSeen, judge, reason},
    world::World,
};

/// One entry for each pod, by name.
pub(super) fn entries(
    world: &World,
    before: Option<&ReadStateClusterStatus>,
    now: Timestamp,
) -> Vec<SuperDiskStatus> {
    let old = |name: &str| before?.super_disks.iter().find(|d| d.name == name);
    let entry = |(name, seen): (&String, &SuperDiskSeen)| {
        let Judgement {
            state,
            code,
            message,
            needs_a_person: _,
        } = judged(world, name, seen);
        let since = old(name)
            .filter(|old| old.state == state)
            .map_or(Time(now), |old| old.since.clone());
        SuperDiskStatus {
            name: name.clone(),
            state,
            code,
            message,
            since,
        }
    };
    world.super_disks.iter().map(entry).collect()
}

/// With the way to say what only a person can decide.
fn judged(world: &World, name: &str, seen: &SuperDiskSeen) -> Judgement {
    let mut judged = judge(seen);
    let pod = world.database_pods.iter().find(|p| p.name == name);
    let uid = pod.and_then(|p| p.uid.as_deref());
    if let (Some(answers), Some(uid)) = (judged.code.as_deref().and_then(answers), uid) {
        let answers: Vec<_> = answers
            .iter()
            .map(|leg| format!("{KEEP_LEG}={uid}.{leg}"))
            .collect();
        judged.message.push_str(&format!(
            " Here: annotate the ReadStateCluster with {}.",
            answers.join(" or ")
        ));
    }
    judged
}

/// Which legs a person may choose between where this is refused; `None` where no choice answers it.
fn answers(code: &str) -> Option<&'static [&'static str]> {
    match code {
        "E_SSD_AHEAD" => Some(&["durable", "fast"]),
        // What the host has done to the network disk is accepted.
        "E_PD_OVERWRITTEN" => Some(&["durable"]),
        // No other node has the network disk: a new header is written.
        "E_PD_HEADER_LOST" => Some(&["durable"]),
        // Copying to the network disk was interrupted, and goes on.
        "E_PD_NOT_INSYNC" => Some(&["fast"]),
        _ => None,
    }
}

/// What a person has to cure, the worst first.
pub(super) fn trouble(world: &World) -> Option<(Reason, String)> {
    let disks = world.super_disks.iter();
    let judged = disks.map(|(name, seen)| (name, judged(world, name, seen)));
    let (name, judged) = judged
        .filter(|(_, judged)| judged.needs_a_person)
        .max_by_key(|(_, judged)| badness(judged.state))?;
    let Judgement { code, message, .. } = &judged;
    let code = code
        .as_ref()
        .map(|code| format!("{code} "))
        .unwrap_or_default();
    let message = format!("the super-disk of {name}: {code}{message}");
    Some((reason(judged.state), message))
}

/// How bad a state is, for the one that is told first.
fn badness(state: SuperDiskState) -> u8 {
    match state {
        SuperDiskState::Healthy => 0,
        SuperDiskState::Waiting => 1,
        SuperDiskState::Assembling => 2,
        SuperDiskState::Rebuilding => 3,
        SuperDiskState::Unknown => 4,
        SuperDiskState::FastLost => 5,
        SuperDiskState::Failed => 6,
        SuperDiskState::Refused => 7,
        SuperDiskState::DurableLost => 8,
    }
}

/// The condition, of a cluster that has super-disks.
pub(super) fn condition(world: &World) -> Condition {
    let of = |status, reason, message: String| {
        Condition::new(ConditionType::SuperDisksHealthy, status, reason, message)
    };
    let judged: Vec<_> = world
        .super_disks
        .iter()
        .map(|(name, seen)| (name, judged(world, name, seen)))
        .filter(|(_, judged)| judged.state != SuperDiskState::Healthy)
        .collect();
    let Some(worst) = judged
        .iter()
        .map(|(_, j)| j.state)
        .max_by_key(|s| badness(*s))
    else {
        return match world.super_disks.len() {
            0 => of(
                ConditionStatus::False,
                Reason::SuperDiskWaiting,
                "there is no database pod yet".to_owned(),
            ),
            all => of(
                ConditionStatus::True,
                Reason::SuperDiskHealthy,
                format!("both legs of all {all} super-disks are in sync"),
            ),
        };
    };
    let status = match worst {
        SuperDiskState::Unknown => ConditionStatus::Unknown,
        SuperDiskState::Healthy
        | SuperDiskState::Waiting
        | SuperDiskState::Assembling
        | SuperDiskState::Rebuilding
        | SuperDiskState::FastLost
        | SuperDiskState::Failed
        | SuperDiskState::Refused
        | SuperDiskState::DurableLost => ConditionStatus::False,
    };
    let words: Vec<_> = judged
        .iter()
        .map(|(name, judged)| format!("{name}: {}", judged.message))
        .collect();
    of(status, reason(worst), words.join("; "))
}

/// The changes between two statuses: which disk, and how it is now.
pub(super) fn changes<'a>(
    before: Option<&'a ReadStateClusterStatus>,
    after: &'a ReadStateClusterStatus,
) -> impl Iterator<Item = &'a SuperDiskStatus> {
    after.super_disks.iter().filter(move |disk| {
        let old = before.and_then(|b| b.super_disks.iter().find(|d| d.name == disk.name));
        old.is_none_or(|old| old.state != disk.state || old.code != disk.code)
    })
}

/// An event for each change of state, except to waiting, assembling and unknown.
pub(super) fn news(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Vec<Event> {
    let told = changes(before, after).filter_map(|disk| {
        let type_ = match disk.state {
            SuperDiskState::Waiting | SuperDiskState::Assembling | SuperDiskState::Unknown => {
                return None;
            }
            SuperDiskState::Healthy | SuperDiskState::Rebuilding => EventType::Normal,
            SuperDiskState::Refused
            | SuperDiskState::Failed
            | SuperDiskState::FastLost
            | SuperDiskState::DurableLost => EventType::Warning,
        };
        let code = disk
            .code
            .as_ref()
            .map(|c| format!("{c} "))
            .unwrap_or_default();
        let note = format!("the super-disk of {}: {code}{}", disk.name, disk.message);
        Some(event(
            type_,
            reason(disk.state).as_str(),
            ConditionType::SuperDisksHealthy.as_str(),
            &note,
        ))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use readstates_operator_api::SuperDiskState::{
        DurableLost, FastLost, Healthy, Rebuilding, Refused, Unknown,
    };
    use strum::VariantArray;
    use superdisk::model::Code;

    use super::*;
    use crate::{
        fixtures::{now, super_disk},
        super_disk::{Condition as Disk, WaitingOn},
        world::PodSeen,
    };

    fn healthy() -> SuperDiskSeen {
        super_disk(Disk::Healthy)
    }

    fn rebuilding() -> SuperDiskSeen {
        super_disk(Disk::Rebuilding)
    }

    fn refused() -> SuperDiskSeen {
        SuperDiskSeen::Ended {
            status: 3,
            said: "E_SSD_BUSY md3 has it. Free it.".to_owned(),
        }
    }

    fn lost(waiting_on: WaitingOn) -> SuperDiskSeen {
        super_disk(Disk::FastLost {
            waiting_on: Some(waiting_on),
        })
    }

    fn world(disks: &[(&str, SuperDiskSeen)]) -> World {
        let disks = disks.iter().cloned();
        World {
            super_disks: disks.map(|(name, seen)| (name.to_owned(), seen)).collect(),
            ..World::default()
        }
    }

    fn told(
        world: &World,
        before: Option<&ReadStateClusterStatus>,
        at: Timestamp,
    ) -> ReadStateClusterStatus {
        ReadStateClusterStatus {
            super_disks: entries(world, before, at),
            ..ReadStateClusterStatus::default()
        }
    }

    #[test]
    fn a_person_is_asked_where_the_super_disk_takes_an_answer() {
        for code in Code::VARIANTS {
            assert_eq!(
                answers(code.as_str()).is_some(),
                code.is_for_a_person(),
                "{code}"
            );
        }
    }

    #[test]
    fn the_condition_is_that_of_the_worst_and_names_all_that_are_not_well() {
        let is = |disks: &[(&str, SuperDiskSeen)]| {
            let condition = condition(&world(disks));
            (
                condition.status.as_str(),
                condition.reason.as_str(),
                condition.message,
            )
        };
        let (status, reason, words) =
            is(&[("a", healthy()), ("b", rebuilding()), ("c", refused())]);
        assert_eq!((status, reason), ("False", "SuperDiskRefused"));
        assert_eq!(
            words,
            "b: the local disks are filled from the network disk, which serves meanwhile; c: md3 has it. Free it."
        );
        let (status, reason, _) = is(&[
            ("a", healthy()),
            ("b", SuperDiskSeen::Silent("refused".to_owned())),
        ]);
        assert_eq!((status, reason), ("Unknown", "NotObserved"));
        let (status, _, words) = is(&[("a", healthy()), ("b", healthy())]);
        assert_eq!(
            (status, words.as_str()),
            ("True", "both legs of all 2 super-disks are in sync")
        );
        assert_eq!(is(&[]).0, "False");
    }

    #[test]
    fn only_what_time_does_not_cure_is_trouble_and_the_worst_is_told() {
        let first =
            |disks: &[(&str, SuperDiskSeen)]| trouble(&world(disks)).map(|(_, words)| words);
        assert_eq!(
            first(&[("a", rebuilding()), ("b", lost(WaitingOn::Step))]),
            None
        );
        let gone = lost(WaitingOn::LocalDevices {
            found: 0,
            wanted: 2,
        });
        let words = first(&[("a", gone), ("b", refused()), ("c", healthy())]).unwrap();
        assert_eq!(
            words,
            "the super-disk of b: E_SSD_BUSY md3 has it. Free it."
        );
    }

    #[test]
    fn a_refusal_that_a_person_answers_says_with_which_annotation() {
        let said = |code: &str| {
            let seen = SuperDiskSeen::Ended {
                status: 3,
                said: format!("{code} It is so. Do this."),
            };
            let pod = PodSeen {
                name: "a".to_owned(),
                uid: Some("p-1".to_owned()),
                ..PodSeen::default()
            };
            let world = World {
                database_pods: vec![pod],
                ..world(&[("a", seen)])
            };
            trouble(&world).unwrap().1
        };
        let here = "Do this. Here: annotate the ReadStateCluster with readstates.dev/keep-leg=p-1.";
        for (code, answers) in [
            (
                "E_SSD_AHEAD",
                "durable or readstates.dev/keep-leg=p-1.fast.",
            ),
            ("E_PD_OVERWRITTEN", "durable."),
            ("E_PD_HEADER_LOST", "durable."),
            ("E_PD_NOT_INSYNC", "fast."),
        ] {
            let words = said(code);
            assert!(words.ends_with(&format!("{here}{answers}")), "{words}");
        }
        assert!(said("E_SSD_BUSY").ends_with("Do this."));
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_state() {
        let later = now() + std::time::Duration::from_mins(1);
        let before = told(
            &world(&[("a", rebuilding()), ("b", healthy())]),
            None,
            now(),
        );
        let after = told(
            &world(&[("a", rebuilding()), ("b", refused())]),
            Some(&before),
            later,
        );
        let since: Vec<_> = after
            .super_disks
            .iter()
            .map(|d| (d.state, d.since.0))
            .collect();
        assert_eq!(since, [(Rebuilding, now()), (Refused, later)]);
    }

    #[test]
    fn each_change_that_says_something_is_one_event() {
        let states = [
            (healthy(), Healthy, Some("Normal SuperDiskHealthy")),
            (rebuilding(), Rebuilding, Some("Normal FastLegRebuilding")),
            (refused(), Refused, Some("Warning SuperDiskRefused")),
            (
                lost(WaitingOn::GivenUp(5)),
                FastLost,
                Some("Warning FastLegLost"),
            ),
            (
                super_disk(Disk::DurableLost {
                    frozen: true,
                    why: None,
                }),
                DurableLost,
                Some("Warning DurableLegLost"),
            ),
            (SuperDiskSeen::Silent("timed out".to_owned()), Unknown, None),
        ];
        for (seen, state, event) in states {
            let after = told(&world(&[("a", seen)]), None, now());
            assert_eq!(after.super_disks[0].state, state);
            let first: Vec<_> = news(None, &after)
                .iter()
                .map(|e| format!("{:?} {}", e.type_, e.reason))
                .collect();
            assert_eq!(first, event.into_iter().collect::<Vec<_>>());
            assert_eq!(
                news(Some(&after), &after).len(),
                0,
                "{state:?} is told once"
            );
        }
        let note = news(None, &told(&world(&[("a", refused())]), None, now()));
        let note = note[0].note.as_deref().unwrap();
        assert_eq!(note, "the super-disk of a: E_SSD_BUSY md3 has it. Free it.");
    }
}
