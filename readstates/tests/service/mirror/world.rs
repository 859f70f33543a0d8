//! A small old system, a gate in front of a member, and the mirror between callers and both.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use rustix::process::{Pid, Signal, kill_process};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    common::{PATIENCE, Running, client},
    process,
};

/// The requests of the old system, and what they are.
pub(super) const ROUTES: &str = "\
shape:
  whole: {by: ours, read_states: '{states}'}
  each: {id: '{channel}', last: '{message}', count: '{mentions}'}
routes:
  - {request: 'GET /users/{user}/states', does: read}
  - {request: 'GET /open/{user}/states', does: read, login: none}
  - {request: 'POST /channels/{channel}/messages/{message}/ack', does: ack, user: header X-User}
  - request: PUT /channels/{channel}/unread
    does: ack-manual
    user: header X-User
    message: body /to
    mentions: body /count
  - {request: POST /mentions, does: mention, users: body /users, channel: body /channel, message: body /message}
  - {request: 'DELETE /users/{user}/{channel}', does: delete}
  - {request: GET /states, does: read, user: query user}
  - {request: POST /acks, does: ack, user: body /user, channel: body /channel, message: body /message}
";

const POLL: Duration = Duration::from_millis(10);

/// A request as a server has received it.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Serves until the set of tasks is dropped.
async fn serve<F, A>(answer: F) -> (SocketAddr, JoinSet<()>)
where
    F: Fn(Received) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let received = Received {
                        method: parts.method,
                        target: parts.uri.to_string(),
                        headers: parts.headers,
                        // A caller that has left gets no answer.
                        body: body
                            .collect()
                            .await
                            .map(|body| body.to_bytes())
                            .unwrap_or_default(),
                    };
                    Ok::<_, Infallible>(answer(received).await)
                }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            connections.spawn(async move {
                // Connections end as callers like.
                let _ = connection.await;
            });
        }
    });
    (address, tasks)
}

/// What speaks TLS with a certificate and its key, and passes everything on to a URL: as what, until the set of tasks is
/// dropped.
pub(super) async fn behind_tls(
    url: &str,
    (certificate, key): &(String, String),
) -> (String, JoinSet<()>) {
    let certificates = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let address = url.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, address) = (acceptor.clone(), address.clone());
            connections.spawn(async move {
                // Who does not trust the certificate leaves.
                if let Ok(mut secret) = acceptor.accept(socket).await {
                    let mut plain = TcpStream::connect(address).await.unwrap();
                    let _ = copy_bidirectional(&mut secret, &mut plain).await;
                }
            });
        }
    });
    (format!("https://localhost:{port}"), tasks)
}

type Channels = BTreeMap<u64, (u64, u64)>;

/// What the old system has: for each user and channel the last message and the count.
pub(super) struct Old {
    pub(super) users: Mutex<BTreeMap<u64, Channels>>,
    pub(super) received: Mutex<Vec<Received>>,
    /// Instead of an answer; 0: none.
    pub(super) fails_with: AtomicU16,
    /// Writes are received, and nothing is done until this is false.
    pub(super) hangs: AtomicBool,
    pub(super) url: String,
    _tasks: JoinSet<()>,
}

impl Old {
    pub(super) async fn start() -> Arc<Self> {
        let cell: Arc<Mutex<Option<Arc<Self>>>> = Arc::default();
        let of = Arc::clone(&cell);
        let (address, tasks) = serve(move |received| {
            let old = of.lock().unwrap().clone().unwrap();
            async move {
                old.received.lock().unwrap().push(received.clone());
                while received.method != Method::GET && old.hangs.load(Ordering::SeqCst) {
                    sleep(POLL).await;
                }
                old.answer(received)
            }
        })
        .await;
        let old = Arc::new(Self {
            users: Mutex::default(),
            received: Mutex::default(),
            fails_with: AtomicU16::new(0),
            hangs: AtomicBool::new(false),
            url: format!("http://{address}"),
            _tasks: tasks,
        });
        *cell.lock().unwrap() = Some(Arc::clone(&old));
        old
    }

    pub(super) fn set(&self, user: u64, channel: u64, message: u64, count: u64) {
        let mut users = self.users.lock().unwrap();
        users
            .entry(user)
            .or_default()
            .insert(channel, (message, count));
    }

