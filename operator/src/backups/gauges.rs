//! Prometheus gauges of schedules, from each status as it was last written.

use jiff::Timestamp;
use kube::{core::PartialObjectMeta, runtime::reflector::Store};
use readstates_metrics::Text;
use readstates_operator_api::{ReadStateBackupSchedule, ReadStateBackupScheduleStatus};

use super::status::is_degraded;
use crate::{spec::Identity, told::Told};

/// The schedules that this process reconciles.
#[derive(Clone, Debug, Default)]
pub struct Schedules(Told<ReadStateBackupSchedule, Schedule>);

/// What gauges tell of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Schedule {
    /// When the last good backup was complete, or else when the schedule was created.
    backed_up: Timestamp,
    /// When one was last found sound.
    verified: Option<Timestamp>,
    /// Whether the condition Degraded is true.
    degraded: bool,
}

impl Schedules {
    /// And those of one more watch.
    pub fn add(&self, store: Store<PartialObjectMeta<ReadStateBackupSchedule>>) {
        self.0.add(store);
    }

    /// Takes in a status.
    pub fn tell(
        &self,
        id: &Identity,
        cluster: &str,
        created: Timestamp,
        status: &ReadStateBackupScheduleStatus,
    ) {
        let last = status.last_backup.as_ref();
        let verified = status.last_verified.as_ref();
        let schedule = Schedule {
            backed_up: last.map_or(created, |made| made.finished.0),
            verified: verified.map(|v| v.verification.finished.0),
            degraded: is_degraded(&status.conditions),
        };
        self.0.tell(id, cluster, schedule);
    }

    /// Gauges of those that are there, as Prometheus reads them.
    #[must_use]
    pub fn render(&self, now: Timestamp) -> String {
        let (all, mut text) = (self.0.all(), Text::default());
        let age = |since: Timestamp| (None, now.duration_since(since).as_secs() as f64);
        let backed_up = (
            "readstates_backup_age_seconds",
            "Time since the last good backup of a ReadStateBackupSchedule, or since it was created where there is none.",
        );
        all.gauge(&mut text, backed_up, |seen| Some(age(seen.backed_up)));
        let verified = (
            "readstates_backup_verified_age_seconds",
            "Time since a backup of a ReadStateBackupSchedule was last read and found sound.",
        );
        all.gauge(&mut text, verified, |seen| seen.verified.map(age));
        let degraded = (
            "readstates_backup_degraded",
            "1 while the condition Degraded of a ReadStateBackupSchedule is true.",
        );
        all.gauge(&mut text, degraded, |seen| {
            Some((None, f64::from(u8::from(seen.degraded))))
        });
        text.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        fixtures::id,
        told::fixtures::{samples, watch},
    };

    fn lines(schedules: &Schedules, now: &str) -> Vec<String> {
        let text = schedules.render(now.parse().unwrap());
        samples(&text, "readstates_backup_")
    }

    #[test]
    fn the_age_of_the_last_good_backup_grows_until_its_schedule_is_gone() {
        let schedules = Schedules::default();
        let (there, delete) = watch();
        schedules.add(there);
        let created = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut status = ReadStateBackupScheduleStatus::default();
        schedules.tell(&id(), "mail", created, &status);
        assert_eq!(
            lines(&schedules, "2026-01-01T00:01:00Z"),
            ["age_seconds{} 60", "degraded{} 0"]
        );
        let made = json!({ "finished": "2026-01-01T00:02:00Z" });
        status.last_backup = Some(serde_json::from_value(made.clone()).unwrap());
        status.last_verified = Some(serde_json::from_value(made).unwrap());
        status.conditions = serde_json::from_value(json!([{
            "type": "Degraded", "status": "True", "reason": "BackupFailed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]))
        .unwrap();
        schedules.tell(&id(), "mail", created, &status);
        assert_eq!(
            lines(&schedules, "2026-01-01T00:02:30Z"),
            [
                "age_seconds{} 30",
                "verified_age_seconds{} 30",
                "degraded{} 1",
            ]
        );
        delete();
        assert_eq!(lines(&schedules, "2026-01-01T00:02:30Z"), [""; 0]);
    }
}
