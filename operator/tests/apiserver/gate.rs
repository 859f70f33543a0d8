//! Stands between an operator and the API server: lets so many writes through and then fails every
//! one, as if the process had been killed; or holds the first one up.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Method, Request};
use tokio::sync::{Notify, Semaphore};
use tower::{BoxError, Layer, Service};

#[derive(Clone)]
pub(crate) struct Gate {
    left: Arc<AtomicUsize>,
    held: Arc<Semaphore>,
    reached: Arc<Notify>,
}

impl Gate {
    /// Lets every write through.
    pub(crate) fn open_wide() -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(usize::MAX)),
            held: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            reached: Arc::default(),
        }
    }

    /// From now on, lets so many writes through.
    pub(crate) fn allow(&self, writes: usize) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// Holds every write up until [`Gate::open`].
    pub(crate) fn closed() -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(usize::MAX)),
            held: Arc::new(Semaphore::new(0)),
            reached: Arc::default(),
        }
    }

    /// Waits until a write has come to the gate.
    pub(crate) async fn is_reached(&self) {
        self.reached.notified().await;
    }

    pub(crate) fn open(&self) {
        self.held.add_permits(Semaphore::MAX_PERMITS);
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        let gate = self.clone();
        Gated { gate, inner }
    }
}

pub(crate) struct Gated<S> {
    gate: Gate,
    inner: S,
}

impl<S, B> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gate = self.gate.clone();
        let writes = request.method() != Method::GET;
        // It is sent when it is first waited for.
        let response = self.inner.call(request);
        Box::pin(async move {
            if writes {
                gate.reached.notify_one();
                drop(gate.held.acquire().await?);
                let take = |left: usize| left.checked_sub(1);
                let passed = gate
                    .left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
                passed.map_err(|_| "the operator was killed")?;
            }
            response.await
        })
    }
}
