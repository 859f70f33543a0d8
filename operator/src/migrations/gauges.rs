//! Prometheus gauges of moves, from each status as it was last read or written.

use jiff::Timestamp;
use kube::{core::PartialObjectMeta, runtime::reflector::Store};
use readstates_metrics::Text;
use readstates_operator_api::{MigrationPhase, ReadStateMigration, ReadStateMigrationStatus};

use crate::{backups::is_degraded, spec::Identity, told::Told};

/// The moves that this process reconciles.
#[derive(Clone, Debug, Default)]
pub struct Moves(Told<ReadStateMigration, Move>);

/// What gauges tell of one.
#[derive(Clone, Debug)]
struct Move {
    phase: MigrationPhase,
    /// From 0 to 1, where it is known.
    share: Option<f64>,
    users: Option<i64>,
    /// When it last got further.
    progressed: Option<Timestamp>,
    verified: bool,
    degraded: bool,
}

impl Moves {
    /// And those of one more watch.
    pub fn add(&self, store: Store<PartialObjectMeta<ReadStateMigration>>) {
        self.0.add(store);
    }

    /// Takes in a status.
    pub fn tell(&self, id: &Identity, cluster: &str, status: &ReadStateMigrationStatus) {
        let pass = status.progress.as_ref();
        let percent = pass.and_then(|pass| pass.percent);
        let how = Move {
            phase: status.phase,
            share: percent.map(|percent| percent as f64 / 100.0),
            users: pass.map(|pass| pass.users),
            progressed: status.progressed.as_ref().map(|t| t.0),
            verified: status.verified.is_some(),
            degraded: is_degraded(&status.conditions),
        };
        self.0.tell(id, cluster, how);
    }

    /// Gauges of those that are there, as Prometheus reads them.
    #[must_use]
    pub fn render(&self, now: Timestamp) -> String {
        let (all, mut text) = (self.0.all(), Text::default());
        let truth = |is_so: bool| Some((None, f64::from(u8::from(is_so))));
        let phase = (
            "readstates_migration_phase",
            "1 for the phase that a ReadStateMigration is in.",
        );
        all.gauge(&mut text, phase, |seen| {
            Some((Some(("phase", seen.phase.as_str())), 1.0))
        });
        let share = (
            "readstates_migration_pass_ratio",
            "How much of the pass that is under way, or of the last one, is done, from 0 to 1.",
        );
        all.gauge(&mut text, share, |seen| Some((None, seen.share?)));
        let users = (
            "readstates_migration_pass_users",
            "Users compared by the pass that is under way, or by the last one.",
        );
        all.gauge(&mut text, users, |seen| Some((None, seen.users? as f64)));
        let age = (
            "readstates_migration_progress_age_seconds",
            "Time since a ReadStateMigration got further, while a Job of it is to copy, compare or end.",
        );
        all.gauge(&mut text, age, |seen| {
            let since = seen.progressed.filter(|_| is_at_work(seen.phase))?;
            Some((None, now.duration_since(since).as_secs() as f64))
        });
        let verified = (
            "readstates_migration_verified",
            "1 while a comparison of all rows counts.",
        );
        all.gauge(&mut text, verified, |seen| truth(seen.verified));
        let degraded = (
            "readstates_migration_degraded",
            "1 while the condition Degraded of a ReadStateMigration is true.",
        );
        all.gauge(&mut text, degraded, |seen| truth(seen.degraded));
        text.finish()
    }
}

/// Whether pods are to get further by themselves: in other phases it is a person's turn, or the cluster's.
fn is_at_work(phase: MigrationPhase) -> bool {
    use MigrationPhase::*;
    match phase {
        Copying | Verifying | Ending => true,
        Waiting | Refused | Preparing | Suspended | Failed | Verified | Switching | Complete => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        fixtures::id,
        told::fixtures::{samples, watch},
    };

    fn lines(moves: &Moves, now: &str) -> Vec<String> {
        let text = moves.render(now.parse().unwrap());
        samples(&text, "readstates_migration_")
    }

    fn status(status: Value) -> ReadStateMigrationStatus {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn a_move_is_told_by_its_phase_and_the_age_of_its_progress_until_it_is_gone() {
        let moves = Moves::default();
        let (there, delete) = watch();
        moves.add(there);
        let copying = status(json!({
            "phase": "Copying", "progressed": "2026-01-01T00:00:00Z",
            "progress": {
                "what": "pass 1", "percent": 43, "users": 1724, "lacking": 0, "usersPerSecond": 9,
            },
        }));
        moves.tell(&id(), "mail", &copying);
        assert_eq!(
            lines(&moves, "2026-01-01T00:01:00Z"),
            [
                r#"phase{,phase="Copying"} 1"#,
                "pass_ratio{} 0.43",
                "pass_users{} 1724",
                "progress_age_seconds{} 60",
                "verified{} 0",
                "degraded{} 0",
            ]
        );
        // A person's turn grows no age.
        let verified = status(json!({
            "phase": "Verified", "progressed": "2026-01-01T00:00:00Z",
            "verified": { "finished": "2026-01-01T00:00:00Z" },
            "conditions": [{
                "type": "Degraded", "status": "True", "reason": "SwitchedTooEarly", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }));
        moves.tell(&id(), "mail", &verified);
        assert_eq!(
            lines(&moves, "2026-01-01T00:01:00Z"),
            [
                r#"phase{,phase="Verified"} 1"#,
                "verified{} 1",
                "degraded{} 1",
            ]
        );
        delete();
        assert_eq!(lines(&moves, "2026-01-01T00:01:00Z"), [""; 0]);
    }
}
