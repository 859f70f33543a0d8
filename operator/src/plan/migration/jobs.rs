//! What the Jobs of a move have come to, and when the next one is made.

use super::{
    MigrationAction, MigrationPhase, MigrationPlan, MoveRecord, Reason, Scene, Time, Verification,
    delete, in_the_way,
};
use crate::{
    names::{COPY, VERIFY},
    world::{JobOutcome, MoveJob, Run, Said},
};

impl Scene<'_> {
    /// Members are as copying needs them, which goes on record before anything is copied.
    pub(super) fn begin(&self) -> MigrationPlan {
        if self.input.valid.suspend {
            return self.suspended(self.record.clone(), MigrationAction::Wait);
        }
        if let Err(obstacle) = self.ready() {
            return in_the_way(obstacle, self.record.clone());
        }
        MigrationPlan {
            action: MigrationAction::Record,
            ..MigrationPlan::waits(
                (MigrationPhase::Preparing, Reason::AwaitingMembers),
                format!(
                    "the cache pods of ReadStateCluster {} are as copying needs them",
                    self.cluster_name()
                ),
                "the operator: copies".to_owned(),
                self.with_target(MoveRecord {
                    members_generation: Some(self.generation()),
                    ..self.record.clone()
                }),
            )
        }
    }

    /// Members have been as copying needs them since that went on record.
    pub(super) fn go_on(&self, record: MoveRecord) -> MigrationPlan {
        if record.verified.is_some() {
            return self.verified(record);
        }
        let jobs = &self.input.seen.jobs;
        if let Some(job) = &jobs.moving {
            return match made(&job.run) {
                Some(made) => self.verified(MoveRecord {
                    verified: Some(made),
                    ..record
                }),
                None => self.at_work(job, record, false),
            };
        }
        // One checkpoint, and so one Job at a time; one that failed is in the way of none.
        match jobs.ahead.as_ref().filter(|job| !has_ended(&job.run)) {
            Some(ahead) => self.at_work(ahead, record, true),
            None => self.make(record, false),
        }
    }

    /// Members serve on the source alone.
    pub(super) fn ahead(&self, prepare: MigrationPlan) -> MigrationPlan {
        let record = prepare.record.clone();
        match &self.input.seen.jobs.ahead {
            None => self.make(record, true),
            Some(job) if job.run.outcome == JobOutcome::Succeeded => {
                self.unless_suspended(MigrationPlan {
                    words: format!("{}; most of the table has been copied ahead", prepare.words),
                    ..prepare
                })
            }
            Some(job) => self.at_work(job, record, true),
        }
    }

    pub(super) fn unless_suspended(&self, plan: MigrationPlan) -> MigrationPlan {
        match self.input.valid.suspend {
            true => self.suspended(plan.record, MigrationAction::Wait),
            false => plan,
        }
    }

    fn make(&self, record: MoveRecord, ahead: bool) -> MigrationPlan {
        if self.input.valid.suspend {
            return self.suspended(record, MigrationAction::Wait);
        }
        if let Err(obstacle) = self.ready() {
            return in_the_way(obstacle, record);
        }
        let owner = self.input.owner;
        let job = if ahead { owner.ahead() } else { owner.moving() };
        MigrationPlan {
            action: MigrationAction::Make {
                ends: Box::new(self.ends.clone()),
                ahead,
            },
            ..self.copying(record, (&job, format!("Job {job} has been created")), ahead)
        }
    }

    fn copying(
        &self,
        record: MoveRecord,
        (job, words): (&str, String),
        ahead: bool,
    ) -> MigrationPlan {
        let next = match ahead && !self.cluster.spec.stopped {
            true => format!(
                "the operator: copies; then you: set spec.stopped of ReadStateCluster {} to true",
                self.cluster_name()
            ),
            false => "the operator: copies, then compares all rows".to_owned(),
        };
        MigrationPlan {
            job: Some(job.to_owned()),
            ..MigrationPlan::waits(
                (MigrationPhase::Copying, Reason::MigrationCopying),
                words,
                next,
                record,
            )
        }
    }

    fn suspended(&self, record: MoveRecord, action: MigrationAction) -> MigrationPlan {
        MigrationPlan {
            action,
            ..MigrationPlan::waits(
                (MigrationPhase::Suspended, Reason::Suspended),
                "spec.suspend is true: nothing is copied, and what was copied stays".to_owned(),
                "you: set spec.suspend to false".to_owned(),
                record,
            )
        }
    }

    fn at_work(&self, job: &MoveJob, record: MoveRecord, ahead: bool) -> MigrationPlan {
        let (name, suspend) = (&job.run.job, self.input.valid.suspend);
        let failure = last_words(&job.run);
        let trouble = match &job.run.outcome {
            JobOutcome::Going => Some("it is being deleted, and another one follows".to_owned()),
            JobOutcome::Running { trouble } => {
                let toggle = MigrationAction::Suspend {
                    job: name.clone(),
                    suspend,
                };
                let action = match job.suspended == suspend {
                    true => MigrationAction::Wait,
                    false => toggle,
                };
                if suspend {
                    return self.suspended(record, action);
                }
                if action != MigrationAction::Wait {
                    let words = format!("Job {name} goes on where it was");
                    return MigrationPlan {
                        action,
                        ..self.copying(record, (name, words), ahead)
                    };
                }
                trouble.clone()
            }
            // What it has verified is told elsewhere.
            JobOutcome::Succeeded => None,
            JobOutcome::Failed { at: _, message } => {
                // Taken back, the wish to suspend begins again with another Job.
                if suspend {
                    return self.suspended(record, delete(job));
                }
                if self.was_suspended_meanwhile() {
                    let words = format!("Job {name} failed, and another one goes on where it was");
                    return MigrationPlan {
                        action: delete(job),
                        ..self.copying(record, (name, words), ahead)
                    };
                }
                let words = failure.unwrap_or_else(|| message.clone());
                return self.failed(name, words, record);
            }
        };
        let trouble = trouble.map(|words| format!(" ({words})"));
        let words = format!("Job {name} is at work{}", trouble.unwrap_or_default());
        let verifies = self.input.verifies;
        let copied = || matches!(job.run.said(COPY), Some(Said::Done(_)));
        let plan = self.copying(record, (name, words), ahead);
        match !ahead && verifies.unwrap_or_else(copied) {
            true => MigrationPlan {
                phase: MigrationPhase::Verifying,
                reason: Reason::MigrationVerifying,
                next: "the operator: compares all rows".to_owned(),
                failure,
                ..plan
            },
            false => MigrationPlan { failure, ..plan },
        }
    }

    /// Whether the spec was changed twice since the failure was told: to suspend, and back, before that was looked at.
    fn was_suspended_meanwhile(&self) -> bool {
        let told = self
            .input
            .before
            .filter(|s| s.phase == MigrationPhase::Failed);
        let then = told.and_then(|status| status.observed_generation);
        then.is_some_and(|then| self.input.owner.id.generation >= then + 2)
    }

    fn failed(&self, job: &str, words: String, record: MoveRecord) -> MigrationPlan {
        MigrationPlan {
            is_bad: true,
            failure: Some(words.clone()),
            job: Some(job.to_owned()),
            ..MigrationPlan::waits(
                (MigrationPhase::Failed, Reason::MigrationFailed),
                format!("Job {job} failed: {words}. What was copied stays"),
                "you: cure it, then set spec.suspend to true and back to false: it goes on where it was".to_owned(),
                record,
            )
        }
    }
}

fn has_ended(run: &Run) -> bool {
    match run.outcome {
        JobOutcome::Succeeded | JobOutcome::Failed { .. } => true,
        JobOutcome::Running { .. } | JobOutcome::Going => false,
    }
}

/// The verification of a Job that has succeeded.
fn made(run: &Run) -> Option<Verification> {
    if run.outcome != JobOutcome::Succeeded {
        return None;
    }
    let told = match run.said(VERIFY) {
        Some(Said::Done(Some(told))) => told.passes.last(),
        Some(Said::Done(None) | Said::Failed(_)) | None => None,
    };
    let ended = told.map(|pass| pass.ended).or(run.finished);
    Some(Verification {
        finished: Time(ended.unwrap_or(run.begun)),
        users: told.map(|pass| pass.tally.users),
    })
}

/// The last words of its newest attempt that has failed.
fn last_words(run: &Run) -> Option<String> {
    run.said.iter().find_map(|(_, said)| match said {
        Said::Failed(words) => Some(words.clone()),
        Said::Done(_) => None,
    })
}
