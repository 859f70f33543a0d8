//! An API server in memory, for tests of what is read, written and told: it keeps objects by their paths, and fails where
//! it is told to. It checks nothing, and no controller acts on what it keeps.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body, runtime::events::Reporter};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};
use tower::service_fn;

use crate::{
    agents::HttpAgents, backoff::Failures, connections::Connections, context::Context,
    error::Error, fixtures::images, known::Known, reconcile::reconcile, remembered::Remembered,
    rollouts::Rollouts,
};

/// Where the objects of the fixtures' namespace are.
pub(crate) const CORE: &str = "/api/v1/namespaces/talk";
pub(crate) const OURS: &str = "/apis/readstates.dev/v1alpha1/namespaces/talk";
/// What it says wherever it fails.
pub(crate) const WORDS: &str = "it went wrong because the test wants it";

/// Clones are of the same one.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// By path.
    objects: BTreeMap<String, Value>,
    /// Ends of `METHOD PATH`, and how such requests are answered.
    failing: Vec<(String, StatusCode)>,
    /// Every write that was done, as `METHOD PATH`.
    written: Vec<String>,
    /// The last version of an object.
    version: u64,
}

impl FakeApi {
    /// One with the cluster `chat` of this spec.
    pub(crate) fn with_cluster(spec: &str) -> Self {
        let api = Self::default();
        let spec: Value = serde_yaml_ng::from_str(spec).unwrap();
        api.put(
            &format!("{OURS}/readstateclusters/chat"),
            json!({
                "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
                "metadata": { "name": "chat", "namespace": "talk", "generation": 1 }, "spec": spec,
            }),
        );
        api
    }

    /// This object is there from now on.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.kept().store(path, object);
    }

    /// It is gone from now on.
    pub(crate) fn take(&self, path: &str) {
        self.kept().objects.remove(path).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.kept().objects.get(path).cloned()
    }

    /// Changes an object.
    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(path).unwrap();
        change(&mut object);
        self.put(path, object);
    }

    /// Requests whose `METHOD PATH` ends so fail from now on; a creation has the path of its object.
    pub(crate) fn fail(&self, end: &str, status: StatusCode) {
        self.kept().failing.push((end.to_owned(), status));
    }

    /// No request fails any more.
    pub(crate) fn heal(&self) {
        self.kept().failing.clear();
    }

    /// Every write that was done, as `METHOD PATH`.
    pub(crate) fn written(&self) -> Vec<String> {
        self.kept().written.clone()
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let answer = move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, kube::Error>(api.answer(request).await) }
        };
        Client::new(service_fn(answer), "talk")
    }

    /// One reconcile of `chat`.
    pub(crate) async fn reconcile(&self) -> Result<(), Error> {
        let cluster = Arc::new(self.cluster());
        let reconciled = Box::pin(reconcile(cluster, Arc::new(self.operator())));
        reconciled.await.map(|_| ())
    }

    pub(crate) fn cluster(&self) -> ReadStateCluster {
        let chat = self.get(&format!("{OURS}/readstateclusters/chat"));
        serde_json::from_value(chat.unwrap()).unwrap()
    }

    pub(crate) fn operator(&self) -> Context {
        Context {
            client: self.client(),
            reporter: Reporter::from("tests"),
            connections: Connections::new().unwrap(),
            agents: Arc::new(HttpAgents),
            known: Known::default(),
            remembered: Remembered::default(),
            failures: Failures::default(),
            rollouts: Rollouts::default(),
            concurrency: 1,
            namespace: "system".to_owned(),
            token_review_role: None,
            images: images(),
        }
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (status, answer) = self.kept().answer(&parts.method, parts.uri.path(), body);
        let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
        *response.status_mut() = status;
        response
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }
}

impl Kept {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let path = match body["metadata"]["name"].as_str() {
            Some(name) if *method == Method::POST => format!("{path}/{name}"),
            _ => path.to_owned(),
        };
        let asked = format!("{method} {path}");
        let mut failing = self.failing.iter();
        if let Some((_, status)) = failing.find(|(end, _)| asked.ends_with(end)) {
            return failure(*status);
        }
        if *method == Method::GET {
            return self.read(&path);
        }
        let (object, status) = match path.strip_suffix("/status") {
            Some(object) => (object, true),
            None => (path.as_str(), false),
        };
        let before = self.objects.get(object).cloned();
        let after = match (method, before) {
            (&Method::POST, Some(_)) => return failure(StatusCode::CONFLICT),
            (&Method::DELETE, None) => return failure(StatusCode::NOT_FOUND),
            (&Method::DELETE, Some(gone)) => {
                self.objects.remove(object);
                self.written.push(asked);
                return (StatusCode::OK, gone);
            }
            (&Method::PATCH, Some(mut object)) => {
                let change = if status {
                    json!({ "status": body["status"] })
                } else {
                    body
                };
                // What a status does not say any more is gone.
                if status {
                    object["status"] = Value::Null;
                }
                merge(&mut object, change);
                object
            }
            (_, _) => body,
        };
        self.written.push(asked);
        (StatusCode::OK, self.store(object, after))
    }

    fn read(&self, path: &str) -> (StatusCode, Value) {
        if let Some(object) = self.objects.get(path) {
            return (StatusCode::OK, object.clone());
        }
        let parts = |text: &str| text.split('/').count();
        let is_list = match path.split_once("/namespaces/") {
            Some((_, rest)) => parts(rest) == 2,
            None => parts(path) == 5,
        };
        let below = |(at, _): &(&String, &Value)| {
            let name = at
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| !name.contains('/'))
        };
        let items: Vec<_> = self.objects.iter().filter(below).map(|(_, o)| o).collect();
        match path {
            "/version" => (StatusCode::OK, json!({})),
            _ if is_list => (
                StatusCode::OK,
                json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items }),
            ),
            _ => failure(StatusCode::NOT_FOUND),
        }
    }

    /// Stores an object as another version of it.
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let before = self.objects.get(path);
        let uid = before.map_or_else(
            || json!(format!("uid-of-{path}")),
            |before| before["metadata"]["uid"].clone(),
        );
        let created = json!("2026-01-01T00:00:00Z");
        let meta = json!({
            "uid": uid, "resourceVersion": self.version.to_string(), "creationTimestamp": created,
        });
        merge(&mut object, json!({ "metadata": meta }));
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn failure(status: StatusCode) -> (StatusCode, Value) {
    // As Kubernetes writes it: NotFound.
    let reason = status.canonical_reason().unwrap_or_default();
    let reason = reason.replace(' ', "");
    let said = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": WORDS,
        "reason": reason, "code": status.as_u16(),
    });
    (status, said)
}

/// As a merge patch does.
fn merge(object: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *object = change;
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in change {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(&key);
        } else {
            merge(&mut object[&key], value);
        }
    }
}
