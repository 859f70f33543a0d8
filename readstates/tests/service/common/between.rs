//! A proxy in front of a member's port for members, which holds, refuses or cuts what another member sends there.

use std::{
    convert::Infallible,
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
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
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

use super::{PATIENCE, client};

/// Where members take frames of forwarded requests.
pub const FRAMES: &str = "/internal/v1/singles";

/// What it does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Passes it on.
    Open,
    /// Passes it on, but for frames, as if there was nothing at their path.
    Older,
    /// Passes a frame on, and breaks off after the first answer to it.
    Cuts,
}

/// A request that it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub path: String,
    /// Of a frame: the users of its requests.
    pub users: Vec<u64>,
}

#[derive(Debug)]
pub struct Between {
    pub url: String,
    member: OnceLock<SocketAddr>,
    mood: Mutex<Mood>,
    seen: Mutex<Vec<Seen>>,
    /// Closed while frames are held.
    gate: Semaphore,
    client: Client,
}

impl Between {
    pub async fn start() -> Arc<Self> {
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
                    async move { Ok::<_, Infallible>(between.answer(request).await) }
                });
                let socket = TokioIo::new(socket);
                tokio::spawn(http1::Builder::new().serve_connection(socket, service));
            }
        });
        between
    }

    pub fn leads_to(&self, member: SocketAddr) {
        self.member.set(member).unwrap();
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// Holds frames from now on.
    pub fn hold(&self) {
        let taken = self.gate.forget_permits(Semaphore::MAX_PERMITS);
        assert_eq!(taken, Semaphore::MAX_PERMITS, "frames are under way");
    }

    pub fn let_go(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    /// The users of each frame, since the last time.
    pub fn frames(&self) -> Vec<Vec<u64>> {
        let seen = self.take_seen().into_iter();
        let frames = seen.filter(|seen| seen.path == FRAMES);
        frames.map(|seen| seen.users).collect()
    }

    /// What it was sent, since the last time.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Waits until it was sent so many.
    pub async fn until_sent(&self, many: usize) {
        let started = Instant::now();
        while self.seen.lock().unwrap().len() < many {
            assert!(started.elapsed() < PATIENCE, "{:?}", self.seen);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path().to_owned();
        let is_frame = path == FRAMES;
        let users = if is_frame { users(&body) } else { Vec::new() };
        // Members also speak of slots.
        if path != "/internal/v1/handoff" {
            self.seen.lock().unwrap().push(Seen { path, users });
        }
        let mood = *self.mood.lock().unwrap();
        let mut path = parts.uri.path_and_query().unwrap().as_str().to_owned();
        if is_frame {
            let _permit = self.gate.acquire().await.unwrap();
            if mood == Mood::Older {
                path = path.replace(FRAMES, "/internal/v1/unheard-of");
            }
        }
        parts.headers.remove("host");
        let url = format!("http://{}{path}", self.member.get().unwrap());
        let sent = self
            .client
            .request(parts.method, url)
            .headers(parts.headers);
        let answer = sent.body(body).send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = if is_frame && mood == Mood::Cuts {
            let answers = answer.bytes().await.unwrap();
            let first = 4 + u32::from_le_bytes(*answers.first_chunk().unwrap()) as usize;
            let broken = io::Error::other("the member dies");
            let parts = [Ok(Frame::data(answers.slice(..first))), Err(broken)];
            // In two pieces: the first is on its way when the second breaks off.
            let parts = stream::iter(parts).then(|part| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                part
            });
            BodyExt::boxed_unsync(StreamBody::new(parts))
        } else {
            let parts = answer.bytes_stream();
            let parts = parts.map(|part| part.map(Frame::data).map_err(io::Error::other));
            BodyExt::boxed_unsync(StreamBody::new(parts))
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().remove("content-length");
        response.headers_mut().remove("transfer-encoding");
        response
    }
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
pub struct Detour {
    ring: Arc<dyn RingStore>,
    member: &'static str,
    url: String,
}

impl Detour {
    pub fn new(ring: &Arc<dyn RingStore>, member: &'static str, between: &Between) -> Arc<Self> {
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
