//! How many copies of each row a keyspace keeps, by data centre: as asked for, and as a database describes it.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// The replication class this service is made for: it knows data centres.
const STRATEGY: &str = "NetworkTopologyStrategy";

/// How many replicas each data centre has: `dc1=3[,dc2=3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication(BTreeMap<String, u8>);

impl FromStr for Replication {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write DC=REPLICAS[,DC=REPLICAS...], for example dc1=3";
        let mut replicas = BTreeMap::new();
        for part in text.split(',') {
            let (datacenter, count) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} has no number; {form}"))?;
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if datacenter.is_empty() || !datacenter.bytes().all(allowed) {
                return Err(format!("{datacenter:?} is no data centre name; {form}"));
            }
            let count = count.parse().ok().filter(|count| (1..=9).contains(count));
            let count =
                count.ok_or_else(|| format!("{part:?}: replicas go from 1 to 9; {form}"))?;
            if replicas.insert(datacenter.to_owned(), count).is_some() {
                return Err(format!("data centre {datacenter:?} is listed twice"));
            }
        }
        Ok(Self(replicas))
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self
            .0
            .iter()
            .map(|(datacenter, count)| format!("{datacenter}={count}"));
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

impl Replication {
    pub(super) fn as_cql(&self) -> String {
        let parts = self
            .0
            .iter()
            .map(|(datacenter, count)| format!(", '{datacenter}': {count}"));
        format!("{{'class': '{STRATEGY}'{}}}", parts.collect::<String>())
    }

    /// Whether a keyspace that is described by `options` has exactly this replication.
    pub(super) fn is(&self, options: &BTreeMap<String, String>) -> bool {
        let counts = options.iter().filter(|(name, _)| *name != "class");
        let mut counts: BTreeMap<_, _> = counts
            .map(|(name, count)| (name.clone(), count.clone()))
            .collect();
        let wanted = self.0.iter().all(|(datacenter, count)| {
            counts
                .remove(datacenter)
                .is_some_and(|has| has == count.to_string())
        });
        // A data centre with no replicas is as good as one that is not listed.
        knows_data_centres(options) && wanted && counts.values().all(|count| count == "0")
    }

    /// How many copies come or go, over all data centres, when a keyspace that is described by `options` gets this
    /// replication; `None` where that cannot be counted.
    pub(super) fn changes(&self, options: &BTreeMap<String, String>) -> Option<u32> {
        if !knows_data_centres(options) {
            return None;
        }
        let has = options.iter().filter(|(name, _)| *name != "class");
        let has = has.map(|(name, count)| Some((name.as_str(), count.parse::<u8>().ok()?)));
        let has: BTreeMap<_, _> = has.collect::<Option<_>>()?;
        let given_up = has.iter().filter(|(name, _)| !self.0.contains_key(**name));
        let given_up = given_up.map(|(_, count)| u32::from(*count));
        let changed = self.0.iter().map(|(name, asked)| {
            let count = has.get(name.as_str()).copied().unwrap_or_default();
            u32::from(asked.abs_diff(count))
        });
        Some(changed.chain(given_up).sum())
    }

    /// Whether a keyspace that is described by `options` keeps at least these copies. What it keeps besides, in
    /// these data centres or in others, is its owner's affair.
    pub(super) fn is_covered_by(&self, options: &BTreeMap<String, String>) -> bool {
        let kept = |datacenter: &str| options.get(datacenter).and_then(|text| full_copies(text));
        knows_data_centres(options)
            && self
                .0
                .iter()
                .all(|(datacenter, asked)| kept(datacenter).is_some_and(|has| has >= *asked))
    }
}

fn knows_data_centres(options: &BTreeMap<String, String>) -> bool {
    options
        .get("class")
        .is_some_and(|class| class.ends_with(STRATEGY))
}

/// The copies that can be read from: of `3/1`, Cassandra's transient replication, one of three cannot.
fn full_copies(text: &str) -> Option<u8> {
    match text.split_once('/') {
        None => text.parse().ok(),
        Some((all, transient)) => {
            let (all, transient): (u8, u8) = (all.parse().ok()?, transient.parse().ok()?);
            all.checked_sub(transient)
        }
    }
}

