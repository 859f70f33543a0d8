//! What every store must do, run on each of them. The CQL store needs a database: give its address in
//! READSTATES_TEST_CQL=HOST:PORT.

use std::{io::Write, sync::Arc, time::Duration};

use crate::common::{
    conformance::{conforms, stamp, stored},
    faulty::FaultyStore,
    scanning::scans,
};
use readstates::store::{
    CqlLogin, CqlStore, CqlTarget, EmbeddedStore, MemoryStore, Replication, SchemaWish, Store,
    apply_schema,
};

#[tokio::test]
async fn the_memory_store_conforms() {
    conforms(Arc::new(MemoryStore::default())).await;
}

#[tokio::test]
async fn the_memory_store_can_be_scanned() {
    scans(&MemoryStore::default()).await;
}

#[tokio::test]
async fn the_embedded_store_can_be_scanned() {
    let folder = tempfile::tempdir().unwrap();
    scans(&EmbeddedStore::open(folder.path(), 0).unwrap()).await;
}

#[tokio::test]
async fn the_faulty_store_conforms_while_it_is_healthy() {
    conforms(FaultyStore::new()).await;
}

#[tokio::test]
async fn the_embedded_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    conforms(Arc::new(EmbeddedStore::open(folder.path(), 0).unwrap())).await;
}

#[tokio::test]
async fn the_embedded_store_keeps_blocks_and_their_stamps_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&folder.path().join("made/when/missing"), 0).unwrap();
    store.save(1, b"kept".to_vec(), stamp(5)).await.unwrap();
    let again = EmbeddedStore::open(&folder.path().join("made/when/missing"), 0);
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
        if let Ok(store) = EmbeddedStore::open(folder, 0) {
            return store;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    EmbeddedStore::open(folder, 0).unwrap()
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
    let wish = SchemaWish {
        replication,
        own_database: false,
        claim: None,
    };
    apply_schema(&target, &login, &wish).await.unwrap();
    apply_schema(&target, &login, &wish)
        .await
        .expect("a second time changes nothing");
    for _ in 0..600 {
        if store.check().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    conforms(store.clone()).await;
    scans(&*store).await;
    assert_eq!(
        store.shards(),
        1,
        "one node of Cassandra, which has no shards"
    );
}

#[tokio::test]
async fn the_cql_store_says_what_it_waits_for() {
    // Nothing listens on port 1.
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
