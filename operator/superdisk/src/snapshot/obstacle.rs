//! Says why no snapshot can be begun: what is seen and decided in, a refusal out. Pure.

use super::wire::{Code, Refusal};
use crate::{
    heal::{Condition, Decision, DurableLoss, Notice, facts::Facts},
    md::SyncAction,
};

/// What the agent knows besides what it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The red line has frozen the filesystem, and nobody has decided about it.
    pub red_line: bool,
    /// The lineage header was read: it can be counted on.
    pub lineage: bool,
    /// A plan is being carried out, which writes headers too.
    pub planning: bool,
    /// The super-disk is being taken down.
    pub stopping: bool,
}

/// Why the durable leg alone would not be a complete copy that can be told from others; `None` when it would.
#[must_use]
pub fn obstacle(facts: &Facts, decision: &Decision, known: Known) -> Option<Refusal> {
    let Known {
        red_line,
        lineage,
        planning,
        stopping,
    } = known;
    if stopping {
        return Some(not_now(
            "The super-disk is being taken down",
            "Ask the pod that has it next",
        ));
    }
    if let Condition::DurableLost { why, .. } = &decision.condition
        && *why != DurableLoss::Returned
    {
        return Some(durable_lost(&format!("The network disk is lost: {why}")));
    }
    if red_line {
        return Some(durable_lost(
            "The filesystem was frozen because the network disk was lost",
        ));
    }
    let mounted = facts.mount.as_ref().zip(facts.mirror.as_ref());
    let Some((mount, mirror)) = mounted.filter(|(mount, mirror)| mount.device == mirror.name)
    else {
        return Some(not_now(
            "The super-disk is not mounted",
            "Let it be assembled; `superdisk status` says what it waits for",
        ));
    };
    let both = match decision.condition {
        Condition::Healthy => true,
        Condition::NotAssembled
        | Condition::DurableLost { .. }
        | Condition::WrongWay
        | Condition::Rebuilding
        | Condition::FastLost { .. } => false,
    };
    if !both {
        return Some(not_now(
            &format!(
                "Both legs have to be in sync, and the super-disk is {}",
                decision.condition.word()
            ),
            "Wait until `superdisk status` says healthy; a rebuild takes as long as reading the network disk does",
        ));
    }
    if mount.read_only {
        return Some(not_now(
            "The filesystem is mounted for reading only",
            "See in the kernel's log why, and mend that first",
        ));
    }
    let overwrites = match mirror.sync.action {
        SyncAction::Repair | SyncAction::Reshape | SyncAction::Resync | SyncAction::Recover => true,
        SyncAction::Idle | SyncAction::Check | SyncAction::Frozen => false,
    };
    if overwrites {
        return Some(not_now(
            "md copies between the legs",
            "Wait until `superdisk status` shows no copy",
        ));
    }
    let behind = |notice: &Notice| matches!(notice, Notice::WriteBehind(_));
    if decision.notices.iter().any(behind) {
        return Some(not_now(
            "md acknowledges writes before the network disk has them (write-behind)",
            "Ask again in 10 s: the agent turns it off; and find out who turned it on",
        ));
    }
    if planning {
        return Some(not_now(
            "The agent is assembling or repairing the super-disk",
            "Ask again in some seconds",
        ));
    }
    (!lineage).then(|| {
        not_now(
            "The lineage header of the network disk could not be read",
            "Ask again in 10 s, when the agent has tried again; `superdisk status` says why it fails",
        )
    })
}

fn not_now(message: &str, next_step: &str) -> Refusal {
    Refusal::new(Code::NotNow, message, next_step)
}

