//! What must hold for any bytes. Each target is a function of bytes that panics when it does not; the
//! coverage-guided run (`hack/fuzz`) and the bounded run (`tests/bounded.rs`) call the same ones.
//!
//! The block and the codec are taken in by source rather than with the whole service, so that a run is
//! built in seconds. Their unit tests belong to their own crate, which has what they need: compiled as a test, this crate is
//! empty, so that commands for all crates (`cargo nextest run --workspace --lib`) work.
#![cfg(not(test))]

pub mod journal;
pub mod targets;

#[path = "../../src/access/file/mod.rs"]
pub mod access_file;
#[path = "../../src/access/header.rs"]
pub mod authorization;
#[path = "../../src/block/mod.rs"]
pub mod block;
/// As much of the cache as a frame needs.
#[path = "../../src/cache/exported.rs"]
pub mod cache;
#[path = "../../src/codec/mod.rs"]
pub mod codec;
#[allow(
    dead_code,
    reason = "what members alone call is not called by any target"
)]
#[path = "../../src/ownership/frame.rs"]
pub mod frame;
