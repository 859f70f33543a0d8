//! Pages about the whole member, made once for all requests that come at the same time.
//!
//! Such a page takes every lock of the cache for a moment, and requests for it are admitted even when
//! everything else is at its limit. No request gets a page that was begun before it came: a herd costs
//! two pages, the one under way and the next.

use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Mutex;

/// One page, as it was made last.
#[derive(Debug, Default)]
pub(super) struct Page {
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Page {
    /// A page that is begun after this was called.
    ///
    /// # Errors
    /// When making it failed.
    pub(super) async fn get<E>(&self, make: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytes, E> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began, page)) = &*last
            && *began > asked
        {
            return Ok(page.clone());
        }
        let began = Instant::now();
        let page = make()?;
        *last = Some((began, page.clone()));
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_herd_costs_two_pages_and_whoever_comes_later_a_new_one() {
        let (page, made) = (Page::default(), AtomicUsize::new(0));
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from_static(b"page"))
        };
        // One page is being made, and all the other requests come meanwhile.
        let busy = page.last.lock().await;
        let herd = join_all((0..300).map(|_| page.get(make)));
        tokio::pin!(herd);
        assert!(futures::poll!(&mut herd).is_pending(), "all of them wait");
        drop(busy);
        assert_eq!(herd.await.len(), 300);
        assert_eq!(made.load(Ordering::Relaxed), 1);
        page.get(make).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}
