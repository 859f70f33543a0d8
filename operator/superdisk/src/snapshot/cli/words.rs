//! The words and the exit status for each answer of the agent.

use std::fmt;

use crate::snapshot::{
    SnapshotId,
    wire::{Answer, Code, Open, Past},
};

const EXIT_REFUSED: u8 = 3;

/// What a caller sees.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) status: u8,
}

pub(super) fn said(answer: &Answer) -> Said {
    let good = |text: &dyn fmt::Display| Said {
        stdout: format!("{text}\n"),
        stderr: String::new(),
        status: 0,
    };
    let bad = |status, text: &dyn fmt::Display| Said {
        stdout: String::new(),
        stderr: format!("{text}\n"),
        status,
    };
    match answer {
        Answer::Begun(Open {
            id,
            generation,
            left_millis,
        }) => good(&format!(
            "the snapshot {id} is begun: generation {generation}, frozen for {} at most\n\
             make the snapshot of the network disk now, then run `superdisk snapshot end --id {id}`",
            seconds(*left_millis)
        )),
        Answer::Ended(Past {
            id,
            generation,
            lost: None,
        }) => good(&format!(
            "the snapshot {id} is proven: it was frozen until its end, at generation {generation}"
        )),
        Answer::Ended(Past {
            id,
            generation: _,
            lost: Some(loss),
        }) => bad(
            1,
            &format!(
                "{} The snapshot {id} was not frozen until its end: {loss}. Delete it, and begin one with another ID.",
                Code::NotProven.as_str()
            ),
        ),
        Answer::Status {
            open,
            under_way,
            last,
        } => good(&status(open.as_ref(), under_way.as_ref(), last.as_ref())),
        Answer::Refused(refusal) => bad(EXIT_REFUSED, refusal),
        Answer::Failed { id, why } => bad(
            1,
            &format!(
                "{} The snapshot {id} could not be begun: {why}. The filesystem takes writes as before. Ask again; if it \
                 fails again, `superdisk status` says what is wrong with the disks.",
                Code::Failed.as_str()
            ),
        ),
    }
}

fn status(open: Option<&Open>, under_way: Option<&SnapshotId>, last: Option<&Past>) -> String {
    let now = match (open, under_way) {
        (Some(open), _) => format!(
            "the snapshot {} holds the filesystem for {} more, at generation {}",
            open.id,
            seconds(open.left_millis),
            open.generation
        ),
        (None, Some(id)) => format!("the snapshot {id} is being begun or ended"),
        (None, None) => "no snapshot holds the filesystem".to_owned(),
    };
    match last {
        None => now,
        Some(Past {
            id,
            generation,
            lost: None,
        }) => format!("{now}\nthe last one, {id} of generation {generation}, is proven"),
        Some(Past {
            id,
            generation,
            lost: Some(loss),
        }) => {
            format!("{now}\nthe last one, {id} of generation {generation}, is not proven: {loss}")
        }
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::wire::{Loss, Refusal};

    fn past(lost: Option<Loss>) -> Past {
        Past {
            id: "s".parse().unwrap(),
            generation: 7,
            lost,
        }
    }

    #[test]
    fn what_is_held_and_what_is_proven_exits_0() {
        let open = Open {
            id: "s".parse().unwrap(),
            generation: 7,
            left_millis: 9_870,
        };
        let begun = said(&Answer::Begun(open));
        assert_eq!((begun.status, &*begun.stderr), (0, ""));
        assert!(begun.stdout.contains("generation 7, frozen for 9.8 s"));
        let ended = said(&Answer::Ended(past(None)));
        assert_eq!((ended.status, &*ended.stderr), (0, ""));
    }

    #[test]
    fn what_is_not_proven_exits_1_and_says_what_to_do() {
        let said = said(&Answer::Ended(past(Some(Loss::TimeOver))));
        assert_eq!((said.status, &*said.stdout), (1, ""));
        assert_eq!(
            said.stderr,
            "E_SNAPSHOT_NOT_PROVEN The snapshot s was not frozen until its end: its end came more than 10 s after its \
             begin, and the agent had thawed by then. Delete it, and begin one with another ID.\n"
        );
    }

    #[test]
    fn a_refusal_exits_3_with_its_code_first() {
        let refusal = Refusal::new(Code::Busy, "Another one is held", "End it first");
        let said = said(&Answer::Refused(refusal));
        assert_eq!(
            (said.status, &*said.stderr),
            (3, "E_SNAPSHOT_BUSY Another one is held. End it first.\n")
        );
    }

    #[test]
    fn status_is_a_line_about_now_and_one_about_the_last() {
        assert_eq!(status(None, None, None), "no snapshot holds the filesystem");
        let id = "t".parse().unwrap();
        assert_eq!(
            status(None, Some(&id), Some(&past(Some(Loss::Thawed)))),
            "the snapshot t is being begun or ended\n\
             the last one, s of generation 7, is not proven: something else thawed the filesystem before its end"
        );
    }
}
