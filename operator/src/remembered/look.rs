//! The client of one look: it asks the API server and keeps the answers, or answers with those that were kept.

use std::{
    collections::HashMap,
    future::Future,
    mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use readstates_operator_api::labels;
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::Instant;
use tower::service_fn;

use super::OF_OTHERS;

/// The key of a password in a Secret.
pub(super) const PASSWORD: &str = "password";
/// Bytes of answers that are kept of one look: a cluster of two racks has a tenth.
const LARGEST: usize = 2 << 20;
/// Of compression: there are answers for each of hundreds of clusters, and they are read every 15 seconds.
const LEVEL: i32 = 1;

/// Answers of the API server at one whole look.
#[derive(Debug)]
pub(super) struct Answers {
    /// All bodies, compressed as one: the objects of a cluster repeat each other.
    packed: Vec<u8>,
    /// Bytes of all bodies.
    length: usize,
    /// By path and query.
    index: Mutex<HashMap<String, Remembered>>,
}

#[derive(Clone, Debug)]
struct Remembered {
    status: StatusCode,
    /// Its place among all bodies.
    body: Range<usize>,
    /// Whether it may change without an event that tells.
    of_others: bool,
    read_at: Instant,
}

/// One look at a cluster. Clones are of the same look.
#[derive(Clone)]
pub(crate) struct Look {
    client: Client,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// It asks, and keeps nothing.
    Plain,
    Whole {
        kept: Arc<Mutex<Kept>>,
        /// Events of the cluster before it began.
        events: u64,
    },
    Quiet(Arc<Answers>, Arc<Vec<u8>>),
}

#[derive(Debug, Default)]
struct Kept {
    index: HashMap<String, Remembered>,
    bodies: Vec<u8>,
    /// Something was written, or could not be read: what is kept is no whole.
    spoiled: bool,
}

impl Look {
    pub(super) fn plain(client: Client) -> Self {
        let kind = Kind::Plain;
        Self { client, kind }
    }

    pub(super) fn whole(client: Client, events: u64) -> Self {
        let kept = Arc::default();
        let kind = Kind::Whole { kept, events };
        Self { client, kind }
    }

    pub(super) fn quiet(client: Client, answers: Arc<Answers>) -> Option<Self> {
        let bodies = zstd::bulk::decompress(&answers.packed, answers.length).ok()?;
        let kind = Kind::Quiet(answers, Arc::new(bodies));
        Some(Self { client, kind })
    }

    /// The client to look with. At a quiet look, what is not remembered and every write fail.
    pub(crate) fn client(&self) -> Client {
        match &self.kind {
            Kind::Plain => self.client.clone(),
            Kind::Whole { kept, .. } => {
                let (client, kept) = (self.client.clone(), Arc::clone(kept));
                self.through(move |request| ask(client.clone(), Arc::clone(&kept), request))
            }
            Kind::Quiet(answers, bodies) => {
                let client = self.client.clone();
                let (answers, bodies) = (Arc::clone(answers), Arc::clone(bodies));
                self.through(move |request| {
                    let (answers, bodies) = (Arc::clone(&answers), Arc::clone(&bodies));
                    remember(client.clone(), answers, bodies, request)
                })
            }
        }
    }

    fn through<F, A>(&self, answer: F) -> Client
    where
        F: FnMut(Request<Body>) -> A + Send + 'static,
        A: Future<Output = kube::Result<Response<Body>>> + Send + 'static,
    {
        Client::new(service_fn(answer), self.client.default_namespace())
    }

    /// All answers of a whole look, and the events before it, if it has written nothing and read everything.
    pub(super) fn answers(&self) -> Option<(Answers, u64)> {
        let Kind::Whole { kept, events } = &self.kind else {
            return None;
        };
        let mut kept = lock(kept);
        if kept.spoiled {
            return None;
        }
        let mut packed = zstd::bulk::compress(&kept.bodies, LEVEL).ok()?;
        // It has room for what does not compress.
        packed.shrink_to_fit();
        let answers = Answers {
            packed,
            length: kept.bodies.len(),
            index: Mutex::new(mem::take(&mut kept.index)),
        };
        Some((answers, *events))
    }
}

/// Asks, and keeps the answer.
async fn ask(
    client: Client,
    kept: Arc<Mutex<Kept>>,
    request: Request<Body>,
) -> kube::Result<Response<Body>> {
    let Some(url) = read_of(&request) else {
        lock(&kept).spoiled = true;
        return client.send(request).await;
    };
    let answered = send(&client, request).await;
    let mut kept = lock(&kept);
    match &answered {
        Ok((status, body)) if status.is_success() || *status == StatusCode::NOT_FOUND => {
            kept.add(url, *status, body);
        }
        Ok(_) | Err(_) => kept.spoiled = true,
    }
    answered.map(response)
}

/// Answers a read with what is remembered.
async fn remember(
    client: Client,
    answers: Arc<Answers>,
    bodies: Arc<Vec<u8>>,
    request: Request<Body>,
) -> kube::Result<Response<Body>> {
    let url = read_of(&request).ok_or_else(|| not_quiet("it is a write"))?;
    let known = lock(&answers.index).get(&url).cloned();
    let known = known.ok_or_else(|| not_quiet("it is not remembered"))?;
    let body = &bodies[known.body];
    if known.of_others && known.read_at.elapsed() >= OF_OTHERS {
        let (status, now) = send(&client, request).await?;
        if (status, now.as_slice()) != (known.status, body) {
            return Err(not_quiet("it has changed"));
        }
        if let Some(answer) = lock(&answers.index).get_mut(&url) {
            answer.read_at = Instant::now();
        }
    }
    Ok(response((known.status, body.to_vec())))
}

/// Path and query of a request that only reads.
fn read_of(request: &Request<Body>) -> Option<String> {
    let reads = request.method() == Method::GET;
    let uri = request.uri();
    reads.then(|| {
        uri.path_and_query()
            .map_or_else(String::new, ToString::to_string)
    })
}

async fn send(client: &Client, request: Request<Body>) -> kube::Result<(StatusCode, Vec<u8>)> {
    let response = client.send(request).await?;
    let status = response.status();
    let body = response.into_body().collect_bytes().await?;
    Ok((status, body.into()))
}

fn response((status, body): (StatusCode, Vec<u8>)) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
}

/// Never shown: a whole look follows.
fn not_quiet(why: &'static str) -> kube::Error {
    kube::Error::Service(why.into())
}

impl Kept {
    fn add(&mut self, url: String, status: StatusCode, body: &[u8]) {
        let start = self.bodies.len();
        if start + body.len() > LARGEST {
            self.spoiled = true;
            return;
        }
        self.bodies.extend_from_slice(body);
        let answer = Remembered {
            status,
            body: start..self.bodies.len(),
            of_others: of_others(&url, body),
            read_at: Instant::now(),
        };
        self.index.insert(url, answer);
    }
}

/// Whether others write this: Secrets and ConfigMaps that are not the operator's own, and logins, which are the
/// user's to change.
fn of_others(url: &str, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Object {
        #[serde(default)]
        metadata: Metadata,
        #[serde(default)]
        data: HashMap<String, IgnoredAny>,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        labels: HashMap<String, String>,
    }
    if !url.contains("/secrets/") && !url.contains("/configmaps/") {
        return false;
    }
    serde_json::from_slice::<Object>(body).map_or(true, |object| {
        !object.metadata.labels.contains_key(labels::CLUSTER) || object.data.contains_key(PASSWORD)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
