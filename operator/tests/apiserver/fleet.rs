//! The processes in cache pods, as far as the operator sees them: an admin port each, on a loopback
//! address of its own, and what they write to the ring and to Leases. They write it as their pods'
//! service account, so that what they may not do fails here too.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use readstates_api::admin::{
    Capacity, DrainRequest, FlushAnswer, IdentityStatus, MemberStatus, MovesAnswer, MovesRequest,
    OwnershipStatus, StoreKind, StoreStatus, StreamStatus,
};
use readstates_identity::Identity;
use readstates_operator_api::ReadStateRing;
use readstates_ring::{
    Incarnation, RingMember, RingTable, Slot, Succession,
    moves::{self, Live},
    planner::Candidate,
};
use tokio::{net::TcpListener, task::AbortHandle};

use crate::mutual::Operators;

/// Every test has a network of its own, 127.N.M.0/24, whether tests are threads or processes.
static NETWORKS: AtomicU16 = AtomicU16::new(0);

fn network() -> [u8; 2] {
    let ours = NETWORKS.fetch_add(1, Ordering::Relaxed).wrapping_mul(251);
    let [high, low] = (std::process::id() as u16).wrapping_add(ours).to_be_bytes();
    // 127.0.0.0/16 is for others.
    [high.max(1), low]
}

pub(crate) struct Fleet {
    /// As the service account of cache pods.
    client: Client,
    namespace: String,
    network: [u8; 2],
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    table: RingTable,
    members: BTreeMap<String, Process>,
    started: u8,
    /// What was asked, in order: `drain chat-2`.
    asked: Vec<String>,
    /// Whether what is asked next is done, and not answered.
    swallow: bool,
    /// The cluster whose cache pods these are, and a client with the rights of their account; `chat`, unless it is said.
    of: Option<(String, Client)>,
    /// Whether there is traffic, and how often a process was asked since.
    traffic: Option<u64>,
}

impl Shared {
    /// Read states and dirty users by traffic: other numbers each time, in their third digit.
    fn under_traffic(&mut self) -> (u64, u64) {
        self.traffic.as_mut().map_or((0, 0), |asked| {
            *asked += 1;
            (1_000_000 + *asked % 40 * 100, 1_000 + *asked % 40)
        })
    }
}

struct Process {
    incarnation: Incarnation,
    draining: bool,
    dirty: u64,
    capacity: u64,
    /// Whether it has ever owned a slot: until then it has no changes to write.
    served: bool,
    healthy: bool,
    taken_from_the_dead: u64,
    wishes: Vec<MovesRequest>,
    leased: bool,
    /// None: a process of the release before.
    identity: Option<Arc<Identity>>,
    server: AbortHandle,
}

type Here = State<(String, Arc<Mutex<Shared>>)>;

