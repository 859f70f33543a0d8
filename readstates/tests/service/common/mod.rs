//! A world of members in this process, real servers on free ports, and a client that asks them.

pub mod conformance;
pub mod engine;
pub mod faulty;
pub mod rings;
pub mod scanning;
pub mod severable;
pub mod tls;

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use readstates::{
    config::{ListenConfig, RingConfig, ServeConfig},
    ownership::{
        HttpPeers, Peers, Timing,
        store::{MemoryRing, RingStore},
    },
    server::{Listeners, Server, Stopped},
    store::{MemoryStore, Store},
};
use readstates_identity::{Identity, Role};
use readstates_ring::{
    Slot,
    moves::{Live, next_batch},
    planner::Candidate,
};
use reqwest::{Client, Method, StatusCode, header::HeaderMap};
use serde_json::Value;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Long enough that nothing is written unless a test asks.
pub const NEVER: Duration = Duration::from_secs(3600);
pub const SOON: Duration = Duration::from_millis(20);
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Members that notice soon when one is away.
pub const QUICK: Timing = Timing {
    renew_every: Duration::from_millis(200),
    held: Duration::from_secs(2),
    dead_after: Duration::from_secs(3),
    look_every: Duration::from_millis(50),
    queue_patience: Duration::from_secs(2),
    epoch_lasts: Duration::from_secs(24 * 3600),
};

pub struct Running {
    pub server: Server,
    client: Client,
    /// With what an operator proves, where the member asks for that.
    operator: Option<Client>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    pub bytes: Vec<u8>,
}

pub fn config(flush_interval: Duration) -> ServeConfig {
    ServeConfig {
        flush_interval,
        drain_timeout: PATIENCE,
        workers: 2.try_into().unwrap(),
        ..ServeConfig::alone_in_memory()
    }
}

/// A member that is alone, on a memory store, and writes only when asked.
pub async fn alone() -> Running {
    on(Arc::new(MemoryStore::default()), config(NEVER)).await
}

pub async fn on(store: Arc<dyn Store>, config: ServeConfig) -> Running {
    among(store, Arc::new(MemoryRing::default()), config).await
}

/// A client of this machine that speaks no TLS, and need not read the system's certificates for that.
pub fn client() -> Client {
    let client = Client::builder().no_proxy().tls_certs_only([]);
    client.build().unwrap()
}

/// A member of a ring.
pub async fn among(
    store: Arc<dyn Store>,
    ring: Arc<dyn RingStore>,
    config: ServeConfig,
) -> Running {
    let identity = config.tls.as_ref().map(|tls| &*tls.identity);
    let peers = HttpPeers::new(identity).unwrap();
    among_peers(store, ring, peers, config).await
}

/// A member of a ring that reaches the others in this way when slots move.
pub async fn among_peers(
    store: Arc<dyn Store>,
    ring: Arc<dyn RingStore>,
    peers: Arc<dyn Peers>,
    config: ServeConfig,
) -> Running {
    let listeners = Listeners::bind(&config).unwrap();
    let server = Server::start_among(&config, store, ring, peers, listeners)
        .await
        .unwrap();
    Running {
        server,
        client: client(),
        operator: None,
    }
}

/// A member of a ring that others are in, too, and that notices soon when they are away.
pub async fn member(name: &str, store: Arc<dyn Store>, ring: Arc<dyn RingStore>) -> Running {
    among(store, ring, of_ring(name)).await
}

/// A member of a ring that others are in, too.
pub fn of_ring(name: &str) -> ServeConfig {
    ServeConfig {
        listen: ListenConfig::free(LOOPBACK, false),
        member: name.to_owned(),
        // What counts is that it is not the member's own.
        ring: RingConfig::File("shared".into()),
        timing: QUICK,
        ..config(NEVER)
    }
}

/// Members that share a store and a ring, and have about as many slots each.
pub async fn members(names: &[&str], store: Arc<dyn Store>) -> Vec<Running> {
    let ring: Arc<dyn RingStore> = Arc::new(MemoryRing::default());
    let mut running = Vec::new();
    for name in names {
        running.push(member(name, Arc::clone(&store), Arc::clone(&ring)).await);
    }
    balance(&running.iter().collect::<Vec<_>>()).await;
    running
}

