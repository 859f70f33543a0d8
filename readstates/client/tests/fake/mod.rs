//! A member that does what a test tells it: answers, refuses, waits, hangs up. Real sockets, HTTP/1.1 as far
//! as the client speaks it.

#![allow(dead_code, reason = "each test binary uses its part of it")]
#![allow(unreachable_pub, reason = "shared between test binaries")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use readstates_api::{Problem, ProblemType, RingDocument, RingMember, headers};
use readstates_ring::{HASH_NAME, SLOTS};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    pub at: Instant,
}

/// What to do with it.
#[derive(Debug, Clone)]
pub enum Reply {
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Read the request, then close the connection.
    HangUp,
    /// Wait, then do this.
    After(Duration, Box<Reply>),
    /// Never answer.
    Silence,
}

type Handler = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A member of the test's making; gone when dropped.
pub struct Fake {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    /// The most requests that were under way at once.
    pub most_at_once: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Fake {
    pub async fn start(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, handler)
    }

    pub fn on(
        listener: TcpListener,
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let most_at_once = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            handler: Arc::new(handler),
            asked: Arc::clone(&asked),
            at_once: Arc::new(AtomicUsize::new(0)),
            most_at_once: Arc::clone(&most_at_once),
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(shared.clone().serve(stream));
            }
        });
        Self {
            url,
            asked,
            most_at_once,
            _task: task,
        }
    }

    /// Requests whose path starts so.
    pub fn asked(&self, prefix: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|one| one.path.starts_with(prefix))
            .cloned()
            .collect()
    }
}

#[derive(Clone)]
struct Shared {
    handler: Arc<Handler>,
    asked: Arc<Mutex<Vec<Asked>>>,
    at_once: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
}

impl Shared {
    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(asked) = read(&mut stream).await {
            self.asked.lock().unwrap().push(asked.clone());
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            let mut reply = (self.handler)(&asked);
            while let Reply::After(pause, next) = reply {
                tokio::time::sleep(pause).await;
                reply = *next;
            }
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            match reply {
                Reply::Answer {
                    status,
                    headers,
                    body,
                } => {
                    let mut text =
                        format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
                    for (name, value) in headers {
                        text += &format!("{name}: {value}\r\n");
                    }
                    text += "\r\n";
                    let mut bytes = text.into_bytes();
                    bytes.extend(body);
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Reply::HangUp => return,
                Reply::Silence | Reply::After(..) => std::future::pending().await,
            }
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .await
        .ok()
        .filter(|&count| count > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked {
        method,
        path,
        headers,
        body,
        at: Instant::now(),
    })
}

impl Asked {
    pub fn is_direct(&self) -> bool {
        self.headers
            .get(headers::DIRECT)
            .is_some_and(|value| value == "1")
    }
}

impl Reply {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Answer {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Everything the client may ask about a user, answered as an acknowledgement.
    pub fn acked() -> Self {
        let state = r#"{"channel_id":"2","last_message_id":"3","mention_count":0,"flags":0,"last_viewed":0,"last_pin_timestamp":null,"version":"1"}"#;
        Self::ok(format!(
            r#"{{"applied":true,"version":"1","read_state":{state}}}"#
        ))
    }

    pub fn problem(problem: ProblemType) -> Self {
        Self::of(&Problem::new(problem, "a test says so"))
    }

    pub fn of(problem: &Problem) -> Self {
        Self::Answer {
            status: problem.status,
            headers: vec![("content-type".into(), "application/problem+json".into())],
            body: serde_json::to_vec(problem).unwrap(),
        }
    }

    /// 421 that names another.
    pub fn moved(name: &str, url: &str, number: u64) -> Self {
        let mut problem = Problem::new(ProblemType::NotTheOwner, "ask it");
        problem.owner = Some(name.into());
        problem.owner_url = Some(url.into());
        problem.ring_number = Some(number);
        Self::of(&problem)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }

    pub fn after(self, pause: Duration) -> Self {
        Self::After(pause, Box::new(self))
    }
}

/// A ring in which the member at this URL owns everything.
pub fn ring_of(number: u64, url: &str) -> RingDocument {
    ring(number, &[url], |_| 0)
}

/// A ring of members at these URLs.
pub fn ring(number: u64, urls: &[&str], owner: impl Fn(u16) -> u16) -> RingDocument {
    let member = |(index, url): (usize, &&str)| RingMember {
        name: format!("chat-{index}"),
        incarnation: None,
        url: (*url).to_owned(),
        zone: None,
    };
    RingDocument {
        number,
        slots: SLOTS,
        hash: HASH_NAME.into(),
        members: urls.iter().enumerate().map(member).collect(),
        owners: (0..SLOTS).map(|slot| Some(owner(slot))).collect(),
    }
}

/// The answer to `GET /v1/ring`: the ring, or 304 after a moment when it is not newer than asked for.
pub fn ring_reply(asked: &Asked, ring: &RingDocument) -> Reply {
    let after = asked
        .path
        .split_once("after=")
        .map(|(_, after)| after.parse::<u64>().unwrap());
    let number = ring.number.to_string();
    if after.is_some_and(|after| ring.number <= after) {
        let unchanged = Reply::Answer {
            status: 304,
            headers: Vec::new(),
            body: Vec::new(),
        };
        return unchanged
            .header(headers::RING, &number)
            .after(Duration::from_millis(300));
    }
    Reply::ok(serde_json::to_vec(ring).unwrap()).header(headers::RING, &number)
}