    fn ack(&self, user: u64, channel: u64, message: u64) {
        let mut users = self.users.lock().unwrap();
        let channels = users.entry(user).or_default();
        let state = channels.entry(channel).or_default();
        if message > state.0 {
            *state = (message, 0);
        }
    }

    fn answer(&self, received: Received) -> Response<Full<Bytes>> {
        let failure = self.fails_with.load(Ordering::SeqCst);
        if failure != 0 {
            return answer(failure, "failed");
        }
        let path = received.target.split('?').next().unwrap();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let number = |text: &str| text.parse::<u64>().unwrap();
        // Of what is there twice it takes the last.
        let user = || {
            let last = received.headers.get_all("x-user").iter().next_back();
            number(last.unwrap().to_str().unwrap())
        };
        let body = || serde_json::from_slice::<Value>(&received.body).unwrap();
        match (received.method.as_str(), segments.as_slice()) {
            ("GET", ["states"]) => {
                let url = Url::parse(&format!("http://old{}", received.target)).unwrap();
                let user = url.query_pairs().filter(|(key, _)| key == "user").last();
                answer(200, &self.states(number(&user.unwrap().1)).to_string())
            }
            ("GET", ["users" | "open", user, "states"]) => {
                if received
                    .headers
                    .get("x-login")
                    .is_some_and(|login| login == "no")
                {
                    return answer(401, "who are you?");
                }
                let mut answer = answer(200, &self.states(number(user)).to_string());
                answer.headers_mut().insert("x-old", "yes".parse().unwrap());
                answer
                    .headers_mut()
                    .insert("etag", "\"old\"".parse().unwrap());
                answer
            }
            ("POST", ["channels", channel, "messages", message, "ack"]) => {
                self.ack(user(), number(channel), number(message));
                answer(204, "")
            }
            ("POST", ["acks"]) => {
                let body = body();
                let number = |key: &str| body[key].as_u64().unwrap();
                self.ack(number("user"), number("channel"), number("message"));
                answer(204, "")
            }
            ("PUT", ["channels", channel, "unread"]) => {
                let body = body();
                let count = body["count"].as_u64().unwrap_or(0);
                self.set(
                    user(),
                    number(channel),
                    number(body["to"].as_str().unwrap()),
                    count,
                );
                answer(200, "set")
            }
            ("POST", ["mentions"]) => {
                let (body, mut users) = (body(), self.users.lock().unwrap());
                for user in body["users"].as_array().unwrap() {
                    let channels = users.entry(user.as_u64().unwrap()).or_default();
                    channels
                        .entry(body["channel"].as_u64().unwrap())
                        .or_default()
                        .1 += 1;
                }
                answer(202, "counted")
            }
            ("DELETE", ["users", user, channel]) => {
                let mut users = self.users.lock().unwrap();
                users
                    .entry(number(user))
                    .or_default()
                    .remove(&number(channel));
                answer(200, "gone")
            }
            _ => {
                let mut answer = answer(207, "");
                *answer.body_mut() = Full::new(received.body);
                answer.headers_mut().insert("x-echo", path.parse().unwrap());
                answer
                    .headers_mut()
                    .insert("keep-alive", "timeout=5".parse().unwrap());
                answer
            }
        }
    }

    fn states(&self, user: u64) -> Value {
        let users = self.users.lock().unwrap();
        let channels = users.get(&user).into_iter().flatten();
        let states = channels.map(|(channel, (message, count))| {
            let last = (*message != 0).then(|| message.to_string());
            json!({"id": channel.to_string(), "last": last, "count": count})
        });
        json!({"by": "old", "read_states": states.collect::<Vec<_>>()})
    }
}