impl Fleet {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            network: network(),
            shared: Arc::default(),
        }
    }

    /// An address that is not in use, and its last number.
    pub(crate) fn address(&self) -> (IpAddr, u8) {
        let mut shared = self.shared.lock().unwrap();
        shared.started += 1;
        let [high, low] = self.network;
        let ip = IpAddr::from(Ipv4Addr::new(127, high, low, shared.started));
        (ip, shared.started)
    }

    /// A process starts in this pod; its address.
    pub(crate) async fn start(
        &self,
        pod: &str,
        identity: Option<Arc<Identity>>,
        capacity: u64,
    ) -> IpAddr {
        let (ip, life) = self.address();
        let address = SocketAddr::new(ip, 7401);
        let app = Router::new()
            .route("/admin/v1/status", get(status))
            .route("/admin/v1/drain", post(drain))
            .route("/admin/v1/moves", post(wish))
            .route("/admin/v1/flush", post(flush))
            .route("/admin/v1/capacity", put(keep))
            .with_state((pod.to_owned(), self.shared.clone()));
        let server = match &identity {
            Some(identity) => {
                let operators = Operators::listen(address, identity).await;
                tokio::spawn(async { axum::serve(operators, app).await.unwrap() })
            }
            None => {
                let listener = TcpListener::bind(address).await.unwrap();
                tokio::spawn(async { axum::serve(listener, app).await.unwrap() })
            }
        };
        let process = Process {
            incarnation: Incarnation::new(u64::from(life)),
            draining: false,
            dirty: 0,
            capacity,
            served: false,
            healthy: true,
            taken_from_the_dead: 0,
            wishes: Vec::new(),
            leased: false,
            identity,
            server: server.abort_handle(),
        };
        let mut shared = self.shared.lock().unwrap();
        shared.members.insert(pod.to_owned(), process);
        ip
    }

    /// From now on what each process says of its states changes all the time.
    pub(crate) fn has_traffic(&self) {
        self.shared.lock().unwrap().traffic = Some(0);
    }

    /// What the process of this pod proves itself by.
    pub(crate) fn identity(&self, pod: &str) -> Arc<Identity> {
        let shared = self.shared.lock().unwrap();
        shared.members[pod].identity.clone().unwrap()
    }

    /// The process of this pod ends, whatever it holds.
    pub(crate) fn stop(&self, pod: &str) {
        let process = self.shared.lock().unwrap().members.remove(pod);
        process.unwrap().server.abort();
    }

    pub(crate) fn runs(&self, pod: &str) -> bool {
        self.shared.lock().unwrap().members.contains_key(pod)
    }

    /// Slots and dirty users that this pod's process holds.
    pub(crate) fn holds(&self, pod: &str) -> (usize, u64) {
        let shared = self.shared.lock().unwrap();
        let process = &shared.members[pod];
        let owned = shared.table.owned_by(process.incarnation).count();
        (owned, process.dirty)
    }

    pub(crate) fn unhealthy(&self, pod: &str) {
        let mut shared = self.shared.lock().unwrap();
        shared.members.get_mut(pod).unwrap().healthy = false;
    }

    /// What was asked since the last time, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().unwrap().asked)
    }

    /// What is asked next is done, and not answered.
    pub(crate) fn swallow_next(&self) {
        self.shared.lock().unwrap().swallow = true;
    }

    /// As SIGTERM does.
    pub(crate) fn terminate(&self, pod: &str) {
        let mut shared = self.shared.lock().unwrap();
        if let Some(process) = shared.members.get_mut(pod) {
            process.draining = true;
        }
    }

    /// Members do what they do by themselves and were asked to do, until there is nothing left of it.
    pub(crate) async fn act(&self) {
        self.renew().await;
        let (of, client) = self.of();
        let rings: Api<ReadStateRing> = Api::namespaced(client, &self.namespace);
        loop {
            let Ok(mut ring) = rings.get(&of).await else {
                return;
            };
            let table = table_of(&ring);
            let next = self.shared.lock().unwrap().next(&table);
            if next.number() == table.number() {
                self.shared.lock().unwrap().table = table;
                return;
            }
            ring.spec = serde_json::from_slice(&next.to_json()).unwrap();
            rings
                .replace(&of, &PostParams::default(), &ring)
                .await
                .unwrap();
            self.shared.lock().unwrap().table = next;
        }
    }

    /// Each process has a Lease, and writes it again.
    async fn renew(&self) {
        let new: Vec<_> = {
            let mut shared = self.shared.lock().unwrap();
            let new = shared.members.iter_mut().filter(|(_, p)| !p.leased);
            new.map(|(name, process)| {
                process.leased = true;
                format!("{name}-{}", process.incarnation)
            })
            .collect()
        };
        let (of, client) = self.of();
        let leases: Api<Lease> = Api::namespaced(client, &self.namespace);
        for name in new {
            let mut lease = Lease::default();
            lease.metadata.name = Some(name.clone());
            lease.metadata.labels = Some([("readstates.dev/ring".to_owned(), of.clone())].into());
            let params = PostParams::default();
            match leases.create(&params, &lease).await {
                Ok(made) => leases.replace(&name, &params, &made).await.unwrap(),
                // The API server has not heard of its Role yet, and it will try again.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    self.unleased(&name);
                    return;
                }
                Err(error) => panic!("{error}"),
            };
        }
    }
}