/// Asks members to move slots until they have about as many each.
pub async fn balance(members: &[&Running]) {
    let live: Vec<Live> = members
        .iter()
        .map(|member| Live {
            incarnation: member.server.ownership().me().incarnation(),
            candidate: Candidate {
                name: member.server.member().to_owned(),
                ordinal: None,
                zone: None,
            },
        })
        .collect();
    let find = |incarnation| {
        let is = |member: &&&Running| member.server.ownership().me().incarnation() == incarnation;
        *members.iter().find(is).unwrap()
    };
    let start = std::time::Instant::now();
    loop {
        assert!(start.elapsed() < 3 * PATIENCE, "members are not in balance");
        let table = Arc::clone(members[0].server.ownership().routes().table());
        let Some(next) = next_batch(&table, &live, 64) else {
            break;
        };
        let to = find(next.to).server.ownership().me();
        let slots: Vec<Value> = next
            .slots
            .iter()
            .map(
                |(slot, epoch)| serde_json::json!({"slot": slot.number(), "epoch": epoch.number()}),
            )
            .collect();
        let body = serde_json::json!({
            "destination": {
                "name": to.name(), "incarnation": to.incarnation().to_string(), "url": to.url(),
            },
            "slots": slots,
        });
        let answer = find(next.from).post("/admin/v1/moves", body).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Wait until every member knows the ring.
    let number = members
        .iter()
        .map(|member| member.server.ownership().routes().number());
    let number = number.max().unwrap();
    for member in members {
        member
            .until("at the last ring", |status| status["ring_number"] == number)
            .await;
    }
}

/// The place of the member that owns a user.
pub fn owner_of(members: &[Running], user: u64) -> usize {
    let routes = members[0].server.ownership().routes();
    let owner = routes.owner(Slot::of_user(user)).unwrap();
    let owner = routes.peers()[owner].incarnation;
    let is = |member: &Running| member.server.ownership().me().incarnation() == owner;
    members.iter().position(is).unwrap()
}

impl Running {
    pub fn url(&self, path: &str) -> String {
        let server = &self.server;
        let scheme = match &self.operator {
            Some(_) if path.starts_with("/admin") => "https",
            Some(_) | None => "http",
        };
        let address = match path {
            "/livez" | "/readyz" | "/metrics" => server.watch_address,
            path if path.starts_with("/admin") => server.admin_address,
            path if path.starts_with("/internal") => server.members_address.unwrap(),
            _ => server.http_address,
        };
        format!("{scheme}://{address}{path}")
    }

    /// Asks the admin port with this operator's certificate from now on.
    pub fn speak_as_operator(&mut self, identity: &Identity) {
        let config = identity.client_config(Role::Member).unwrap();
        let client = Client::builder().tls_backend_preconfigured(config);
        self.operator = Some(client.build().unwrap());
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Answer {
        self.request(method, self.url(path), headers, body).await
    }

    /// As another member sends it.
    pub async fn forwarded(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Answer {
        let address = self.server.members_address.unwrap();
        let url = format!("http://{address}{path}");
        self.request(method, url, headers, body).await
    }

    async fn request(
        &self,
        method: Method,
        url: String,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Answer {
        let client = match &self.operator {
            Some(operator) if url.starts_with("https") => operator,
            Some(_) | None => &self.client,
        };
        let mut request = client.request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await.unwrap().to_vec();
        Answer {
            status,
            headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    pub async fn json(&self, method: Method, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(method, path, &json, Some(body.to_string().into_bytes()))
            .await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.json(Method::POST, path, body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], None).await
    }

    /// Acknowledges, and expects that to be possible.
    pub async fn ack(&self, user: u64, channel: u64, message: u64) -> Value {
        let path = format!("/v1/users/{user}/read-states/{channel}/ack");
        self.post(
            &path,
            serde_json::json!({"message_id": message.to_string()}),
        )
        .await
        .ok()
    }

    /// (last message, mention count) of a channel.
    pub async fn state(&self, user: u64, channel: u64) -> Option<(u64, u64)> {
        let answer = self
            .get(&format!("/v1/users/{user}/read-states/{channel}"))
            .await;
        if answer.status == StatusCode::NOT_FOUND {
            return None;
        }
        let state = answer.ok();
        let last = state["last_message_id"]
            .as_str()
            .map_or(0, |id| id.parse().unwrap());
        Some((last, state["mention_count"].as_u64().unwrap()))
    }

    pub async fn version(&self, user: u64) -> u64 {
        let states = self
            .get(&format!("/v1/users/{user}/read-states"))
            .await
            .ok();
        states["version"].as_str().unwrap().parse().unwrap()
    }

    pub async fn status(&self) -> Value {
        self.get("/admin/v1/status").await.ok()
    }

    /// Waits until the status says so.
    pub async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let start = std::time::Instant::now();
        loop {
            let status = self.status().await;
            if holds(&status) {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "still not {what}: {status}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn stop(self) -> Stopped {
        self.server.stop(PATIENCE).await
    }
}

impl Answer {
    /// The body of a 200.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Expects a refusal of this status and type, with all that every refusal has.
    #[track_caller]
    pub fn refused(&self, status: u16, name: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert!(self.header("x-readstates-ring").is_some());
        assert_eq!(
            self.header("retry-after").is_some(),
            matches!(status, 429 | 503)
        );
        let problem = self.body();
        assert_eq!(problem["type"], format!("/problems/{name}"), "{problem}");
        assert_eq!(problem["status"], status);
        problem
    }
}
