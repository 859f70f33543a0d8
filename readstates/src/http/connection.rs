//! Timeouts of one connection: clients that are slow hold neither memory nor a place for ever.
//!
//! Comes in: the bytes of a socket on their way to and from hyper. Goes out: the same bytes, or
//! `TimedOut`, which ends the connection.
//!
//! ```text
//!        first byte           head is complete            answer is made
//! Idle ─────────────▶ Head ────────────────────▶ Busy ─────────────────▶ Idle
//!  idle_timeout        header_timeout             (the body has its own)
//!
//! writing: answer_timeout from the first byte that did not fit until all have
//! ```
//!
//! A request that comes and goes at once costs three looks at the clock. The one timer of a connection
//! is only moved when a client makes it wait.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use crate::limits::Limits;

/// Bytes of an answer, head and all, that is copied to be sent in one piece.
const SMALL_ANSWER: usize = 1024;

/// Busy for as long as the handler takes: nothing to be impatient with.
const BUSY: u64 = 0;

/// Which part of its life a connection is in, as the handler tells the socket.
#[derive(Debug)]
pub(super) struct Phase {
    began: Instant,
    /// [`BUSY`], or since when the connection is idle: nanoseconds after it began, plus 1.
    idle_since: AtomicU64,
}

impl Phase {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            idle_since: AtomicU64::new(1),
        })
    }

    /// A request has come.
    pub(super) fn busy(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
    }

    /// Its answer is made.
    pub(super) fn idle(&self) {
        let since = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        self.idle_since.store(since + 1, Ordering::Relaxed);
    }

    /// Since when the connection waits for a request, if it does.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        match self.idle_since.load(Ordering::Relaxed) {
            BUSY => None,
            since => Some(self.began + Duration::from_nanos(since - 1)),
        }
    }
}

/// A socket whose reads and writes time out.
#[derive(Debug)]
pub(super) struct TimedSocket<S> {
    socket: S,
    phase: Arc<Phase>,
    idle_timeout: Duration,
    header_timeout: Duration,
    answer_timeout: Duration,
    /// (Since when the connection was idle before, when the first byte of a head came.)
    head: Option<(Instant, Instant)>,
    reading: Timer,
    writing: Timer,
}

/// One timer, made when it is first needed.
type Timer = Option<Pin<Box<Sleep>>>;

impl<S> TimedSocket<S> {
    pub(super) fn new(socket: S, phase: Arc<Phase>, limits: &Limits) -> Self {
        Self {
            socket,
            phase,
            idle_timeout: limits.idle_timeout,
            header_timeout: limits.header_timeout,
            answer_timeout: limits.answer_timeout,
            head: None,
            reading: None,
            writing: None,
        }
    }

    /// When the client must have sent more, if it must.
    fn read_deadline(&mut self) -> Option<Instant> {
        let idle_since = self.phase.idle_since()?;
        match self.head {
            Some((before, began)) if before == idle_since => Some(began + self.header_timeout),
            Some(_) | None => Some(idle_since + self.idle_timeout),
        }
    }

    /// Bytes have come: of a head, if no request is being handled.
    fn has_read(&mut self) {
        if let Some(idle_since) = self.phase.idle_since()
            && self.head.is_none_or(|(before, _)| before != idle_since)
        {
            self.head = Some((idle_since, Instant::now()));
        }
    }

    /// Nothing has come. Ready when it is too late for that.
    fn poll_too_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // While a request is handled nothing is late, but the timer goes on: hyper does not look again
        // when the answer is made.
        let due = self.read_deadline();
        let deadline = due.unwrap_or_else(|| Instant::now() + self.idle_timeout);
        let timer = self
            .reading
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        // A timer that goes off too early is moved then; only one that would be late is moved now.
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            if due.is_some_and(|due| Instant::now() >= due) {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// What a write came to: an error when the client has been reading for too long.
    fn patiently<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let timeout = self.answer_timeout;
        let timer = self
            .writing
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + timeout)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(timed_out("the client does not read its answer")))
    }
}

/// The slices one behind the other, where there are any and they fit.
fn gathered<'a>(slices: &[io::IoSlice<'_>], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut end = 0;
    for slice in slices {
        room.get_mut(end..end + slice.len())?.copy_from_slice(slice);
        end += slice.len();
    }
    room.get(..end).filter(|bytes| !bytes.is_empty())
}

fn timed_out(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.socket).poll_read(context, buffer) {
            Poll::Ready(outcome) => {
                this.has_read();
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                ready!(this.poll_too_late(context));
                Poll::Ready(Err(timed_out("the client sends no request")))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write(context, bytes);
        this.patiently(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut whole = [0; SMALL_ANSWER];
        // A head and a small body are sent faster as one piece than as two.
        let written = match gathered(slices, &mut whole) {
            Some(bytes) => Pin::new(&mut this.socket).poll_write(context, bytes),
            None => Pin::new(&mut this.socket).poll_write_vectored(context, slices),
        };
        this.patiently(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // hyper flushes when everything it had was taken: the patience for the next answer is new.
        this.writing = None;
        Pin::new(&mut this.socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut this.socket).poll_shutdown(context);
        this.patiently(context, closed)
    }
}