impl Fleet {
    /// Cache pods are those of another cluster from now on, which none of the first one are left of.
    pub(crate) fn serves(&self, cluster: &str, client: Client) {
        self.shared.lock().unwrap().of = Some((cluster.to_owned(), client));
    }

    fn of(&self) -> (String, Client) {
        let shared = self.shared.lock().unwrap();
        let own = || ("chat".to_owned(), self.client.clone());
        shared.of.clone().unwrap_or_else(own)
    }

    fn unleased(&self, lease: &str) {
        let mut shared = self.shared.lock().unwrap();
        for (name, process) in &mut shared.members {
            process.leased &= format!("{name}-{}", process.incarnation) != lease;
        }
    }
}

pub(crate) fn table_of(ring: &ReadStateRing) -> RingTable {
    RingTable::from_json(&serde_json::to_vec(&ring.spec).unwrap()).unwrap()
}

impl Shared {
    /// The ring after every member has acted.
    fn next(&mut self, table: &RingTable) -> RingTable {
        let now = jiff::Timestamp::now().as_microsecond();
        let mut next = table.clone();
        let live = self.live();
        let alive: Vec<_> = self.members.values().map(|p| p.incarnation).collect();
        let dead = |incarnation| !alive.contains(&incarnation);
        let listed: BTreeMap<_, _> = self
            .members
            .iter()
            .map(|(name, p)| (p.incarnation, listed(name, p.incarnation)))
            .collect();
        for (name, process) in &mut self.members {
            let me = process.incarnation;
            if !process.served && next.owned_by(me).next().is_some() {
                process.served = true;
                process.dirty = 3;
            }
            if !process.draining {
                let take = moves::to_take(&next, &live, me, dead);
                process.taken_from_the_dead +=
                    take.iter().filter(|(_, epoch)| epoch.is_some()).count() as u64;
                let swapped = next.swap(&take, &listed[&me], Succession::TakenOver, now);
                next = swapped.unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            for wish in std::mem::take(&mut process.wishes) {
                let to: Incarnation = wish.destination.incarnation.parse().unwrap();
                let mine: Vec<_> = wish
                    .slots
                    .iter()
                    .map(|moved| Slot::new(moved.slot).unwrap())
                    .filter_map(|slot| Some((slot, next.config(slot)?)))
                    .filter(|(_, config)| config.owner() == me)
                    .map(|(slot, config)| (slot, Some(config.epoch())))
                    .collect();
                if let Some(to) = listed.get(&to) {
                    next = next.swap(&mine, to, Succession::Handed, now).unwrap();
                }
            }
            if process.draining {
                while let Some(batch) = moves::next_handover(&next, &live, me, 64) {
                    let slots: Vec<_> = batch.slots.iter().map(|&(s, e)| (s, Some(e))).collect();
                    let to = &listed[&batch.to];
                    next = next.swap(&slots, to, Succession::Handed, now).unwrap();
                }
                process.dirty = 0;
            }
        }
        next
    }

    fn live(&self) -> Vec<Live> {
        let takes = self.members.iter().filter(|(_, p)| !p.draining);
        takes
            .map(|(name, process)| Live {
                incarnation: process.incarnation,
                candidate: Candidate {
                    name: name.clone(),
                    ordinal: name.rsplit_once('-').unwrap().1.parse().ok(),
                    zone: None,
                },
            })
            .collect()
    }

    fn ownership(&self, pod: &str) -> OwnershipStatus {
        let process = &self.members[pod];
        let owned = self.table.owned_by(process.incarnation).count();
        OwnershipStatus {
            owned: u16::try_from(owned).unwrap(),
            streaming: process
                .wishes
                .iter()
                .map(|wish| StreamStatus {
                    to: wish.destination.name.clone(),
                    slots: u16::try_from(wish.slots.len()).unwrap(),
                })
                .collect(),
            draining: process.draining,
            lease_valid: true,
            taken_from_the_dead: process.taken_from_the_dead,
            ..OwnershipStatus::default()
        }
    }

    /// The answer, unless it is to be lost.
    fn answer(&mut self, answer: impl IntoResponse) -> Response {
        if std::mem::take(&mut self.swallow) {
            return StatusCode::BAD_GATEWAY.into_response();
        }
        answer.into_response()
    }
}

fn listed(name: &str, incarnation: Incarnation) -> RingMember {
    RingMember::new(name, incarnation, format!("http://{name}:7400"), None).unwrap()
}

async fn status(State((pod, shared)): Here) -> Json<MemberStatus> {
    let mut shared = shared.lock().unwrap();
    let (states, dirty) = shared.under_traffic();
    let process = &shared.members[&pod];
    Json(MemberStatus {
        member: pod.clone(),
        incarnation: process.incarnation.to_string(),
        ring_number: shared.table.number(),
        users: 5,
        states: 10 + states,
        dirty_users: process.dirty + dirty,
        oldest_dirty_seconds: None,
        capacity_states: process.capacity,
        store: StoreStatus {
            kind: StoreKind::Cql,
            healthy: process.healthy,
            reason: (!process.healthy).then(|| "no host answers".to_owned()),
        },
        ownership: shared.ownership(&pod),
        identity: process.identity.as_ref().map(|identity| IdentityStatus {
            certificate: identity.mark().to_string(),
            trusted: identity.trusted().iter().map(ToString::to_string).collect(),
            expires: String::new(),
        }),
    })
}

async fn drain(State((pod, shared)): Here, Json(request): Json<DrainRequest>) -> Response {
    let mut shared = shared.lock().unwrap();
    shared.asked.push(format!("drain {pod}"));
    let process = shared.members.get_mut(&pod).unwrap();
    if process.incarnation.to_string() != request.incarnation {
        return StatusCode::CONFLICT.into_response();
    }
    process.draining = true;
    let ownership = shared.ownership(&pod);
    shared.answer((StatusCode::ACCEPTED, Json(ownership)))
}

async fn wish(State((pod, shared)): Here, Json(request): Json<MovesRequest>) -> Response {
    let mut shared = shared.lock().unwrap();
    let (count, to) = (request.slots.len(), &request.destination.name);
    shared.asked.push(format!("move from {pod} to {to}"));
    let process = shared.members.get_mut(&pod).unwrap();
    process.wishes.push(request);
    let answer = MovesAnswer {
        accepted: u16::try_from(count).unwrap(),
        ignored: 0,
    };
    shared.answer((StatusCode::ACCEPTED, Json(answer)))
}

async fn keep(State((pod, shared)): Here, Json(capacity): Json<Capacity>) -> Response {
    let mut shared = shared.lock().unwrap();
    let states = capacity.states;
    shared.asked.push(format!("{pod} keeps {states}"));
    shared.members.get_mut(&pod).unwrap().capacity = states;
    shared.answer(Json(capacity))
}

async fn flush(State((pod, shared)): Here) -> Response {
    let mut shared = shared.lock().unwrap();
    shared.asked.push(format!("flush {pod}"));
    let process = shared.members.get_mut(&pod).unwrap();
    let (flushed_users, failed_users) = match process.healthy {
        true => (std::mem::take(&mut process.dirty), 0),
        false => (0, process.dirty),
    };
    shared.answer(Json(FlushAnswer {
        flushed_users,
        failed_users,
    }))
}
