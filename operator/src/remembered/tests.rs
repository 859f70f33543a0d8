use std::sync::atomic::{AtomicU64, Ordering};

use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api,
    api::PostParams,
    client::Body,
    core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt},
};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// An API server of one object at each path, and how often it was asked.
#[derive(Clone)]
struct Server {
    asked: Arc<AtomicU64>,
    /// What it says of Secrets.
    secret: Arc<Mutex<Value>>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            asked: Arc::default(),
            secret: Arc::new(Mutex::new(json!({ "metadata": { "name": "login" } }))),
        }
    }
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, kube::Error>(server.answer(&request)) }
        };
        Client::new(service_fn(answer), "talk")
    }

    fn answer(&self, request: &Request<Body>) -> Response<Body> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let path = request.uri().path();
        let (status, answer) = match path {
            _ if path.ends_with("/gone") => (StatusCode::NOT_FOUND, failure(404, "NotFound")),
            _ if path.ends_with("/away") => (
                StatusCode::SERVICE_UNAVAILABLE,
                failure(503, "ServiceUnavailable"),
            ),
            _ if path.contains("/secrets/") => {
                (StatusCode::OK, self.secret.lock().unwrap().clone())
            }
            _ => (StatusCode::OK, json!({ "metadata": { "name": "chat-0" } })),
        };
        let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
        *response.status_mut() = status;
        response
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

fn failure(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "message": "", "reason": reason, "code": code })
}

fn cluster(name: &str) -> ReadStateCluster {
    let spec = serde_json::from_value(json!({ "database": {} })).unwrap();
    let mut cluster = ReadStateCluster::new(name, spec);
    cluster.metadata.namespace = Some("talk".to_owned());
    cluster
}

fn pod_of(cluster: &str) -> PartialObjectMeta<Pod> {
    ObjectMeta {
        name: Some(format!("{cluster}-0")),
        namespace: Some("talk".to_owned()),
        labels: Some([(labels::CLUSTER.to_owned(), cluster.to_owned())].into()),
        ..ObjectMeta::default()
    }
    .into_response_partial()
}

async fn pod(look: &Look, name: &str) -> kube::Result<Option<Pod>> {
    let api: Api<Pod> = Api::namespaced(look.client(), "talk");
    api.get_opt(name).await
}

async fn secret(look: &Look) -> kube::Result<Option<Secret>> {
    let api: Api<Secret> = Api::namespaced(look.client(), "talk");
    api.get_opt("login").await
}

/// Remembers a whole look at a pod, a pod that is not there, and a Secret.
async fn remembered(server: &Server) -> Remembered {
    let (remembered, chat) = (Remembered::watched(), cluster("chat"));
    let look = remembered.whole(&server.client(), &chat);
    assert!(pod(&look, "chat-0").await.unwrap().is_some());
    assert!(pod(&look, "gone").await.unwrap().is_none());
    assert!(secret(&look).await.unwrap().is_some());
    remembered.looked(&chat, &look, true);
    remembered
}

#[tokio::test]
async fn a_quiet_look_sees_what_the_whole_one_saw_and_asks_nobody() {
    let server = Server::default();
    let remembered = remembered(&server).await;
    let before = server.asked();
    let look = remembered.quiet(&server.client(), &cluster("chat"));
    let look = look.unwrap();
    assert_eq!(
        pod(&look, "chat-0").await.unwrap().unwrap().metadata.name,
        Some("chat-0".to_owned())
    );
    assert!(pod(&look, "gone").await.unwrap().is_none());
    assert!(secret(&look).await.unwrap().is_some());
    assert_eq!(server.asked(), before);
}

#[tokio::test]
async fn a_quiet_look_writes_nothing_and_knows_nothing_that_was_not_seen() {
    let server = Server::default();
    let remembered = remembered(&server).await;
    let before = server.asked();
    let look = remembered.quiet(&server.client(), &cluster("chat"));
    let look = look.unwrap();
    pod(&look, "chat-1").await.unwrap_err();
    let api: Api<Secret> = Api::namespaced(look.client(), "talk");
    let created = api.create(&PostParams::default(), &Secret::default()).await;
    created.unwrap_err();
    assert_eq!(server.asked(), before);
}

#[tokio::test]
async fn an_event_of_the_cluster_ends_what_is_remembered_and_one_of_another_does_not() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let remembered = remembered(&server).await;
    let is_kept = |remembered: &Remembered| remembered.quiet(&server.client(), &chat).is_some();
    remembered.note(&Event::Apply(pod_of("other")));
    remembered.note_cluster(&Event::Apply(cluster("other")));
    assert!(is_kept(&remembered));
    remembered.note(&Event::Delete(pod_of("chat")));
    assert!(!is_kept(&remembered));
}

