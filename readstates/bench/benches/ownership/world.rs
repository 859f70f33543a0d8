//! Members of this process.

use std::{
    error::Error,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use readstates::{
    cache::Process,
    clock::UnixClock,
    config::{ListenConfig, RingConfig, ServeConfig},
    engine::Engine,
    metrics::Metrics,
    ownership::{
        Backing, HttpPeers, LeaseClock, Ownership, OwnershipConfig, Timing,
        store::{MemoryRing, RingStore},
    },
    server::{Listeners, Server},
    store::{MemoryStore, Store},
};
use readstates_ring::{
    moves::{Live, next_batch},
    planner::Candidate,
};

/// Nothing is written unless it is asked for.
const NEVER: Duration = Duration::from_secs(3600);
const CAPACITY: u64 = 10_000_000;
const SLOTS_AT_ONCE: usize = 64;

pub(crate) fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1 << 50, |since| since.as_micros() as i64)
}

/// An engine with its part of a ring, on this runtime, that does nothing by itself yet.
pub(crate) fn ownership(
    ring: Arc<dyn RingStore>,
    shared: bool,
) -> Result<Arc<Ownership>, Box<dyn Error>> {
    Ok(engine_and_ownership(ring, shared)?.1)
}

pub(crate) fn engine_and_ownership(
    ring: Arc<dyn RingStore>,
    shared: bool,
) -> Result<(Arc<Engine>, Arc<Ownership>), Box<dyn Error>> {
    let process = Process {
        incarnation: 1,
        started_micros: micros() as u64,
    };
    let (store, metrics) = (Arc::new(MemoryStore::default()), Arc::new(Metrics::new()));
    // It ends with the runtime.
    let (engine, _flusher) = Engine::start(process, CAPACITY, NEVER, store, metrics);
    let config = OwnershipConfig {
        name: "here-0".into(),
        incarnation: 1,
        url: "http://127.0.0.1:1".into(),
        members: None,
        zone: None,
        shared,
        backing: Backing::Off,
        most_held: 0,
        timing: Timing::default(),
        lease_clock: LeaseClock::Boottime,
        unix_clock: UnixClock::System,
        max_per_member: 1000,
    };
    let ownership = Ownership::new(config, Arc::clone(&engine), ring, HttpPeers::new(None)?)?;
    Ok((engine, ownership))
}

/// Members that answer on free ports of the loopback, and have about as many slots each.
pub(crate) async fn members(count: usize) -> Result<Vec<Server>, Box<dyn Error>> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let ring: Arc<dyn RingStore> = Arc::new(MemoryRing::default());
    let mut members = Vec::new();
    for number in 0..count {
        let config = ServeConfig {
            listen: ListenConfig::free(Ipv4Addr::LOCALHOST.into(), false),
            flush_interval: NEVER,
            capacity_states: CAPACITY,
            member: format!("chat-{number}"),
            // What counts is that it is not the member's own.
            ring: RingConfig::File("shared".into()),
            ..ServeConfig::alone_in_memory()
        };
        let listeners = Listeners::bind(&config)?;
        let (store, ring) = (Arc::clone(&store), Arc::clone(&ring));
        members.push(Server::start(&config, store, ring, listeners).await?);
    }
    balance(&members).await;
    Ok(members)
}

async fn balance(members: &[Server]) {
    let live = |member: &Server| Live {
        incarnation: member.ownership().me().incarnation(),
        candidate: Candidate {
            name: member.member().to_owned(),
            ordinal: None,
            zone: None,
        },
    };
    let live: Vec<Live> = members.iter().map(live).collect();
    let find = |incarnation| {
        members
            .iter()
            .find(|member| member.ownership().me().incarnation() == incarnation)
    };
    loop {
        let table = Arc::clone(members[0].ownership().routes().table());
        let Some(next) = next_batch(&table, &live, SLOTS_AT_ONCE) else {
            break;
        };
        if let (Some(from), Some(to)) = (find(next.from), find(next.to)) {
            let to = to.ownership().me().incarnation();
            // A member that is not seen yet is there a moment later.
            let _ = from.ownership().begin_move(to, &next.slots).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for member in members {
        member.ownership().refresh().await;
    }
}
