//! A load with books on one cluster while its table moves into another, with which the books are compared.

use std::time::Duration;

use anyhow::{Context as _, Result};
use readstates_ledger::{Kind, Load, Phase, Plan, Verdict};

use crate::{
    chaos::{first_user, in_cache, in_database},
    cluster::Cluster,
    ways::Ways,
};

/// Tasks that send one operation at a time.
const WORKERS: u64 = 12;
/// Between two operations of one.
const PACE: Duration = Duration::from_millis(50);

/// A cluster under load.
#[derive(Debug)]
pub struct Moving {
    load: Load,
    /// Clients go through them to the end.
    _ways: Ways,
}

impl Moving {
    /// Puts the cluster, with this many cache pods, under load.
    ///
    /// # Errors
    /// When no client can be started.
    pub async fn begin(cluster: &Cluster, members: usize, seed: u64) -> Result<Self> {
        let ways = cluster.ways(members).await?;
        let plan = Plan {
            workers: WORKERS,
            users_per_worker: 8,
            pace: PACE,
            seed,
            first_user: first_user()?,
        };
        let load = Load::start(&plan, &ways.clients().await?);
        load.enter(Phase::During);
        Ok(Self { load, _ways: ways })
    }

    /// Ends the load, and compares its books with what the other cluster answers, and with what its database has.
    ///
    /// # Errors
    /// When either cannot be read.
    pub async fn end(self, other: &Cluster, members: usize) -> Result<Verdict> {
        let told = self.load.stop().await?;
        let ways = other.ways(members).await?;
        let smart = ways.client(Kind::Smart).await?;
        let cache = in_cache(&told, &smart).await?;
        for ordinal in 0..members {
            let flushed = other.flush(ordinal).await;
            flushed.with_context(|| format!("cache pod {ordinal}"))?;
        }
        let database = in_database(&told, &other.cassandra().await?).await?;
        let places = vec![("cache", cache), ("database", database)];
        Ok(Verdict::new(&told, places, &[]))
    }
}
