//! `spec.database.repair` as a value: how often, or not at all.

use std::time::Duration;

use readstates_operator_api::RepairSpec;

use super::{Checker, duration};

/// Well below the ten days after which the database forgets deletions (`gc_grace_seconds` of the table).
const DEFAULT: Duration = Duration::from_hours(7 * 24);
/// Bounds of the interval; a day is left of the ten for the repair itself.
const RANGE: (Duration, Duration) = (Duration::from_hours(1), Duration::from_hours(9 * 24));

impl Checker {
    /// Time from one repair of a node to the next; `None`: it is not repaired.
    pub(super) fn repair(&mut self, spec: Option<&RepairSpec>) -> Option<Duration> {
        let Some(RepairSpec { enabled, interval }) = spec else {
            return Some(DEFAULT);
        };
        let every = interval.as_deref().map_or(Some(DEFAULT), |text| {
            let every = duration::within(text, RANGE);
            if every.is_none() {
                let words = format!("{text:?} is not a duration from 1h to 9d");
                self.wrong("spec.database.repair.interval", words);
            }
            every
        });
        every.filter(|_| *enabled != Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{CASSANDRA, try_cluster},
        spec::Store,
    };

    fn every(repair: &str) -> Option<Duration> {
        let spec = CASSANDRA.replace("  engine:", &format!("  repair: {repair}\n  engine:"));
        match try_cluster(&spec).unwrap().store {
            Store::Managed(database) => database.repair_every,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_database_is_repaired_each_week_unless_the_spec_says_otherwise() {
        let hours = |hours| Some(Duration::from_hours(hours));
        assert_eq!(every("{}"), hours(168));
        assert_eq!(every("{ interval: 3d }"), hours(72));
        assert_eq!(every("{ interval: 36h }"), hours(36));
        assert_eq!(every("{ interval: 3d, enabled: false }"), None);
    }

    #[test]
    fn an_interval_that_is_too_long_or_none_is_refused_by_its_field() {
        for interval in ["10d", "30m", "often"] {
            let repair = format!("  repair: {{ interval: {interval} }}\n  engine:");
            let said = try_cluster(&CASSANDRA.replace("  engine:", &repair)).unwrap_err();
            let said = said.to_string();
            assert!(said.contains("spec.database.repair.interval"), "{said}");
        }
    }

    #[test]
    fn another_interval_restarts_no_pod() {
        let hash = |repair: &str| {
            let spec = CASSANDRA.replace("  engine:", &format!("{repair}  engine:"));
            match try_cluster(&spec).unwrap().store {
                Store::Managed(database) => database.spec_hash(None),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(hash(""), hash("  repair: { interval: 3d }\n"));
    }
}
