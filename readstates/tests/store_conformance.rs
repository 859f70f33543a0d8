//! What every store must do, run on each of them. The CQL store needs a database: give its address in
//! READSTATES_TEST_CQL=HOST:PORT.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod common;

use std::{io::Write, sync::Arc, time::Duration};

use common::faulty::FaultyStore;
use readstates::store::{
    CqlLogin, CqlStore, CqlTarget, EmbeddedStore, MemoryStore, Replication, Store, Stored,
    apply_schema,
};
use readstates_ring::{Stamp, StampMint};

/// A user id of its own for each check, so that a database can be used again.
struct Users(u64);

impl Users {
    fn new() -> Self {
        Self(rand::random_range(1..u64::MAX / 2))
    }

    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

fn stamp(timestamp: i64) -> Stamp {
    Stamp::from_database(timestamp)
}

fn stored(bytes: &[u8], timestamp: i64) -> Option<Stored> {
    Some(Stored {
        bytes: bytes.to_vec(),
        stamp: stamp(timestamp),
    })
}

async fn conforms(store: Arc<dyn Store>) {
    let mut users = Users::new();
    store.check().await.expect("the store answers");

    let user = users.next();
    assert_eq!(
        store.load(user).await.unwrap(),
        None,
        "a user never written has no block"
    );

    store
        .save(user, b"first".to_vec(), stamp(100))
        .await
        .unwrap();
    assert_eq!(
        store.load(user).await.unwrap(),
        stored(b"first", 100),
        "what was written is read"
    );

    store
        .save(user, b"second".to_vec(), stamp(101))
        .await
        .unwrap();
    assert_eq!(
        store.load(user).await.unwrap(),
        stored(b"second", 101),
        "a later write wins"
    );

    store.save(user, b"late".to_vec(), stamp(99)).await.unwrap();
    assert_eq!(
        store.load(user).await.unwrap(),
        stored(b"second", 101),
        "a stale write is no error and no change"
    );

    store
        .save(user, b"second".to_vec(), stamp(101))
        .await
        .unwrap();
    assert_eq!(
        store.load(user).await.unwrap(),
        stored(b"second", 101),
        "a repeated write changes nothing"
    );

    // The stamps of the service: (epoch << 24) | seq, above those of any earlier process.
    let (earlier, later) = (
        StampMint::started_at(5 << 24),
        StampMint::started_at(6 << 24),
    );
    let user = users.next();
    let stale = earlier.next(None);
    let fresh = later.next(None);
    store.save(user, b"fresh".to_vec(), fresh).await.unwrap();
    store.save(user, b"stale".to_vec(), stale).await.unwrap();
    assert_eq!(
        store.load(user).await.unwrap(),
        stored(b"fresh", fresh.as_database())
    );

    let user = users.next();
    store.save(user, Vec::new(), stamp(1)).await.unwrap();
    assert_eq!(
        store.load(user).await.unwrap(),
        stored(b"", 1),
        "an empty block is not no block"
    );

    for user in [1, u64::MAX - users.next() % 1000, u64::MAX] {
        let now = jiff::Timestamp::now().as_microsecond();
        let bytes = user.to_be_bytes();
        store.save(user, bytes.to_vec(), stamp(now)).await.unwrap();
        assert_eq!(
            store.load(user).await.unwrap(),
            stored(&bytes, now),
            "user {user}"
        );
    }

    let user = users.next();
    let large: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
    store.save(user, large.clone(), stamp(1)).await.unwrap();
    assert_eq!(
        store.load(user).await.unwrap().unwrap().bytes,
        large,
        "a large block"
    );

    let many: Vec<u64> = (0..500).map(|_| users.next()).collect();
    let writes = many
        .iter()
        .map(|&user| store.save(user, user.to_le_bytes().to_vec(), stamp(7)));
    for outcome in futures::future::join_all(writes).await {
        outcome.expect("many writes at once");
    }
    for user in many {
        assert_eq!(
            store.load(user).await.unwrap(),
            stored(&user.to_le_bytes(), 7)
        );
    }
}

#[tokio::test]
async fn the_memory_store_conforms() {
    conforms(Arc::new(MemoryStore::default())).await;
}

#[tokio::test]
async fn the_faulty_store_conforms_while_it_is_healthy() {
    conforms(FaultyStore::new()).await;
}

#[tokio::test]
async fn the_embedded_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    conforms(Arc::new(EmbeddedStore::open(folder.path()).unwrap())).await;
}

#[tokio::test]
async fn the_embedded_store_keeps_blocks_and_their_stamps_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&folder.path().join("made/when/missing")).unwrap();
    store.save(1, b"kept".to_vec(), stamp(5)).await.unwrap();
    let again = EmbeddedStore::open(&folder.path().join("made/when/missing"));
    let refusal = again.unwrap_err().to_string();
    assert!(refusal.contains("in use by another process"), "{refusal}");
    drop(store);
    let store = reopened(&folder.path().join("made/when/missing")).await;
    store.save(1, b"stale".to_vec(), stamp(4)).await.unwrap();
    assert_eq!(store.load(1).await.unwrap(), stored(b"kept", 5));
}

/// The writer of a dropped store ends a moment later.
async fn reopened(folder: &std::path::Path) -> EmbeddedStore {
    for _ in 0..100 {
        if let Ok(store) = EmbeddedStore::open(folder) {
            return store;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    EmbeddedStore::open(folder).unwrap()
}

#[tokio::test]
async fn the_cql_store_conforms() {
    let Ok(address) = std::env::var("READSTATES_TEST_CQL") else {
        // Not `eprintln!`: the test harness would keep it to itself.
        let skipped = "SKIPPED: the CQL store was not tested; set READSTATES_TEST_CQL=HOST:PORT";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let target: CqlTarget = format!("{address}/readstates_conformance").parse().unwrap();
    let login = CqlLogin::default();
    let datacenter = std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into());

    // The service starts before the schema is there, says so, and finds it later.
    let store = Arc::new(CqlStore::start(target.clone(), login.clone()));
    let replication: Replication = format!("{datacenter}=1").parse().unwrap();
    apply_schema(&target, &login, &replication).await.unwrap();
    apply_schema(&target, &login, &replication)
        .await
        .expect("a second time changes nothing");
    for _ in 0..600 {
        if store.check().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    conforms(store).await;
}

#[tokio::test]
async fn the_cql_store_says_what_it_waits_for() {
    // Nobody listens on port 1.
    let target: CqlTarget = "127.0.0.1:1/readstates".parse().unwrap();
    let store = CqlStore::start(target, CqlLogin::default());
    for _ in 0..100 {
        let error = store.load(1).await.unwrap_err();
        let text = readstates::store::chain(&error);
        assert!(
            text.contains("failed to reach the database: cql://127.0.0.1:1/readstates"),
            "{text}"
        );
        if text.contains("failed to open a session") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the reason never showed");
}