fn answer(status: u16, body: &str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(body.to_owned()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

/// What a gate does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Gate {
    Open,
    /// It answers that nobody is there.
    Closed,
    /// Writes wait before it until it is something else.
    Held,
}

/// A gate in front of a member.
pub(super) struct Ours {
    gate: Arc<AtomicU8>,
    /// What has gone through it.
    pub(super) received: Arc<Mutex<Vec<Received>>>,
    pub(super) url: String,
    _tasks: JoinSet<()>,
}

impl Ours {
    pub(super) async fn start(member: &Running) -> Self {
        let gate = Arc::new(AtomicU8::new(Gate::Open as u8));
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (at, all, to) = (Arc::clone(&gate), Arc::clone(&received), member.url(""));
        let passing = client();
        let (address, tasks) = serve(move |request| {
            let (at, all) = (Arc::clone(&at), Arc::clone(&all));
            let (passing, url) = (passing.clone(), format!("{to}{}", request.target));
            async move {
                while request.method != Method::GET && at.load(Ordering::SeqCst) == Gate::Held as u8
                {
                    sleep(POLL).await;
                }
                if at.load(Ordering::SeqCst) == Gate::Closed as u8 {
                    return answer(503, "nobody is there");
                }
                all.lock().unwrap().push(request.clone());
                let sent = passing
                    .request(request.method, url)
                    .headers(request.headers);
                let answered = sent.body(request.body).send().await.unwrap();
                let mut response = Response::new(Full::default());
                *response.status_mut() = answered.status();
                *response.headers_mut() = answered.headers().clone();
                *response.body_mut() = Full::new(answered.bytes().await.unwrap());
                response
            }
        })
        .await;
        Self {
            gate,
            received,
            url: format!("http://{address}"),
            _tasks: tasks,
        }
    }

    pub(super) fn set(&self, gate: Gate) {
        self.gate.store(gate as u8, Ordering::SeqCst);
    }
}

/// The mirror; killed when dropped.
pub(super) struct Mirroring {
    child: Child,
    pub(super) url: String,
    watch: String,
    pub(super) folder: TempDir,
    client: reqwest::Client,
}

impl Drop for Mirroring {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn routes_file(folder: &Path, routes: &str) -> String {
    let file = folder.join("routes.yaml");
    std::fs::write(&file, routes).unwrap();
    file.display().to_string()
}

impl Mirroring {
    pub(super) fn start(old: &str, ours: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let routes = routes_file(folder.path(), ROUTES);
        let differences = folder
            .path()
            .join("differences.ndjson")
            .display()
            .to_string();
        let any = "127.0.0.1:0";
        let fixed = [
            "mirror", "--listen", any, "--watch", any, "--old", old, "--url", ours,
        ];
        let files = [
            "--routes",
            &routes,
            "--differences",
            &differences,
            "--pause",
            "100ms",
        ];
        let arguments = [&fixed[..], &files, more].concat();
        let mut command = process::program(&arguments);
        let (child, event, _) = process::start(command.stdout(Stdio::piped()));
        let url = |of: &str| format!("http://{}", event[of].as_str().unwrap());
        Self {
            child,
            url: url("listen"),
            watch: url("watch"),
            folder,
            client: client(),
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// (status, body) of a read.
    pub(super) async fn read(&self, path: &str) -> (u16, Value) {
        let answer = self.request(Method::GET, path).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    pub(super) async fn ack(&self, user: u64, channel: u64, message: u64) {
        let path = format!("/channels/{channel}/messages/{message}/ack");
        let request = self.request(Method::POST, &path).header("x-user", user);
        assert_eq!(request.send().await.unwrap().status(), 204);
    }

    /// A number of the page for Prometheus.
    pub(super) async fn metric(&self, name: &str) -> u64 {
        let page = self
            .client
            .get(format!("{}/metrics", self.watch))
            .send()
            .await
            .unwrap();
        let page = page.text().await.unwrap();
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("{name} is not in {page}"));
        value.parse().unwrap()
    }

    /// Waits until a number is at least this.
    pub(super) async fn until(&self, name: &str, least: u64) {
        let begun = Instant::now();
        loop {
            let value = self.metric(name).await;
            if value >= least {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{name} is {value} and not {least}"
            );
            sleep(POLL).await;
        }
    }

    /// Waits until nothing is on its way to the service.
    pub(super) async fn settled(&self) {
        let begun = Instant::now();
        while self.metric("readstates_mirror_queue_length").await > 0 {
            assert!(begun.elapsed() < PATIENCE, "writes are still on their way");
            sleep(POLL).await;
        }
    }

    /// Asks it to stop: (status, standard output).
    pub(super) fn stop(mut self) -> (i32, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut out = self.child.stdout.take().unwrap();
        let text = std::io::read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code().unwrap(), text)
    }
}
