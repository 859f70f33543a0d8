//! Against a fake of the REST API, whose answers are those of its documentation.

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    response::IntoResponse,
    routing::{get, post},
};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

async fn scylla(router: Router) -> Scylla {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Scylla::new(format!("http://{address}")).unwrap()
}

fn ring() -> Router {
    Router::new()
        .route(
            "/storage_service/operation_mode",
            get(async || Json("LEAVING")),
        )
        .route(
            "/storage_service/hostid/local",
            get(async || Json("id-of-1")),
        )
        .route(
            "/storage_service/host_id",
            get(async || {
                Json(json!([
                    { "key": "10.0.0.1", "value": "id-of-1" },
                    { "key": "10.0.0.2", "value": "id-of-2" },
                ]))
            }),
        )
        .route(
            "/gossiper/endpoint/live",
            get(async || Json(json!(["10.0.0.1"]))),
        )
        .route(
            "/storage_service/nodes/joining",
            get(async || Json(json!([]))),
        )
        .route(
            "/storage_service/nodes/leaving",
            get(async || Json(json!(["10.0.0.1"]))),
        )
        .route(
            "/storage_service/load_map",
            get(async || Json(json!([{ "key": "10.0.0.2", "value": 4096.5 }]))),
        )
}

#[tokio::test]
async fn a_look_joins_what_the_api_tells_in_pieces() {
    let node = |host_id: &str, address: &str, up, state, load_bytes| Node {
        host_id: host_id.to_owned(),
        address: address.to_owned(),
        up,
        state,
        load_bytes,
    };
    assert_eq!(
        scylla(ring()).await.look().await.unwrap(),
        Look {
            host_id: Some("id-of-1".to_owned()),
            mode: Mode::Leaving,
            progress: None,
            nodes: vec![
                node("id-of-1", "10.0.0.1", true, NodeState::Leaving, None),
                node("id-of-2", "10.0.0.2", false, NodeState::Normal, Some(4096)),
            ],
        }
    );
}

#[tokio::test]
async fn a_refused_decommission_keeps_the_words_of_the_database() {
    let words = "Decommission failed: Unable to find new replica for tablet";
    let refuse = async move || {
        let body = Json(json!({ "message": words, "code": 500 }));
        (StatusCode::INTERNAL_SERVER_ERROR, body).into_response()
    };
    let router = Router::new().route("/storage_service/decommission", post(refuse));
    let error = scylla(router).await.decommission().await.unwrap_err();
    assert_eq!(error.to_string(), words);
}

type Query = axum::extract::Query<std::collections::BTreeMap<String, String>>;

/// Two keyspaces of users, one of them of tablets and one without tables, beside those of the engine's own.
fn schema() -> Router {
    let keyspaces = async |query: Query| {
        Json(match query.get("type").map(String::as_str) {
            Some("user") => json!(["readstates", "theirs", "empty"]),
            _ => json!([
                "readstates",
                "theirs",
                "empty",
                "system_distributed_everywhere"
            ]),
        })
    };
    let table = |keyspace: &str, name: &str| json!({ "ks": keyspace, "cf": name, "type": "ColumnFamilies" });
    let tables = json!([
        table("system", "local"),
        table(
            "system_distributed_everywhere",
            "cdc_generation_descriptions_v2"
        ),
        table("readstates", "read_states"),
        table("theirs", "one"),
        table("theirs", "two"),
    ]);
    let tablets = async |query: Query| {
        if query.get("table").map(String::as_str) == Some("read_states") {
            let ranges = json!([
                { "start_token": "1", "endpoints": ["10.0.0.1", "10.0.0.2"] },
                { "start_token": "2", "endpoints": ["10.0.0.2"] },
            ]);
            return Json(ranges).into_response();
        }
        let message = "describe_ring is not supported for a keyspace with tablets without a table";
        let body = Json(json!({ "message": message, "code": 400 }));
        (StatusCode::BAD_REQUEST, body).into_response()
    };
    let vnodes = async |query: Query| {
        let copies = if query["table"] == "two" { 3 } else { 1 };
        let endpoints: Vec<_> = (1..=copies).map(|n| format!("10.0.0.{n}")).collect();
        Json(json!([{ "start_token": "1", "endpoints": endpoints }]))
    };
    Router::new()
        .route(
            "/storage_proxy/schema_versions",
            get(async || Json(json!([{ "key": "v1", "value": ["10.0.0.1", "10.0.0.2"] }]))),
        )
        .route("/storage_service/keyspaces", get(keyspaces))
        .route("/column_family/", get(async move || Json(tables)))
        .route("/storage_service/describe_ring/readstates", get(tablets))
        .route("/storage_service/describe_ring/theirs", get(vnodes))
}

#[tokio::test]
async fn facts_of_a_tablets_keyspace_and_without_system_keyspaces() {
    let keyspace = |name: &str, replication_factor| Keyspace {
        name: name.to_owned(),
        replication_factor,
    };
    assert_eq!(
        scylla(schema()).await.facts().await.unwrap(),
        Facts {
            schema_versions: vec!["v1".to_owned()],
            schema_nodes: [(
                "v1".to_owned(),
                vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]
            )]
            .into(),
            keyspaces: vec![keyspace("readstates", 2), keyspace("theirs", 3)],
        }
    );
}

#[tokio::test]
async fn a_node_is_alive_while_its_uptime_answers() {
    let up = Router::new().route("/system/uptime_ms", get(async || Json(12)));
    assert!(scylla(up).await.alive().await);
    assert!(!scylla(Router::new()).await.alive().await);
    assert!(!Scylla::new("http://127.0.0.1:9").unwrap().alive().await);
}

