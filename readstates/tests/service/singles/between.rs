//! A proxy in front of a member's port for members, which holds, refuses or cuts what another member sends there.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use readstates::ownership::store::{
    Presence, RingStore, RingStoreError, Swapped, Version, Versioned,
};
use readstates_ring::{Incarnation, RingTable};
use reqwest::Client;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::common::{PATIENCE, client};

/// Where members take frames of forwarded requests.
pub(super) const FRAMES: &str = "/internal/v1/singles";

/// What it does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// Passes it on.
    Open,
    /// Passes it on, but for frames, as if there was nothing at their path.
    Older,
    /// Passes a frame on, and breaks off after the first answer to it.
    Cuts,
    /// Passes a frame on, and ends in the middle of the second answer to it as if that was all.
    Halves,
    /// Passes a frame on, and answers with bytes that are no answers.
    Garbles,
    /// Passes a frame on, and breaks off when the answers come.
    Dies,
}

type Passed = UnsyncBoxBody<Bytes, io::Error>;

/// A request that it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) path: String,
    /// Of a frame: the users of its requests.
    pub(super) users: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Between {
    pub(super) url: String,
    member: OnceLock<SocketAddr>,
    mood: Mutex<Mood>,
    seen: Mutex<Vec<Seen>>,
    /// Closed while frames are held.
    gate: Semaphore,
    client: Client,
}

impl Between {
    pub(super) async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between = Arc::new(Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            member: OnceLock::new(),
            mood: Mutex::new(Mood::Open),
            seen: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            client: client(),
        });
        let accepting = Arc::clone(&between);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let between = Arc::clone(&accepting);
                let service = service_fn(move |request| {
                    let between = Arc::clone(&between);
                    async move { between.answer(request).await }
                });
                let socket = TokioIo::new(socket);
                tokio::spawn(http1::Builder::new().serve_connection(socket, service));
            }
        });
        between
    }

    pub(super) fn leads_to(&self, member: SocketAddr) {
        self.member.set(member).unwrap();
    }

    pub(super) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// Holds frames from now on.
    pub(super) fn hold(&self) {
        let taken = self.gate.forget_permits(Semaphore::MAX_PERMITS);
        assert_eq!(taken, Semaphore::MAX_PERMITS, "frames are under way");
    }

    pub(super) fn let_go(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    /// The users of each frame, since the last time.
    pub(super) fn frames(&self) -> Vec<Vec<u64>> {
        let seen = self.take_seen().into_iter();
        let frames = seen.filter(|seen| seen.path == FRAMES);
        frames.map(|seen| seen.users).collect()
    }

    /// What it was sent, since the last time.
    pub(super) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Waits until it was sent so many.
    pub(super) async fn until_sent(&self, many: usize) {
        let started = Instant::now();
        while self.seen.lock().unwrap().len() < many {
            assert!(started.elapsed() < PATIENCE, "{:?}", self.seen);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Passed>> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = parts.uri.path().to_owned();
        let is_frame = path == FRAMES;
        let users = if is_frame { users(&body) } else { Vec::new() };
        // Members also speak of slots.
        if path != "/internal/v1/handoff" {
            self.seen.lock().unwrap().push(Seen { path, users });
        }
        let mut path = parts.uri.path_and_query().unwrap().as_str().to_owned();
        let mut mood = Mood::Open;
        if is_frame {
            let _permit = self.gate.acquire().await.unwrap();
            mood = *self.mood.lock().unwrap();
        }
        if mood == Mood::Older {
            path = path.replace(FRAMES, "/internal/v1/unheard-of");
        }
        parts.headers.remove("host");
        let url = format!("http://{}{path}", self.member.get().unwrap());
        let sent = self
            .client
            .request(parts.method, url)
            .headers(parts.headers);
        let answer = sent.body(body).send().await.map_err(io::Error::other)?;
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        headers.remove("transfer-encoding");
        if ![Mood::Open, Mood::Older].contains(&mood) {
            headers.remove("content-length");
        }
        let mut response = Response::new(altered(mood, answer).await?);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The body of an answer in this mood.
async fn altered(mood: Mood, answer: reqwest::Response) -> io::Result<Passed> {
    let whole = |bytes: Bytes| {
        let bytes = Full::new(bytes);
        BodyExt::boxed_unsync(bytes.map_err(|never| match never {}))
    };
    if matches!(mood, Mood::Open | Mood::Older) {
        let parts = answer.bytes_stream();
        let parts = parts.map(|part| part.map(Frame::data).map_err(io::Error::other));
        return Ok(BodyExt::boxed_unsync(StreamBody::new(parts)));
    }
    let answers = answer.bytes().await.map_err(io::Error::other)?;
    let first = 4 + u32::from_le_bytes(*answers.first_chunk().unwrap()) as usize;
    Ok(match mood {
        Mood::Open | Mood::Older | Mood::Dies => return Err(io::Error::other("the member dies")),
        Mood::Halves => whole(answers.slice(..(first + 20).min(answers.len()))),
        Mood::Garbles => whole(Bytes::from_static(&[0xff; 64])),
        Mood::Cuts => {
            let broken = io::Error::other("the member dies");
            let parts = [Ok(Frame::data(answers.slice(..first))), Err(broken)];
            // In two pieces: the first is on its way when the second breaks off.
            let parts = stream::iter(parts).then(|part| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                part
            });
            BodyExt::boxed_unsync(StreamBody::new(parts))
        }
    })
}

/// The users of the requests in a frame.
fn users(frame: &[u8]) -> Vec<u64> {
    let number = |at: usize, bytes: usize| {
        let bytes = frame[at..at + bytes].iter().rev();
        bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (mut at, mut users) = (4, Vec::new());
    for _ in 0..number(0, 4) {
        let (headers, body) = (frame[at + 5], number(at + 6, 2) as usize);
        users.push(number(at + 8, 8));
        at += 24;
        for _ in 0..headers {
            at += 3 + number(at + 1, 2) as usize;
        }
        at += body;
    }
    assert_eq!(at, frame.len());
    users
}

/// The ring store as a member sees it that reaches another one through a proxy.
#[derive(Debug)]
pub(super) struct Detour {
    ring: Arc<dyn RingStore>,
    member: &'static str,
    url: String,
}

impl Detour {
    pub(super) fn new(
        ring: &Arc<dyn RingStore>,
        member: &'static str,
        between: &Between,
    ) -> Arc<Self> {
        Arc::new(Self {
            ring: Arc::clone(ring),
            member,
            url: between.url.clone(),
        })
    }
}

impl RingStore for Detour {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        self.ring.get()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        self.ring.compare_and_swap(expected, next)
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        self.ring.watch()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ring.renew(presence)
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        async {
            let mut presences = self.ring.presences().await?;
            for presence in &mut presences {
                if presence.name == self.member {
                    presence.members = Some(self.url.clone());
                }
            }
            Ok(presences)
        }
        .boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ring.forget(incarnation)
    }

    fn clock_ahead(&self) -> Option<i64> {
        self.ring.clock_ahead()
    }
}