fn durable_lost(message: &str) -> Refusal {
    Refusal::new(
        Code::DurableLost,
        message,
        "Keep the node and the snapshots there are; the refusals' page says what to do about E_SSD_AHEAD",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heal::{
        decide,
        memory::Memory,
        tests::{LIMITS, NOW, healthy},
    };

    const NOTHING: Known = Known {
        red_line: false,
        lineage: true,
        planning: false,
        stopping: false,
    };

    fn seen(change: impl FnOnce(&mut Facts), known: Known) -> Option<(Code, String)> {
        let mut facts = healthy();
        change(&mut facts);
        let decision = decide(&LIMITS, &facts, &Memory::default(), NOW);
        let refusal = obstacle(&facts, &decision, known)?;
        assert!(!refusal.message.ends_with('.') && !refusal.next_step.ends_with('.'));
        Some((refusal.code, refusal.message))
    }

    fn fast(facts: &mut Facts) -> &mut crate::heal::facts::Leg {
        facts.mirror.as_mut().unwrap().fast.as_mut().unwrap()
    }

    #[test]
    fn with_both_legs_in_sync_nothing_stands_in_the_way() {
        assert_eq!(seen(|_| (), NOTHING), None);
        // A comparison only reads.
        let checks = |facts: &mut Facts| {
            facts.mirror.as_mut().unwrap().sync.action = SyncAction::Check;
        };
        assert_eq!(seen(checks, NOTHING), None);
    }

    #[test]
    fn a_leg_that_is_not_whole_does() {
        let lost: [fn(&mut Facts); 4] = [
            |facts| facts.mirror.as_mut().unwrap().fast = None,
            |facts| {
                fast(facts).flags.in_sync = false;
                facts.mirror.as_mut().unwrap().sync.action = SyncAction::Recover;
            },
            |facts| facts.mirror.as_mut().unwrap().sync.action = SyncAction::Resync,
            |facts| facts.stripe.as_mut().unwrap().members[0].present = false,
        ];
        for (change, word) in
            lost.into_iter()
                .zip(["fast-lost", "rebuilding", "wrong-way", "fast-lost"])
        {
            let (code, message) = seen(change, NOTHING).unwrap();
            assert_eq!(code, Code::NotNow);
            assert!(message.ends_with(word), "{message}");
        }
    }

    #[test]
    fn the_red_line_does_and_is_said_before_anything_else() {
        let lost = |facts: &mut Facts| {
            let mirror = facts.mirror.as_mut().unwrap();
            (mirror.durable, mirror.fast) = (None, None);
            facts.mount = None;
        };
        assert_eq!(seen(lost, NOTHING).unwrap().0, Code::DurableLost);
        let frozen = Known {
            red_line: true,
            ..NOTHING
        };
        assert_eq!(seen(|_| (), frozen).unwrap().0, Code::DurableLost);
    }

    #[test]
    fn everything_else_that_makes_the_copy_incomplete_or_nameless_does() {
        type Change = fn(&mut Facts);
        let changes: [(Change, &str); 5] = [
            (|facts| facts.mount = None, "not mounted"),
            (|facts| facts.mirror = None, "not mounted"),
            (
                |facts| facts.mount.as_mut().unwrap().read_only = true,
                "reading only",
            ),
            (
                |facts| facts.mirror.as_mut().unwrap().knobs.backlog = 256,
                "write-behind",
            ),
            (
                |facts| facts.mirror.as_mut().unwrap().sync.action = SyncAction::Repair,
                "md copies",
            ),
        ];
        for (change, words) in changes {
            let (code, message) = seen(change, NOTHING).unwrap();
            assert_eq!(code, Code::NotNow);
            assert!(message.contains(words), "{message}");
        }
        let known = [
            Known {
                lineage: false,
                ..NOTHING
            },
            Known {
                planning: true,
                ..NOTHING
            },
            Known {
                stopping: true,
                ..NOTHING
            },
        ];
        for (known, words) in known.into_iter().zip(["header", "repairing", "taken down"]) {
            let (code, message) = seen(|_| (), known).unwrap();
            assert_eq!(code, Code::NotNow);
            assert!(message.contains(words), "{message}");
        }
    }
}
