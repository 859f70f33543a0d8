//! Over HTTP, with an engine that says what a test tells it to.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use readstates_operator_api::Engine;
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot},
};

use super::*;
use crate::{
    engine::EngineError,
    mutual::tests::Cluster,
    wire::{Cleanup, Flush, Node, NodeState, Ranges, Repair, Target, Upgrade, UpgradeStep},
};

const HOST: &str = "7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0001";

struct Fake {
    look: Mutex<Look>,
    asked: AtomicU32,
    pools: AtomicU32,
    /// Its tool cannot be run.
    fails: AtomicBool,
    leave: Mutex<Option<oneshot::Receiver<Result<(), EngineError>>>>,
    /// Cleanups that were begun, and what ends one.
    cleaned: AtomicU32,
    clean: Notify,
    /// How each repair that was begun ends.
    repaired: Mutex<Vec<Ranges>>,
    repair: Mutex<Option<oneshot::Receiver<Result<(), EngineError>>>>,
    /// Steps of upgrades that were taken.
    taken: Mutex<Vec<UpgradeStep>>,
    /// How often it was flushed; the first time fails.
    flushed: AtomicU32,
}

#[async_trait]
impl LocalNode for Arc<Fake> {
    async fn look(&self) -> Result<Look, EngineError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(EngineError::Unreachable("nodetool timed out".to_owned()));
        }
        Ok(locked(&self.look).clone())
    }

    async fn facts(&self) -> Result<Facts, EngineError> {
        Ok(Facts::default())
    }

    async fn decommission(&self) -> Result<(), EngineError> {
        let end = locked(&self.leave).take().unwrap();
        end.await.unwrap()
    }

    async fn cleanup(&self) -> Result<(), EngineError> {
        self.cleaned.fetch_add(1, Ordering::Relaxed);
        self.clean.notified().await;
        Ok(())
    }

    async fn repair(
        &self,
        ranges: Ranges,
        progress: &(dyn Fn(String) + Send + Sync),
    ) -> Result<(), EngineError> {
        locked(&self.repaired).push(ranges);
        progress("half of it".to_owned());
        let end = locked(&self.repair).take();
        match end {
            Some(end) => end.await.unwrap(),
            None => Ok(()),
        }
    }

    async fn upgrade(&self, step: &UpgradeStep) -> Result<(), EngineError> {
        locked(&self.taken).push(step.clone());
        match step {
            UpgradeStep::Rewrite => Err(EngineError::Refused("No space left".to_owned())),
            UpgradeStep::Snapshot(_) | UpgradeStep::Release(_) => Ok(()),
        }
    }

    async fn flush(&self) -> Result<(), EngineError> {
        match self.flushed.fetch_add(1, Ordering::Relaxed) {
            0 => Err(EngineError::Refused("No space left".to_owned())),
            _ => Ok(()),
        }
    }

    async fn drain(&self) -> Result<(), EngineError> {
        Ok(())
    }

    async fn pools(&self) -> Result<Option<Pools>, EngineError> {
        self.pools.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Pools::default()))
    }

    async fn alive(&self) -> bool {
        true
    }
}

struct World {
    fake: Arc<Fake>,
    url: String,
    probes: String,
    operator: reqwest::Client,
    end: Option<oneshot::Sender<Result<(), EngineError>>>,
    data: std::path::PathBuf,
    _dirs: tempfile::TempDir,
    _cql: TcpListener,
}

async fn world() -> World {
    let dirs = tempfile::tempdir().unwrap();
    let data = dirs.path().join("data");
    std::fs::create_dir_all(data.join("commitlog")).unwrap();
    let cluster = Cluster::new();
    let folder = dirs.path().join("identity");
    cluster.write(&folder);
    let identity = mutual::identity(&folder).await;
    let (end, leave) = oneshot::channel();
    let own = Node {
        host_id: HOST.to_owned(),
        address: "127.0.0.1".to_owned(),
        up: true,
        state: NodeState::Normal,
        load_bytes: Some(1),
    };
    let fake = Arc::new(Fake {
        look: Mutex::new(Look {
            host_id: Some(HOST.to_owned()),
            mode: Mode::Normal,
            progress: None,
            nodes: vec![own],
        }),
        asked: AtomicU32::new(0),
        pools: AtomicU32::new(0),
        fails: AtomicBool::new(false),
        leave: Mutex::new(Some(leave)),
        cleaned: AtomicU32::new(0),
        clean: Notify::new(),
        repaired: Mutex::default(),
        repair: Mutex::default(),
        flushed: AtomicU32::default(),
        taken: Mutex::default(),
    });
    let cql = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let loopback = "127.0.0.1:0".parse().unwrap();
    let operators = mutual::listen(loopback, &identity).await.unwrap();
    let address = axum::serve::Listener::local_addr(&operators).unwrap();
    let probes = TcpListener::bind(loopback).await.unwrap();
    let probes_at = probes.local_addr().unwrap();
    let common = Common {
        engine: Engine::Cassandra,
        data: data.clone(),
        pod_name: "a-0".to_owned(),
        pod_uid: "uid-1".to_owned(),
        address: address.ip(),
        identity: folder,
        listen: address,
    };
    let agent = Arc::new(Agent::new(
        Box::new(fake.clone()),
        common,
        cql.local_addr().unwrap().port(),
    ));
    agent.identity.get_or_init(|| identity);
    let probed = probed(agent.clone());
    tokio::spawn(async move { axum::serve(operators, router(agent)).await });
    tokio::spawn(async move { axum::serve(probes, probed).await });
    World {
        fake,
        url: format!("https://{address}"),
        probes: format!("http://{probes_at}"),
        operator: cluster.client(readstates_identity::Role::Operator),
        end: Some(end),
        data,
        _dirs: dirs,
        _cql: cql,
    }
}

