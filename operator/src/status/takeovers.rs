//! Slots taken over from processes that had not handed them on: which, and whether a user has acknowledged it.

use readstates_operator_api::{
    Takeovers,
    conditions::{
        Condition,
        ConditionStatus::{False, True},
        ConditionType, Reason,
    },
    fingerprint::fingerprint,
    labels,
};
use readstates_ring::Incarnation;

use super::Report;
use crate::plan;

/// The processes that took slots over; what was known before, when it cannot be told now.
pub(super) fn entries(report: &Report<'_>) -> Option<Vec<Takeovers>> {
    let before = report.before.map_or(&[][..], |before| &before.takeovers);
    let entry = |(process, slots): (Incarnation, u64)| {
        let process = process.to_string();
        let known = before.iter().find(|then| then.process == process);
        Takeovers {
            acknowledged: known.map_or(0, |then| then.acknowledged),
            slots: i64::try_from(slots).unwrap_or(i64::MAX),
            process,
        }
    };
    let mut entries: Vec<_> = match plan::taken_over(report.world) {
        Some(said) => said.into_iter().map(entry).collect(),
        None => {
            let known = report.before?.slots_taken_over;
            known.map(|_| before.to_vec())?
        }
    };
    if report.world.consent.takeover.as_ref() == Some(&name(&entries)) {
        for entry in &mut entries {
            entry.acknowledged = entry.slots;
        }
    }
    Some(entries)
}

/// The name by which these are acknowledged, and no later ones.
fn name(entries: &[Takeovers]) -> String {
    let mut said: Vec<_> = entries.iter().map(|e| (&e.process, e.slots)).collect();
    said.sort_unstable();
    fingerprint(&said)[..8].to_owned()
}

/// All slots that were taken over.
pub(super) fn slots(entries: &[Takeovers]) -> i64 {
    let add = |sum: i64, of: &Takeovers| sum.saturating_add(of.slots);
    entries.iter().fold(0, add)
}

/// Whether there are takeovers that were not acknowledged.
pub(super) fn condition(entries: Option<&[Takeovers]>) -> Condition {
    let of = |status, reason, message: String| {
        Condition::new(ConditionType::TakenOver, status, reason, message)
    };
    let entries = entries.unwrap_or_default();
    let open = |sum: i64, of: &Takeovers| {
        sum.saturating_add(of.slots.saturating_sub(of.acknowledged).max(0))
    };
    match (entries.iter().fold(0, open), slots(entries)) {
        (0, 0) => of(
            False,
            Reason::AsExpected,
            "no slots were taken over from a process that had not handed them on".to_owned(),
        ),
        (0, all) => of(
            False,
            Reason::AsExpected,
            format!("a person has acknowledged all {all} slots that were taken over"),
        ),
        (slots, _) => of(
            True,
            Reason::SlotsTakenOver,
            format!(
                "{slots} slots were taken over from processes that had not handed them on: what those acknowledged in \
                 their last flush interval may be lost. Once somebody has looked at it, set the annotation {}={}",
                labels::ACKNOWLEDGE_TAKEOVER,
                name(entries)
            ),
        ),
    }
}