#[tokio::test]
async fn each_kind_of_event_ends_what_is_remembered() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let events: [fn(&Remembered); 4] = [
        |r| r.note(&Event::Apply(pod_of("chat"))),
        |r| r.note::<PartialObjectMeta<Pod>>(&Event::Init),
        |r| r.note_cluster(&Event::Apply(cluster("chat"))),
        |r| r.note_cluster(&Event::Delete(cluster("chat"))),
    ];
    for event in events {
        let remembered = remembered(&server).await;
        assert!(remembered.quiet(&server.client(), &chat).is_some());
        event(&remembered);
        assert!(remembered.quiet(&server.client(), &chat).is_none());
    }
}

#[tokio::test]
async fn a_look_during_which_something_happened_is_not_remembered() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let remembered = Remembered::watched();
    let look = remembered.whole(&server.client(), &chat);
    pod(&look, "chat-0").await.unwrap();
    remembered.note(&Event::Apply(pod_of("chat")));
    remembered.looked(&chat, &look, true);
    assert!(remembered.quiet(&server.client(), &chat).is_none());
}

#[tokio::test]
async fn a_look_that_wrote_failed_or_found_work_is_not_remembered() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let remembered = Remembered::watched();
    let kept = || remembered.quiet(&server.client(), &chat).is_some();

    let look = remembered.whole(&server.client(), &chat);
    let api: Api<Pod> = Api::namespaced(look.client(), "talk");
    let _ = api.create(&PostParams::default(), &Pod::default()).await;
    remembered.looked(&chat, &look, true);
    assert!(!kept(), "it wrote");

    let look = remembered.whole(&server.client(), &chat);
    pod(&look, "away").await.unwrap_err();
    remembered.looked(&chat, &look, true);
    assert!(!kept(), "the API server did not answer");

    let look = remembered.whole(&server.client(), &chat);
    pod(&look, "chat-0").await.unwrap();
    remembered.looked(&chat, &look, false);
    assert!(!kept(), "something was to be done");
}

#[tokio::test(start_paused = true)]
async fn a_whole_look_follows_after_a_while_whatever_the_watches_tell() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let remembered = remembered(&server).await;
    tokio::time::advance(WHOLE - Duration::from_secs(1)).await;
    assert!(remembered.quiet(&server.client(), &chat).is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(remembered.quiet(&server.client(), &chat).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_somebody_else_is_asked_for_again_and_a_change_is_no_quiet_matter() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let remembered = remembered(&server).await;
    let before = server.asked();
    for _ in 0..2 {
        tokio::time::advance(OF_OTHERS).await;
        let look = remembered.quiet(&server.client(), &chat).unwrap();
        secret(&look).await.unwrap();
        secret(&look).await.unwrap();
        pod(&look, "chat-0").await.unwrap();
    }
    assert_eq!(server.asked(), before + 2);
    *server.secret.lock().unwrap() = json!({ "metadata": { "name": "login", "uid": "new" } });
    tokio::time::advance(OF_OTHERS).await;
    let look = remembered.quiet(&server.client(), &chat).unwrap();
    secret(&look).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_the_operator_alone_writes_is_not_asked_for_and_a_login_is() {
    let chat = cluster("chat");
    for (key, asked) in [("tls.key", 0), (look::PASSWORD, 1)] {
        let server = Server::default();
        *server.secret.lock().unwrap() = json!({
            "metadata": { "name": "login", "labels": { (labels::CLUSTER): "chat" } },
            "data": { (key): "" },
        });
        let remembered = remembered(&server).await;
        let before = server.asked();
        tokio::time::advance(OF_OTHERS).await;
        let look = remembered.quiet(&server.client(), &chat).unwrap();
        secret(&look).await.unwrap();
        assert_eq!(server.asked() - before, asked, "{key}");
    }
    assert_eq!(look::PASSWORD, crate::names::PASSWORD_KEY);
}

#[tokio::test]
async fn without_watches_nothing_is_remembered() {
    let (server, chat) = (Server::default(), cluster("chat"));
    let remembered = Remembered::default();
    let look = remembered.whole(&server.client(), &chat);
    pod(&look, "chat-0").await.unwrap();
    remembered.looked(&chat, &look, true);
    assert!(remembered.quiet(&server.client(), &chat).is_none());
}
