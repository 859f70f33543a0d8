//! What a walk did and found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Of one seed, or of many added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number of walks that came to their end, or to a finding.
    pub walks: usize,
    /// Number of steps that were taken in all walks.
    pub steps: usize,
    /// Batches of files that were acknowledged.
    pub written: usize,
    /// Batches that a person gave up by `resolve --keep durable`.
    pub given_up: usize,
    /// Batches whose only copy the walk has destroyed.
    pub destroyed: usize,
    /// How often each answer was given: `assembled`, `failed`, or the code of a refusal.
    pub answers: BTreeMap<String, usize>,
    /// What must not be: each with its seed and the steps before it.
    pub findings: Vec<String>,
    /// Walks without a report, for a reason of the machine that they ran on: they say nothing of the super-disk.
    #[serde(default)]
    pub not_ended: Vec<String>,
}

impl Report {
    /// Counts an answer.
    pub(super) fn answered(&mut self, answer: &str) {
        *self.answers.entry(answer.to_owned()).or_default() += 1;
    }

    /// Adds the counts and findings of another report.
    pub fn add(&mut self, other: Self) {
        self.walks += other.walks;
        self.steps += other.steps;
        self.written += other.written;
        self.given_up += other.given_up;
        self.destroyed += other.destroyed;
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        self.findings.extend(other.findings);
        self.not_ended.extend(other.not_ended);
    }
}
