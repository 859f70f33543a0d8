//! A gate between an operator and the API server: lets a number of writes through and then fails every one, as if the
//! process had been killed; holds the first one up; or does to each request what [`Faults`] say.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use http::{Method, Request, Response};
use tokio::sync::{Notify, Semaphore};
use tower::{BoxError, Layer, Service};

use crate::faults::{Fault, Faults, refusal};

#[derive(Clone)]
pub(crate) struct Gate {
    left: Arc<AtomicUsize>,
    held: Arc<Semaphore>,
    reached: Arc<Notify>,
    waiting: Arc<AtomicUsize>,
    faults: Arc<Mutex<Faults>>,
    /// Writes whose sender has given up, and which are still to land.
    late: Arc<AtomicUsize>,
}

impl Gate {
    /// Lets every write through.
    pub(crate) fn open_wide() -> Self {
        Self::with(Faults::default())
    }

    /// Lets happen to every request what these say.
    pub(crate) fn with(faults: Faults) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(usize::MAX)),
            held: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            reached: Arc::default(),
            waiting: Arc::default(),
            faults: Arc::new(Mutex::new(faults)),
            late: Arc::default(),
        }
    }

    /// From now on, lets `writes` writes through.
    pub(crate) fn allow(&self, writes: usize) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// Holds every write up until [`Gate::open`].
    pub(crate) fn closed() -> Self {
        Self {
            held: Arc::new(Semaphore::new(0)),
            ..Self::open_wide()
        }
    }

    /// Waits until a write has come to the gate.
    pub(crate) async fn is_reached(&self) {
        self.reached.notified().await;
    }

    /// Writes that are at the gate.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) {
        self.held.add_permits(Semaphore::MAX_PERMITS);
    }

    /// What happens to requests from now on, and what has happened to them.
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap()
    }

    /// Whether a write is under way whose sender has given up.
    pub(crate) fn is_awaited(&self) -> bool {
        self.late.load(Ordering::SeqCst) > 0
    }

    async fn pass(&self) -> Result<(), BoxError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.reached.notify_one();
        let passes = self.held.acquire().await.map(drop);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        passes?;
        let take = |left: usize| left.checked_sub(1);
        let passed = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        passed.map_err(|_| "the operator was killed")?;
        Ok(())
    }

    /// The answer, if there is one, to a request that this happens to.
    async fn suffer<R, F>(&self, fault: Fault, response: F) -> Result<Response<Body>, BoxError>
    where
        R: HttpBody<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
        F: Future<Output = Result<Response<R>, BoxError>> + Send + 'static,
    {
        match fault {
            Fault::Conflict => return Ok(refusal(409, "Conflict")),
            Fault::Unknown => return Ok(refusal(404, "NotFound")),
            Fault::Failure => return Ok(refusal(500, "InternalError")),
            Fault::Forbidden => return Ok(refusal(403, "Forbidden")),
            Fault::Slow(after) => {
                let answer = response.await?;
                tokio::time::sleep(after).await;
                return Ok(answer.map(Body::new));
            }
            Fault::Lost => drop(response.await),
            Fault::Late(after) => {
                let late = self.late.clone();
                late.fetch_add(1, Ordering::SeqCst);
                // Not joined: it ends when the write has landed, which `is_awaited` tells.
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    drop(response.await);
                    late.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
        Err("no answer came in time".into())
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

impl<S, B, R> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
    S::Future: Send + 'static,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gate = self.gate.clone();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|part| part == "watch=true");
        // It is sent when it is first waited for.
        let response = self.inner.call(request);
        Box::pin(async move {
            if watches {
                let course = gate.faults().of_watch(&path);
                return course.of(response).await;
            }
            let fault = if method == Method::GET {
                gate.faults().of_read(&path)
            } else {
                gate.pass().await?;
                gate.faults().of_write(&method, &path)
            };
            match fault {
                Some(fault) => gate.suffer(fault, response).await,
                None => Ok(response.await?.map(Body::new)),
            }
        })
    }
}