impl World {
    async fn get(&self, path: &str) -> reqwest::Response {
        let url = format!("{}{path}", self.url);
        self.operator.get(url).send().await.unwrap()
    }

    async fn probe(&self, path: &str) -> u16 {
        let url = format!("{}{path}", self.probes);
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .unwrap();
        client.get(url).send().await.unwrap().status().as_u16()
    }

    /// So much later that the engine may be asked again.
    async fn later(&self) {
        tokio::time::sleep(FRESH).await;
    }

    async fn view(&self, max_age: u64) -> View {
        let path = format!("/v1/node?max_age={max_age}");
        let report: Report = self.get(&path).await.json().await.unwrap();
        match report.phase {
            Phase::Running(view) => view,
            other => panic!("{other:?}"),
        }
    }

    async fn order(&self, pod_uid: &str, host_id: &str) -> (u16, String) {
        let target = Target {
            pod_uid: pod_uid.to_owned(),
            host_id: host_id.to_owned(),
        };
        let answer = self
            .operator
            .post(format!("{}/v1/decommission", self.url))
            .json(&target)
            .send()
            .await
            .unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

#[tokio::test]
async fn an_answer_that_is_young_enough_is_not_asked_for_again() {
    let world = world().await;
    world.view(60).await;
    world.view(60).await;
    assert_eq!(world.fake.asked.load(Ordering::Relaxed), 1);
    assert_eq!(world.get("/v1/facts").await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_member_signs_its_disk() {
    let world = world().await;
    assert_eq!(world.view(0).await.host_id.as_deref(), Some(HOST));
    assert!(disk::is_signed(&world.data, HOST, "a-0"));
}

#[tokio::test]
async fn ready_is_a_member_that_serves() {
    let world = world().await;
    // The database has not been queried yet.
    assert_eq!(world.probe("/readyz").await, 503);
    world.view(60).await;
    assert_eq!(world.probe("/readyz").await, 200);
    locked(&world.fake.look).mode = Mode::Joining;
    world.fake.asked.store(0, Ordering::Relaxed);
    world.later().await;
    world.view(0).await;
    assert_eq!(world.probe("/readyz").await, 503);
    assert_eq!(world.probe("/livez").await, 200);
}

#[tokio::test]
async fn a_busy_machine_where_nodetool_fails_makes_no_serving_node_unready() {
    let world = world().await;
    world.fake.fails.store(true, Ordering::Relaxed);
    world.get("/v1/node?max_age=60").await;
    assert_eq!(world.probe("/readyz").await, 503, "it has never said so");
    world.fake.fails.store(false, Ordering::Relaxed);
    world.later().await;
    world.view(0).await;
    world.fake.fails.store(true, Ordering::Relaxed);
    world.later().await;
    world.get("/v1/node?max_age=0").await;
    assert_eq!(world.fake.asked.load(Ordering::Relaxed), 3);
    assert_eq!(world.probe("/readyz").await, 200);
}

#[tokio::test]
async fn a_member_that_does_not_see_itself_up_is_not_ready() {
    for (up, state) in [(false, NodeState::Normal), (true, NodeState::Leaving)] {
        let world = world().await;
        {
            let mut look = locked(&world.fake.look);
            (look.nodes[0].up, look.nodes[0].state) = (up, state);
        }
        world.view(60).await;
        assert_eq!(world.probe("/readyz").await, 503);
    }
    // Nor is one that is not among the nodes that it knows.
    let world = world().await;
    locked(&world.fake.look).nodes.clear();
    world.view(60).await;
    assert_eq!(world.probe("/readyz").await, 503);
}

#[tokio::test]
async fn only_the_node_that_is_meant_leaves_and_its_end_is_told() {
    let mut world = world().await;
    let (status, words) = world.order("uid-of-another", HOST).await;
    assert_eq!(status, 409, "{words}");
    let (status, words) = world.order("uid-1", "id-of-another").await;
    assert_eq!(status, 409, "{words}");
    assert_eq!(world.view(0).await.decommission, None);

    assert_eq!(world.order("uid-1", HOST).await.0, 202);
    // Again is not twice.
    assert_eq!(world.order("uid-1", HOST).await.0, 202);
    assert_eq!(world.view(60).await.decommission, Some(Job::Running));
    let words = "Not enough live nodes".to_owned();
    let end = world.end.take().unwrap();
    end.send(Err(EngineError::Refused(words.clone()))).unwrap();
    let failed = Some(Job::Failed { error: words });
    while world.view(60).await.decommission != failed {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_node_that_does_not_serve_is_not_told_to_leave() {
    let world = world().await;
    locked(&world.fake.look).mode = Mode::Joining;
    let (status, words) = world.order("uid-1", HOST).await;
    assert_eq!((status, words.as_str()), (409, "the node is Joining"));
}

#[tokio::test]
async fn only_the_node_that_is_meant_cleans_up_once_for_each_request() {
    let world = world().await;
    let order = |pod_uid: &str, host_id: &str, request: &str| Cleanup {
        pod_uid: pod_uid.to_owned(),
        host_id: host_id.to_owned(),
        request: request.to_owned(),
    };
    let tell = async |order: Cleanup| {
        let url = format!("{}/v1/cleanup", world.url);
        let answer = world.operator.post(url).json(&order).send().await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(tell(order("uid-of-another", HOST, "1")).await, 409);
    assert_eq!(tell(order("uid-1", "id-of-another", "1")).await, 409);
    let view = world.view(60).await;
    assert!(view.cleans_up);
    assert_eq!(view.cleanup, None);

    assert_eq!(tell(order("uid-1", HOST, "1")).await, 202);
    assert_eq!(tell(order("uid-1", HOST, "1")).await, 202);
    // Two at once would do the work twice.
    assert_eq!(tell(order("uid-1", HOST, "2")).await, 409);
    let is = |request: &str, job| {
        let request = request.to_owned();
        Some(RequestedJob {
            request,
            progress: None,
            job,
        })
    };
    assert_eq!(world.view(60).await.cleanup, is("1", Job::Running));
    world.fake.clean.notify_one();
    while world.view(60).await.cleanup != is("1", Job::Done) {
        tokio::task::yield_now().await;
    }
    assert_eq!(tell(order("uid-1", HOST, "2")).await, 202);
    assert_eq!(world.view(60).await.cleanup, is("2", Job::Running));
    assert_eq!(world.fake.cleaned.load(Ordering::Relaxed), 2);
    // Nor does a node that leaves.
    world.fake.clean.notify_one();
    assert_eq!(world.order("uid-1", HOST).await.0, 202);
    assert_eq!(tell(order("uid-1", HOST, "3")).await, 409);
}

#[tokio::test]
async fn a_repair_runs_once_for_each_request_says_how_far_it_is_and_ends_in_the_databases_words() {
    let world = world().await;
    let tell = async |host_id: &str, request: &str| {
        let order = Repair {
            pod_uid: "uid-1".to_owned(),
            host_id: host_id.to_owned(),
            request: request.to_owned(),
            ranges: Ranges::All,
        };
        let url = format!("{}/v1/repair", world.url);
        let answer = world.operator.post(url).json(&order).send().await.unwrap();
        answer.status().as_u16()
    };
    assert!(world.view(60).await.repairs);
    assert_eq!(tell("id-of-another", "1").await, 409);
    let (end, ends) = oneshot::channel();
    *locked(&world.fake.repair) = Some(ends);
    assert_eq!(tell(HOST, "1").await, 202);
    assert_eq!(tell(HOST, "1").await, 202);
    assert_eq!(tell(HOST, "2").await, 409);
    let until = async |request: &str, progress: Option<&str>, job: Job| {
        let wanted = Some(Box::new(RequestedJob {
            request: request.to_owned(),
            progress: progress.map(str::to_owned),
            job,
        }));
        while world.view(60).await.repair != wanted {
            tokio::task::yield_now().await;
        }
    };
    until("1", Some("half of it"), Job::Running).await;
    let words = "Endpoint not alive: /10.0.0.3\n-- StackTrace --\n\tat x.Y.z(Y.java:1)";
    end.send(Err(EngineError::Refused(words.to_owned())))
        .unwrap();
    let error = "Endpoint not alive: /10.0.0.3".to_owned();
    until("1", None, Job::Failed { error }).await;
    // The same one again, since it failed; and not again, since it is done.
    assert_eq!(tell(HOST, "1").await, 202);
    until("1", None, Job::Done).await;
    assert_eq!(tell(HOST, "1").await, 202);
    assert_eq!(*locked(&world.fake.repaired), [Ranges::All, Ranges::All]);
}

#[tokio::test]
async fn a_node_is_flushed_once_for_each_request_and_again_when_that_failed() {
    let world = world().await;
    let tell = async |host_id: &str, request: &str| {
        let order = Flush {
            pod_uid: "uid-1".to_owned(),
            host_id: host_id.to_owned(),
            request: request.to_owned(),
        };
        let url = format!("{}/v1/flush", world.url);
        let answer = world.operator.post(url).json(&order).send().await.unwrap();
        answer.status().as_u16()
    };
    let until = async |request: &str, job: Job| {
        let wanted = Some(Box::new(RequestedJob {
            request: request.to_owned(),
            progress: None,
            job,
        }));
        while world.view(60).await.flush != wanted {
            tokio::task::yield_now().await;
        }
    };
    assert!(world.view(60).await.flushes);
    assert_eq!(tell("id-of-another", "1").await, 409);
    assert_eq!(tell(HOST, "1").await, 202);
    let error = "No space left".to_owned();
    until("1", Job::Failed { error }).await;
    for _ in 0..2 {
        assert_eq!(tell(HOST, "1").await, 202);
        until("1", Job::Done).await;
    }
    assert_eq!(world.fake.flushed.load(Ordering::Relaxed), 2);
    assert_eq!(tell(HOST, "2").await, 202);
    until("2", Job::Done).await;
    assert_eq!(world.fake.flushed.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_step_of_an_upgrade_is_taken_once_for_each_request_and_again_when_it_failed() {
    let world = world().await;
    let tell = async |host_id: &str, request: &str, step: UpgradeStep| {
        let order = Upgrade {
            pod_uid: "uid-1".to_owned(),
            host_id: host_id.to_owned(),
            request: request.to_owned(),
            step,
        };
        let url = format!("{}/v1/upgrade", world.url);
        let answer = world.operator.post(url).json(&order).send().await.unwrap();
        answer.status().as_u16()
    };
    let until = async |request: &str, job: Job| {
        let wanted = Some(Box::new(RequestedJob {
            request: request.to_owned(),
            progress: None,
            job,
        }));
        while world.view(60).await.upgrade != wanted {
            tokio::task::yield_now().await;
        }
    };
    assert!(world.view(60).await.upgrades);
    let snapshot = || UpgradeStep::Snapshot("before".to_owned());
    assert_eq!(tell("id-of-another", "1", snapshot()).await, 409);
    assert_eq!(tell(HOST, "1", snapshot()).await, 202);
    until("1", Job::Done).await;
    assert_eq!(tell(HOST, "1", snapshot()).await, 202);
    let error = "No space left".to_owned();
    for _ in 0..2 {
        assert_eq!(tell(HOST, "2", UpgradeStep::Rewrite).await, 202);
        let error = error.clone();
        until("2", Job::Failed { error }).await;
    }
    let release = || UpgradeStep::Release("before".to_owned());
    assert_eq!(tell(HOST, "3", release()).await, 202);
    until("3", Job::Done).await;
    // An operator that was held up since the first.
    assert_eq!(tell(HOST, "1", snapshot()).await, 409);
    let taken = [
        snapshot(),
        UpgradeStep::Rewrite,
        UpgradeStep::Rewrite,
        release(),
    ];
    assert_eq!(*locked(&world.fake.taken), taken);
}

#[tokio::test]
async fn metrics_cost_the_database_one_question_a_minute_and_never_wait_for_it() {
    let world = world().await;
    world.view(0).await;
    let asked = world.fake.asked.load(Ordering::Relaxed);
    let mut page = String::new();
    // The first scrapes come without what is asked for because of them.
    while !page.contains("readstates_database_dropped_messages_total") {
        let url = format!("{}/metrics", world.probes);
        page = reqwest::get(url).await.unwrap().text().await.unwrap();
    }
    assert!(
        page.contains("readstates_database_nodes{state=\"up\"} 1\n"),
        "{page}"
    );
    for _ in 0..5 {
        assert_eq!(world.probe("/metrics").await, 200);
    }
    assert_eq!(world.fake.pools.load(Ordering::Relaxed), 1);
    assert_eq!(world.fake.asked.load(Ordering::Relaxed), asked);
}
