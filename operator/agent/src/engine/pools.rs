//! The thread pools of an engine and what it dropped: what `nodetool tpstats` tells. In: its JSON. Out: numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use super::EngineError;

/// What an engine has under way, and what it did not get to in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    /// By name.
    pub(crate) pools: BTreeMap<String, Pool>,
    /// Messages between nodes that were dropped since its start, by kind.
    pub(crate) dropped: BTreeMap<String, u64>,
}

/// One thread pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Tasks at work.
    pub(crate) active: u64,
    /// Tasks that wait.
    pub(crate) pending: u64,
    /// Tasks that wait for room to wait in.
    pub(crate) blocked: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    thread_pools: BTreeMap<String, ToldPool>,
    dropped_message: BTreeMap<String, Count>,
    #[serde(default, rename = "WaitLatencies")]
    _wait_latencies: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ToldPool {
    active_tasks: Count,
    pending_tasks: Count,
    currently_blocked_tasks: Count,
}

/// A number, or one in quotes: releases differ.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Text(String),
}

impl Count {
    fn get(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or_default(),
        }
    }
}

impl Pools {
    /// Reads what `nodetool tpstats --format json` prints.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn of_tpstats(text: &str) -> Result<Self, EngineError> {
        let odd = |_| EngineError::Odd {
            what: "nodetool tpstats",
            text: text.chars().take(200).collect(),
        };
        let told: Told = serde_json::from_str(text.trim()).map_err(odd)?;
        let pools = told.thread_pools.into_iter().map(|(name, pool)| {
            let pool = Pool {
                active: pool.active_tasks.get(),
                pending: pool.pending_tasks.get(),
                blocked: pool.currently_blocked_tasks.get(),
            };
            (name, pool)
        });
        let dropped = told.dropped_message.into_iter();
        Ok(Self {
            pools: pools.collect(),
            dropped: dropped.map(|(kind, count)| (kind, count.get())).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_and_drops_are_read_whether_numbers_are_quoted_or_not() {
        let text = r#"{"ThreadPools": {"MutationStage": {"ActiveTasks": 2, "PendingTasks": "17", "CompletedTasks": 5,
            "CurrentlyBlockedTasks": 1, "TotalBlockedTasks": 9}},
            "DroppedMessage": {"MUTATION_REQ": 3, "READ_REQ": 0}, "WaitLatencies": {"MUTATION_REQ": [0.1, 0.2]}}"#;
        let pools = Pools::of_tpstats(text).unwrap();
        let pool = Pool {
            active: 2,
            pending: 17,
            blocked: 1,
        };
        assert_eq!(
            pools.pools,
            BTreeMap::from([("MutationStage".to_owned(), pool)])
        );
        assert_eq!(pools.dropped["MUTATION_REQ"], 3);
        let odd = Pools::of_tpstats("nodetool: Failed to connect").unwrap_err();
        assert!(odd.to_string().contains("nodetool tpstats"), "{odd}");
    }
}
