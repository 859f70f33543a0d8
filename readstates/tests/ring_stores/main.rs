//! What every ring store must do, run on each of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod conformance;

use std::sync::Arc;

use conformance::conforms;
use readstates::ownership::store::MemoryRing;

#[tokio::test]
async fn the_memory_ring_conforms() {
    let ring = Arc::new(MemoryRing::default());
    conforms(async || ring.clone()).await;
}
