//! Bodies in zstd, in memory and processor time that are bounded.
//!
//! A short body is compressed where it is answered, which takes some tens of microseconds. A longer one is compressed on a
//! thread of its own, as many at a time as there are processors; those that wait hold memory that is counted.

use std::{cell::RefCell, num::NonZero, sync::Arc, thread::available_parallelism};

use tokio::sync::Semaphore;

use super::{body, problem::Refusal};
use crate::limit::{Limit, Permit};

/// zstd's fastest ordinary level: a reader waits.
const LEVEL: i32 = 1;
/// Up to so many bytes are short.
const SHORT: usize = 64 << 10;

/// Bytes that give their permit back when they are gone.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) bytes: Vec<u8>,
    _permit: Permit<Arc<Limit>>,
}

impl Counted {
    /// Bytes for which this permit was taken, or more.
    pub(super) fn new(bytes: Vec<u8>, mut permit: Permit<Arc<Limit>>) -> Self {
        permit.shrink_to(bytes.capacity());
        Self {
            bytes,
            _permit: permit,
        }
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Compresses what is long.
#[derive(Debug)]
pub(super) struct Packer {
    /// Bytes that bodies and answers may take.
    buffered: Arc<Limit>,
    turns: Arc<Semaphore>,
}

impl Packer {
    pub(super) fn new(buffered: Arc<Limit>) -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self {
            buffered,
            turns: Arc::new(Semaphore::new(processors)),
        }
    }

    /// A body in zstd. Cancel-safe: what was begun ends on its thread, and gives its memory back.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) async fn pack(
        &self,
        plain: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Counted, Refusal> {
        let long = plain.as_ref().len();
        let most = zstd::zstd_safe::compress_bound(long);
        let mut permit =
            Permit::take(Arc::clone(&self.buffered), most).ok_or_else(body::no_memory)?;
        let packed = if long <= SHORT {
            compress(plain.as_ref())
        } else {
            // Never closed.
            let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
            let work = tokio::task::spawn_blocking(move || {
                let packed = zstd::bulk::compress(plain.as_ref(), LEVEL).ok();
                drop(turn);
                (packed, permit)
            });
            let (packed, kept) = work.await.map_err(|_| body::no_memory())?;
            permit = kept;
            packed
        };
        let mut bytes = packed.ok_or_else(body::no_memory)?;
        bytes.shrink_to_fit();
        Ok(Counted::new(bytes, permit))
    }
}

thread_local! {
    /// Its tables are kept: making them takes longer than compressing a short body.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// A short body in zstd; `None` where there is no memory for it.
pub(super) fn compress(body: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        compressor.as_mut()?.compress(body).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at / 7 % 251) as u8).collect()
    }

    #[tokio::test]
    async fn long_and_short_bodies_are_the_same_when_they_are_unpacked_and_take_what_they_are_long()
    {
        let limit = Arc::new(Limit::new(10 << 20));
        let packer = Packer::new(Arc::clone(&limit));
        for bytes in [0, 1, SHORT, SHORT + 1, 1 << 20] {
            let packed = packer.pack(body(bytes)).await.unwrap();
            assert_eq!(
                zstd::bulk::decompress(&packed.bytes, bytes).unwrap(),
                body(bytes)
            );
            assert_eq!(limit.used(), packed.bytes.capacity());
            assert!(packed.bytes.capacity() < 100 + bytes / 2);
            drop(packed);
            assert_eq!(limit.used(), 0);
        }
    }

    #[tokio::test]
    async fn a_body_for_which_there_is_no_memory_is_refused_before_any_is_taken() {
        let limit = Arc::new(Limit::new(1 << 20));
        let packer = Packer::new(Arc::clone(&limit));
        assert!(
            packer.pack(body(1 << 20)).await.is_err(),
            "incompressible, it would be longer"
        );
        assert_eq!(limit.used(), 0);
        assert!(packer.pack(body(1 << 19)).await.is_ok());
    }

    #[tokio::test]
    async fn a_reader_who_leaves_gives_back_what_was_taken() {
        let limit = Arc::new(Limit::new(100 << 20));
        let packer = Packer::new(Arc::clone(&limit));
        let turns = Arc::clone(&packer.turns)
            .acquire_many_owned(packer.turns.available_permits() as u32)
            .await
            .unwrap();
        {
            let waits = packer.pack(body(1 << 20));
            tokio::pin!(waits);
            assert!(futures::poll!(&mut waits).is_pending());
            assert!(limit.used() > 1 << 20);
        }
        assert_eq!(limit.used(), 0);
        drop(turns);
        assert!(packer.pack(body(1 << 20)).await.is_ok());
    }
}
