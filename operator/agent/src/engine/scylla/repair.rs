//! Repair of `ScyllaDB`: of keyspaces of vnodes by the node's ranges, of tablets by table, which covers all nodes. To
//! its documentation, and run against a fake of its API only.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{interval, timeout};

use super::{PATIENCE, Scylla, Table};
use crate::{
    engine::{EngineError, LocalNode as _},
    wire::Ranges,
};

/// A repair reads the whole disk, and those of the nodes with the other copies.
const LONGEST: Duration = Duration::from_hours(3 * 24);
/// Interval at which a repair that runs is asked how it is.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Told about progress.
type Progress<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Answer to the order to repair a table of tablets.
#[derive(Deserialize)]
struct Begun {
    tablet_task_id: String,
}

/// How a task ended.
#[derive(Deserialize)]
struct Task {
    state: String,
    #[serde(default)]
    error: String,
}

pub(super) async fn repair(
    scylla: &Scylla,
    ranges: Ranges,
    progress: Progress<'_>,
) -> Result<(), EngineError> {
    let all = async {
        vnodes(scylla, ranges, progress).await?;
        tablets(scylla, ranges, progress).await
    };
    timeout(LONGEST, all).await.unwrap_or_else(|_| {
        let hours = LONGEST.as_secs() / 3600;
        Err(EngineError::Refused(format!(
            "the repair did not end within {hours} h"
        )))
    })
}

async fn vnodes(
    scylla: &Scylla,
    ranges: Ranges,
    progress: Progress<'_>,
) -> Result<(), EngineError> {
    let keyspaces: Vec<String> = scylla
        .get("/storage_service/keyspaces?type=user&replication=vnodes")
        .await?;
    let primary = ranges == Ranges::Primary;
    for keyspace in keyspaces {
        progress(format!("keyspace {keyspace}"));
        let path = "/storage_service/repair_async";
        let url = format!("{}{path}/{keyspace}", scylla.base);
        let begin = scylla.http.post(format!("{url}?primaryRange={primary}"));
        let number: i64 = scylla.send(begin, PATIENCE, path).await?;
        // The first tick is at once.
        let mut ticks = interval(ASK_EVERY);
        loop {
            ticks.tick().await;
            let ask = scylla.http.get(format!("{url}?id={number}"));
            let state: String = scylla.send(ask, PATIENCE, path).await?;
            match state.as_str() {
                "RUNNING" => {}
                "SUCCESSFUL" => break,
                _ => {
                    return Err(EngineError::Refused(format!(
                        "keyspace {keyspace}: the repair ended as {state}; the database's log tells why"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// One node repairs a table of tablets on all nodes: where each repairs its own share, that with the lowest host ID.
async fn tablets(
    scylla: &Scylla,
    ranges: Ranges,
    progress: Progress<'_>,
) -> Result<(), EngineError> {
    let keyspaces: Vec<String> = scylla
        .get("/storage_service/keyspaces?type=user&replication=tablets")
        .await?;
    if keyspaces.is_empty() || (ranges == Ranges::Primary && !is_first(scylla).await?) {
        return Ok(());
    }
    let tables: Vec<Table> = scylla.get("/column_family/").await?;
    for Table { keyspace, name } in tables.iter().filter(|t| keyspaces.contains(&t.keyspace)) {
        progress(format!("table {keyspace}.{name}"));
        let path = "/storage_service/tablets/repair";
        let url = format!(
            "{}{path}?ks={keyspace}&table={name}&tokens=all",
            scylla.base
        );
        let begun: Begun = scylla.send(scylla.http.post(url), PATIENCE, path).await?;
        let path = "/task_manager/wait_task";
        let url = format!("{}{path}/{}", scylla.base, begun.tablet_task_id);
        let task: Task = scylla.send(scylla.http.get(url), LONGEST, path).await?;
        if task.state != "done" {
            let Task { state, error } = task;
            return Err(EngineError::Refused(format!(
                "table {keyspace}.{name}: the repair ended as {state}: {error}"
            )));
        }
    }
    Ok(())
}

async fn is_first(scylla: &Scylla) -> Result<bool, EngineError> {
    let look = scylla.look().await?;
    let first = look.nodes.iter().map(|node| &node.host_id).min();
    Ok(first.is_some() && first == look.host_id.as_ref())
}