/// A keyspace's replication as its database describes it, for people.
pub(super) fn described(options: &BTreeMap<String, String>) -> String {
    let class = options.get("class").map(String::as_str).unwrap_or_default();
    let class = class.rsplit('.').next().unwrap_or_default();
    let counts = options.iter().filter(|(name, _)| *name != "class");
    let counts: Vec<_> = counts
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    format!("{class} {}", counts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: (&str, &str) = (
        "class",
        "org.apache.cassandra.locator.NetworkTopologyStrategy",
    );

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn a_replication_names_data_centres_and_counts() {
        let replication: Replication = "dc1=3,eu-west_2.b=1".parse().unwrap();
        assert_eq!(replication.to_string(), "dc1=3,eu-west_2.b=1");
        assert_eq!(
            replication.as_cql(),
            "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'eu-west_2.b': 1}"
        );
        for bad in [
            "", "dc1", "dc1=", "dc1=0", "dc1=x", "=3", "d'c=3", "a=1,a=2", "a=1,",
        ] {
            assert!(bad.parse::<Replication>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_keyspace_of_our_own_has_exactly_the_replication_that_is_asked_for() {
        let replication: Replication = "dc1=3".parse().unwrap();
        assert!(replication.is(&options(&[CLASS, ("dc1", "3")])));
        assert!(replication.is(&options(&[CLASS, ("dc1", "3"), ("dc2", "0")])));
        assert!(!replication.is(&options(&[CLASS, ("dc1", "2")])));
        assert!(!replication.is(&options(&[CLASS, ("dc1", "3"), ("dc2", "1")])));
        assert!(!replication.is(&options(&[("class", "SimpleStrategy"), ("dc1", "3")])));
    }

    #[test]
    fn copies_that_come_and_go_are_counted_over_all_data_centres() {
        let asked: Replication = "dc1=3,dc2=1".parse().unwrap();
        for (has, changes) in [
            (&[("dc1", "3"), ("dc2", "1")][..], Some(0)),
            (&[("dc1", "3"), ("dc2", "1"), ("dc3", "0")], Some(0)),
            (&[("dc1", "2"), ("dc2", "1")], Some(1)),
            (&[("dc1", "4"), ("dc2", "1")], Some(1)),
            (&[("dc1", "3")], Some(1)),
            (&[("dc1", "1"), ("dc2", "1")], Some(2)),
            (&[("dc1", "3"), ("dc2", "1"), ("dc3", "3")], Some(3)),
            (&[("dc1", "3/1"), ("dc2", "1")], None),
        ] {
            let has = options(&[&[CLASS], has].concat());
            assert_eq!(asked.changes(&has), changes, "{has:?}");
        }
        let simple = options(&[("class", "SimpleStrategy"), ("replication_factor", "3")]);
        assert_eq!(asked.changes(&simple), None);
    }

    #[test]
    fn a_keyspace_of_somebody_elses_may_keep_more_copies_and_in_more_places() {
        let asked: Replication = "dc1=3".parse().unwrap();
        for enough in [
            &[("dc1", "3")][..],
            &[("dc1", "3"), ("dc2", "3")],
            &[("dc1", "5")],
            &[("dc1", "5/2")],
        ] {
            let options = options(&[&[CLASS], enough].concat());
            assert!(asked.is_covered_by(&options), "{options:?}");
        }
        for too_few in [
            &[("dc1", "2")][..],
            &[("dc2", "3")],
            &[("dc1", "3/1")],
            &[("dc1", "many")],
            &[],
        ] {
            let options = options(&[&[CLASS], too_few].concat());
            assert!(!asked.is_covered_by(&options), "{options:?}");
        }
        let simple = options(&[("class", "SimpleStrategy"), ("replication_factor", "3")]);
        assert!(!asked.is_covered_by(&simple));
        assert_eq!(described(&simple), "SimpleStrategy replication_factor=3");
    }
}
