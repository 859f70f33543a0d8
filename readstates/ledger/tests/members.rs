//! The ledger against real members in this process: it finds nothing where nothing is wrong, and everything where
//! the database was never written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the service's own tests use all of it"
)]
#[path = "../../tests/service/common/mod.rs"]
mod common;

use std::{sync::Arc, time::Duration};

use common::{Running, members};
use readstates::{
    codec,
    store::{MemoryStore, Store},
};
use readstates_api::Id;
use readstates_client::{Client, Config, Routing};
use readstates_ledger::{Excuse, Found, Kind, Load, Phase, Plan, Told, Verdict, What};

const PLAN: Plan = Plan {
    workers: 12,
    users_per_worker: 5,
    pace: Duration::from_millis(2),
    seed: 1,
    first_user: 1 << 40,
};

/// In each phase, however long they take.
const CALLS: u64 = 300;

async fn clients(members: &[Running]) -> Vec<(Kind, Client)> {
    let config = || Config::new(members.iter().map(|member| member.url(""))).unwrap();
    let ring = members[0].get("/v1/ring").await.ok();
    let fixed = Routing::Fixed(serde_json::from_value(ring).unwrap());
    [
        (Kind::Smart, config()),
        (Kind::Stale, config().routing(fixed)),
        (Kind::Dumb, config().routing(Routing::Seeds)),
    ]
    .map(|(kind, config)| (kind, Client::start(config).unwrap()))
    .into()
}

async fn told(clients: &[(Kind, Client)]) -> Told {
    let load = Load::start(&PLAN, clients);
    for phase in Phase::ALL {
        load.enter(phase);
        while load.calls(phase) < CALLS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    load.stop().await.unwrap()
}

async fn stored(store: &MemoryStore, user: u64) -> anyhow::Result<Vec<Found>> {
    let Some(stored) = store.load(user).await? else {
        return Ok(Vec::new());
    };
    let decoded = codec::decode(&stored.bytes)?;
    let found = decoded.block.states().map(|state| Found {
        channel: state.channel,
        last_message: state.last_message,
        mention_count: state.mention_count,
    });
    Ok(found.collect())
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong_and_all_of_it_where_nothing_was_written() {
    let store = Arc::new(MemoryStore::default());
    let members = members(&["chat-0", "chat-1", "chat-2"], store.clone()).await;
    let clients = clients(&members).await;
    let told = told(&clients).await;

    let cache = told
        .audit(async |user| {
            let states = clients[0].1.read_states(Id::new(user).unwrap()).await?;
            anyhow::Ok(states.read_states.iter().map(Found::from).collect())
        })
        .await
        .unwrap();
    assert!(cache.acknowledged > CALLS, "{}", cache.acknowledged);
    assert_eq!(cache.findings, []);
    let before = told
        .audit(async |user| stored(&store, user).await)
        .await
        .unwrap();
    assert_eq!(before.count(What::Lost) as u64, before.acknowledged);

    for member in &members {
        let answer = member
            .post("/admin/v1/flush", serde_json::Value::Null)
            .await;
        assert_eq!(answer.ok()["failed_users"], 0);
    }
    let after = told
        .audit(async |user| stored(&store, user).await)
        .await
        .unwrap();
    assert_eq!(after, cache);

    let places = || vec![("cache", cache.clone()), ("database", before.clone())];
    let wrong = Verdict::new(&told, places(), &[]);
    assert!(
        !wrong.is_sound() && wrong.to_string().ends_with("WRONG"),
        "{wrong}"
    );
    let all = Excuse {
        from: Duration::ZERO,
        until: told.took,
    };
    let excused = Verdict::new(&told, places(), &[all]);
    assert!(
        excused.is_sound() && excused.to_string().ends_with("SOUND"),
        "{excused}"
    );
    let text = excused.to_string();
    for word in ["Before", "During", "After", "p99", "Smart", "Dumb"] {
        assert!(text.contains(word), "{text}");
    }
}
