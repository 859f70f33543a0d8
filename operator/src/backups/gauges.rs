//! Prometheus gauges of schedules. In: each status as it was last written. Out: gauges, computed for every scrape, so that
//! the age of a backup grows also while nothing happens.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kube::{
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store},
};
use readstates_metrics::Text;
use readstates_operator_api::{
    ReadStateBackupSchedule, ReadStateBackupScheduleStatus,
    conditions::{ConditionStatus, ConditionType},
};

use crate::validate::Identity;

/// The schedules that this process reconciles.
#[derive(Clone, Debug, Default)]
pub struct Schedules(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Those that are there, as the watches tell.
    there: Vec<Store<PartialObjectMeta<ReadStateBackupSchedule>>>,
    /// What was told of each, by namespace and name.
    told: BTreeMap<(String, String), Schedule>,
}

/// What gauges tell of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The `ReadStateCluster`.
    pub cluster: String,
    /// When the last good backup was complete, or else when the schedule was created.
    pub backed_up: Timestamp,
    /// When one was last found sound.
    pub verified: Option<Timestamp>,
    /// Whether the condition Degraded is true.
    pub degraded: bool,
}

impl Schedules {
    /// And those of one more watch.
    pub fn add(&self, store: Store<PartialObjectMeta<ReadStateBackupSchedule>>) {
        self.inner().there.push(store);
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
        let is_degraded = status.conditions.iter().any(|c| {
            c.type_ == ConditionType::Degraded.as_str()
                && c.status == ConditionStatus::True.as_str()
        });
        let schedule = Schedule {
            cluster: cluster.to_owned(),
            backed_up: last.map_or(created, |made| made.finished.0),
            verified: status.last_verified.as_ref().map(|v| v.finished.0),
            degraded: is_degraded,
        };
        let key = (id.namespace.clone(), id.name.clone());
        self.inner().told.insert(key, schedule);
    }

    /// Gauges of those that are there, as Prometheus reads them.
    #[must_use]
    pub fn render(&self, now: Timestamp) -> String {
        let all = {
            let mut inner = self.inner();
            let Inner { there, told } = &mut *inner;
            told.retain(|(namespace, name), _| {
                let key = ObjectRef::new(name).within(namespace);
                there.iter().any(|store| store.get(&key).is_some())
            });
            told.clone()
        };
        let mut text = Text::default();
        let mut family = |name: &str, help: &str, of: &dyn Fn(&Schedule) -> Option<i64>| {
            text.family(name, help, "gauge");
            for ((namespace, schedule), seen) in &all {
                let labels = [
                    ("namespace", namespace.as_str()),
                    ("name", schedule),
                    ("cluster", &seen.cluster),
                ];
                if let Some(value) = of(seen) {
                    text.sample(name, &labels, value as f64);
                }
            }
        };
        family(
            "readstates_backup_age_seconds",
            "Time since the last good backup of a ReadStateBackupSchedule, or since it was created where there is none.",
            &|seen| Some(now.duration_since(seen.backed_up).as_secs()),
        );
        family(
            "readstates_backup_verified_age_seconds",
            "Time since a backup of a ReadStateBackupSchedule was last read and found sound.",
            &|seen| Some(now.duration_since(seen.verified?).as_secs()),
        );
        family(
            "readstates_backup_degraded",
            "1 while the condition Degraded of a ReadStateBackupSchedule is true.",
            &|seen| Some(i64::from(seen.degraded)),
        );
        text.finish()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change to it is one call: there is no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kube::{
        core::{ObjectMeta, PartialObjectMetaExt},
        runtime::{reflector, watcher::Event},
    };
    use serde_json::json;

    use super::*;
    use crate::fixtures::id;

    fn lines(schedules: &Schedules, now: &str) -> Vec<String> {
        let text = schedules.render(now.parse().unwrap());
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn the_age_of_the_last_good_backup_grows_until_its_schedule_is_gone() {
        let schedules = Schedules::default();
        let (there, mut watch) = reflector::store();
        schedules.add(there);
        let object = ObjectMeta {
            name: Some("chat".to_owned()),
            namespace: Some("talk".to_owned()),
            ..ObjectMeta::default()
        };
        let object: PartialObjectMeta<ReadStateBackupSchedule> = object.into_response_partial();
        watch.apply_watcher_event(&Event::Apply(object.clone()));
        let created = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut status = ReadStateBackupScheduleStatus::default();
        schedules.tell(&id(), "mail", created, &status);
        assert_eq!(
            lines(&schedules, "2026-01-01T00:01:00Z"),
            [
                r#"readstates_backup_age_seconds{namespace="talk",name="chat",cluster="mail"} 60"#,
                r#"readstates_backup_degraded{namespace="talk",name="chat",cluster="mail"} 0"#,
            ]
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
                r#"readstates_backup_age_seconds{namespace="talk",name="chat",cluster="mail"} 30"#,
                r#"readstates_backup_verified_age_seconds{namespace="talk",name="chat",cluster="mail"} 30"#,
                r#"readstates_backup_degraded{namespace="talk",name="chat",cluster="mail"} 1"#,
            ]
        );
        watch.apply_watcher_event(&Event::Delete(object));
        assert_eq!(lines(&schedules, "2026-01-01T00:02:30Z"), [""; 0]);
    }
}
