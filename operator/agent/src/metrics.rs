//! Metrics page of the database agent. In: what was last seen. Out: text. Pure.
//!
//! Cassandra exports metrics over JMX only, and an exporter would have to be added as a jar to an image that is not
//! ours. So these come from its own tool, which the agent runs anyway. `ScyllaDB` exports its own at another port.

use std::time::Duration;

use readstates_metrics::Text;

use crate::{
    engine::{Look, Pools},
    wire::Mode,
};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Told<'a> {
    /// The last look at the database and its age, if there was one that it answered.
    pub(super) look: Option<(&'a Look, Duration)>,
    /// Whether it accepts CQL.
    pub(super) cql: bool,
    /// Free, and in all.
    pub(super) disk_bytes: Option<(u64, u64)>,
    /// Where the engine has no metrics of its own.
    pub(super) pools: Option<&'a Pools>,
}

/// As Prometheus reads it.
pub(super) fn page(told: &Told<'_>) -> String {
    let Told {
        look,
        cql,
        disk_bytes,
        pools,
    } = told;
    let mut text = Text::default();
    let yes = |is: bool| f64::from(u8::from(is));
    text.build_info("readstates_agent_build_info", env!("CARGO_PKG_VERSION"));
    text.gauge(
        "readstates_database_cql_open",
        "1 while the node of this pod accepts CQL.",
        yes(*cql),
    );
    if let Some((free, all)) = disk_bytes {
        text.gauge(
            "readstates_database_disk_free_bytes",
            "Bytes free on the disk of this node.",
            *free as f64,
        );
        text.gauge(
            "readstates_database_disk_size_bytes",
            "Size of that disk in bytes.",
            *all as f64,
        );
    }
    if let Some((look, age)) = look {
        text.gauge(
            "readstates_database_look_age_seconds",
            "How old the last answer of the database to the agent is.",
            age.as_secs_f64(),
        );
        text.gauge(
            "readstates_database_node_serves",
            "1 while this node is a member that is up, in its own eyes.",
            yes(look.serves().is_some()),
        );
        let name = "readstates_database_node_mode";
        text.family(name, "1 for what this node is doing.", "gauge");
        text.sample(name, &[("mode", mode(look.mode))], 1.0);
        let name = "readstates_database_nodes";
        let help = "Nodes that this node knows, itself too, by whether it sees them up.";
        text.family(name, help, "gauge");
        for (state, up) in [("up", true), ("down", false)] {
            let count = look.nodes.iter().filter(|node| node.up == up).count();
            text.sample(name, &[("state", state)], count as f64);
        }
    }
    if let Some(pools) = pools {
        write_pools(&mut text, pools);
    }
    text.finish()
}

fn write_pools(text: &mut Text, Pools { pools, dropped }: &Pools) {
    let name = "readstates_database_pool_tasks";
    let help = "Tasks of a thread pool of the database, by whether they are at work.";
    text.family(name, help, "gauge");
    for (pool, tasks) in pools {
        for (state, count) in [
            ("active", tasks.active),
            ("pending", tasks.pending),
            ("blocked", tasks.blocked),
        ] {
            text.sample(name, &[("pool", pool), ("state", state)], count as f64);
        }
    }
    let name = "readstates_database_dropped_messages_total";
    let help = "Messages between nodes that this one dropped because it had no time, by kind.";
    text.family(name, help, "counter");
    for (kind, count) in dropped {
        text.sample(name, &[("kind", kind)], *count as f64);
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Starting => "starting",
        Mode::Joining => "joining",
        Mode::JoinFailed => "join-failed",
        Mode::Normal => "normal",
        Mode::Leaving => "leaving",
        Mode::Decommissioned => "decommissioned",
        Mode::DecommissionFailed => "decommission-failed",
        Mode::Drained => "drained",
        Mode::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        engine::pools::Pool,
        wire::{Node, NodeState},
    };

    /// What `promtool check metrics` is given.
    #[test]
    fn the_page_is_as_it_was() {
        let node = |up| Node {
            host_id: "h".to_owned(),
            address: "10.0.0.1".to_owned(),
            up,
            state: NodeState::Normal,
            load_bytes: None,
        };
        let look = Look {
            host_id: Some("h".to_owned()),
            mode: Mode::Normal,
            progress: None,
            nodes: vec![node(true), node(true), node(false)],
        };
        let tasks = Pool {
            active: 2,
            pending: 17,
            blocked: 0,
        };
        let pools = Pools {
            pools: BTreeMap::from([("MutationStage".to_owned(), tasks)]),
            dropped: BTreeMap::from([("MUTATION_REQ".to_owned(), 3)]),
        };
        let page = page(&Told {
            look: Some((&look, Duration::from_millis(1500))),
            cql: true,
            disk_bytes: Some((3 << 30, 10 << 30)),
            pools: Some(&pools),
        });
        let version = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
        let page = page.replace(version, "{version=\"1\"}");
        assert_eq!(page, include_str!("metrics.prom"), "it is now: {page}");
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let page = page(&Told::default());
        let lines: Vec<_> = page.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[1], "readstates_database_cql_open 0");
    }
}