#[tokio::test]
async fn a_cleanup_goes_through_the_keyspaces_of_vnodes() {
    let cleaned = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keyspaces = async |query: Query| {
        assert_eq!(query["replication"], "vnodes");
        Json(json!(["theirs", "others"]))
    };
    let clean = {
        let cleaned = cleaned.clone();
        async move |axum::extract::Path(keyspace): axum::extract::Path<String>| {
            cleaned.lock().unwrap().push(keyspace);
            Json(0)
        }
    };
    let router = Router::new()
        .route("/storage_service/keyspaces", get(keyspaces))
        .route("/storage_service/keyspace_cleanup/{keyspace}", post(clean));
    scylla(router).await.cleanup().await.unwrap();
    assert_eq!(*cleaned.lock().unwrap(), ["theirs", "others"]);
}

#[tokio::test]
async fn a_snapshot_is_taken_of_everything_and_unfinished_and_forgotten_ones_go() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = |does: &'static str| {
        let told = told.clone();
        async move |query: Query| {
            assert_eq!(query.keys().collect::<Vec<_>>(), ["tag"]);
            told.lock()
                .unwrap()
                .push(format!("{does} {}", query["tag"]));
        }
    };
    let left = "readstates-before-upgrade-from-6.2.1-20260101T080000Z";
    let there = json!([{ "key": left, "value": [] }, { "key": "nightly", "value": [] }]);
    let snapshots = post(tell("take")).delete(tell("remove")).get(move || {
        let there = there.clone();
        async move { Json(there) }
    });
    let scylla = scylla(Router::new().route("/storage_service/snapshots", snapshots)).await;
    for step in [
        UpgradeStep::Snapshot("before".to_owned()),
        UpgradeStep::Rewrite,
        UpgradeStep::Release("before".to_owned()),
    ] {
        scylla.upgrade(&step).await.unwrap();
    }
    assert_eq!(
        *told.lock().unwrap(),
        [
            "remove before",
            "take before",
            "remove before",
            format!("remove {left}").as_str()
        ]
    );
}

#[tokio::test]
async fn a_flush_is_of_every_keyspace() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let flushed = told.clone();
    let flush = post(async move |Path(keyspace): Path<String>| {
        flushed.lock().unwrap().push(keyspace);
    });
    let router = Router::new()
        .route(
            "/storage_service/keyspaces",
            get(async || Json(json!(["system", "readstates"]))),
        )
        .route("/storage_service/keyspace_flush/{keyspace}", flush);
    scylla(router).await.flush().await.unwrap();
    assert_eq!(*told.lock().unwrap(), ["system", "readstates"]);
}

#[tokio::test]
async fn a_drain_is_one_call_and_keeps_the_words_of_a_refusal() {
    let router = Router::new().route("/storage_service/drain", post(async || ""));
    scylla(router).await.drain().await.unwrap();
    let refuse = async || {
        let body = Json(json!({ "message": "already drained", "code": 500 }));
        (StatusCode::INTERNAL_SERVER_ERROR, body).into_response()
    };
    let router = Router::new().route("/storage_service/drain", post(refuse));
    let error = scylla(router).await.drain().await.unwrap_err();
    assert_eq!(error.to_string(), "already drained");
}

/// Ends the second time that it is asked; and a table of tablets.
fn repairs(ends: &'static str, told: &std::sync::Arc<std::sync::Mutex<Vec<String>>>) -> Router {
    let keyspaces = async |query: Query| match query["replication"].as_str() {
        "vnodes" => Json(json!(["theirs"])),
        _ => Json(json!(["readstates"])),
    };
    let note = |told: &std::sync::Arc<std::sync::Mutex<Vec<String>>>| {
        let told = told.clone();
        move |line: String| told.lock().unwrap().push(line)
    };
    let begin = note(told);
    let tablets = note(told);
    let tables = json!([
        { "ks": "theirs", "cf": "one", "type": "ColumnFamilies" },
        { "ks": "readstates", "cf": "read_states", "type": "ColumnFamilies" },
    ]);
    Router::new()
        .route("/storage_service/keyspaces", get(keyspaces))
        .route("/column_family/", get(async move || Json(tables)))
        .route(
            "/storage_service/repair_async/theirs",
            post(async move |query: Query| {
                begin(format!("theirs primary={}", query["primaryRange"]));
                Json(7)
            })
            .get(async move |query: Query| {
                assert_eq!(query["id"], "7");
                Json(ends)
            }),
        )
        .route(
            "/storage_service/tablets/repair",
            post(async move |query: Query| {
                tablets(format!(
                    "{}.{} {}",
                    query["ks"], query["table"], query["tokens"]
                ));
                Json(json!({ "tablet_task_id": "id-1" }))
            }),
        )
        .route(
            "/task_manager/wait_task/id-1",
            get(async || Json(json!({ "state": "done", "error": "" }))),
        )
}

#[tokio::test]
async fn a_repair_goes_through_vnodes_and_tables_of_tablets() {
    for (ranges, vnodes) in [
        (Ranges::All, "theirs primary=false"),
        (Ranges::Primary, "theirs primary=true"),
    ] {
        let told = std::sync::Arc::default();
        // The node with the lowest host ID, which repairs tablets for all.
        let router = repairs("SUCCESSFUL", &told).merge(ring());
        let scylla = scylla(router).await;
        scylla.repair(ranges, &|_| {}).await.unwrap();
        let told = told.lock().unwrap();
        assert_eq!(*told, [vnodes, "readstates.read_states all"]);
    }
}

#[tokio::test]
async fn a_repair_that_fails_names_the_keyspace() {
    let router = repairs("FAILED", &std::sync::Arc::default());
    let error = scylla(router).await.repair(Ranges::All, &|_| {}).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "keyspace theirs: the repair ended as FAILED; the database's log tells why"
    );
}
