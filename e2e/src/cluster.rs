//! One `ReadStateCluster`: applied, waited for and looked at as a user does.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Pod, Secret},
        discovery::v1::EndpointSlice,
    },
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use readstates_identity::Role;
use readstates_operator_api::{ReadStateCluster, ReadStateClusterSpec, labels};
use serde_json::{Value, json};

use crate::{
    cassandra::Cassandra,
    forward::Forwards,
    http::{Http, Target},
    objects::is_ready,
    pod_port::Proof,
    specs::{TOKEN, TOKEN_SECRET},
    users::{CHANNEL, MESSAGE, Users},
    wait::{Look, until},
    world::{Place, World},
};

/// A cold start of Cassandra on a busy machine, its schema, and the cache pods after it.
pub(crate) const COMES_UP: Duration = Duration::from_mins(6);
/// Pods write what they hold when they stop, and need nothing from others to start.
pub(crate) const PODS_CHANGE: Duration = Duration::from_mins(3);
/// A slow database takes a few users at a time.
const WRITTEN: Duration = Duration::from_mins(1);

/// A cluster with a database of its own is held for 15 minutes at most, and is collected after that.
const GOES: Duration = Duration::from_mins(17);

/// The ports of a cache pod: that of callers, and that of the operator.
pub(crate) const API: u16 = 7400;
const ADMIN: u16 = 7401;

/// A `ReadStateCluster` by name; whether it exists is another question.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) world: World,
    pub(crate) place: Place,
    pub(crate) name: String,
    forwards: Arc<Forwards>,
}

impl Cluster {
    pub(crate) fn new(world: World, place: Place, name: String) -> Self {
        let pods = Api::namespaced(world.client(), &place.name);
        Self {
            world,
            place,
            name,
            forwards: Arc::new(Forwards::new(pods, API)),
        }
    }

    /// `kubectl apply`, beside a Secret with the tests' token.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn apply(&self, spec: ReadStateClusterSpec) -> Result<()> {
        self.put_tokens(TOKEN, None).await?;
        let resource = ReadStateCluster::new(&self.name, spec);
        let text = serde_json::to_string(&resource)?;
        let arguments = ["apply", "-n", &self.place.name, "-f", "-"];
        self.world
            .kubectl_with(&arguments, &text)
            .await?
            .success()?;
        Ok(())
    }

    /// Puts the token of the cluster's caller into its Secret, and the one before it where that is still to be taken.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn put_tokens(&self, token: &str, previous: Option<&str>) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": TOKEN_SECRET },
            "data": {
                "token": ByteString(token.into()),
                "previous-token": previous.map(|token| ByteString(token.into())),
            },
        });
        let parameters = PatchParams::apply("readstates-e2e").force();
        self.api::<Secret>()
            .patch(TOKEN_SECRET, &parameters, &Patch::Apply(secret))
            .await?;
        Ok(())
    }

    /// `kubectl wait` for the condition Available.
    ///
    /// # Errors
    /// When that takes too long: with what the operator says about it.
    pub async fn available(&self) -> Result<()> {
        match self.wait_for("Available", COMES_UP).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.describe().await?)),
        }
    }

    /// `kubectl wait --for=condition=TYPE`.
    ///
    /// # Errors
    /// When it does not become true.
    pub async fn wait_for(&self, condition: &str, limit: Duration) -> Result<()> {
        let condition = format!("--for=condition={condition}");
        let limit = format!("--timeout={}s", limit.as_secs());
        self.kubectl(&["wait", &condition, &limit, &self.reference()])
            .await?;
        Ok(())
    }

    /// Waits until the operator has seen the spec as it is now, and has nothing left to do for it.
    ///
    /// # Errors
    /// When that takes too long: with what the operator says about it.
    pub async fn at_rest(&self) -> Result<()> {
        let what = format!("{} is at rest", self.name);
        let api = self.api::<ReadStateCluster>();
        let seen = until(&what, COMES_UP, async || {
            let cluster = api.get(&self.name).await?;
            let status = cluster.status.unwrap_or_default();
            let seen = status.observed_generation == cluster.metadata.generation;
            let progressing = status.conditions.iter().find(|c| c.type_ == "Progressing");
            Ok(match progressing {
                Some(progressing) if seen && progressing.status == "False" => Look::Done(()),
                Some(progressing) => Look::NotYet(progressing.message.clone()),
                None => Look::NotYet("nothing is known yet".to_owned()),
            })
        })
        .await;
        match seen {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.describe().await?)),
        }
    }

    /// `kubectl scale`.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn scale(&self, replicas: usize) -> Result<()> {
        let replicas_argument = format!("--replicas={replicas}");
        self.kubectl(&["scale", &replicas_argument, &self.reference()])
            .await?;
        Ok(())
    }

    /// Waits until exactly `count` cache pods are there, all ready, and the ring has that many members.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn has_members(&self, count: usize) -> Result<()> {
        let what = format!("{} has {count} members", self.name);
        let seen = until(&what, PODS_CHANGE, async || {
            let pods = self.cache_pods().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            Ok(if pods.len() == count && ready == count {
                Look::Done(())
            } else {
                Look::NotYet(format!("{ready} of {} pods are ready", pods.len()))
            })
        })
        .await;
        if let Err(error) = seen {
            return Err(error.context(self.describe().await?));
        }
        self.wait_for("CacheReady", PODS_CHANGE).await?;
        self.wait_for("RingStable", PODS_CHANGE).await
    }

    /// `kubectl annotate --overwrite`.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn annotate(&self, key: &str, value: &str) -> Result<()> {
        let annotation = format!("{key}={value}");
        self.kubectl(&["annotate", "--overwrite", &self.reference(), &annotation])
            .await?;
        Ok(())
    }

    /// `kubectl delete`, and until it is gone.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn delete(&self) -> Result<()> {
        let limit = format!("--timeout={}s", GOES.as_secs());
        let reference = self.reference();
        // A first attempt of which the answer was lost may have been carried out.
        let delete = ["delete", "--wait", "--ignore-not-found", &limit, &reference];
        let deleted = self.kubectl(&delete).await;
        match deleted {
            Ok(_) => Ok(()),
            Err(error) => Err(error.context(self.describe().await?)),
        }
    }

    /// Runs kubectl in the cluster's namespace, and gives what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [&["-n", self.place.name.as_str()], arguments].concat();
        self.world.kubectl(&arguments).await?.success()
    }

    /// Runs kubectl in its namespace; what it complains about.
    ///
    /// # Errors
    /// When it succeeds.
    pub async fn refused(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [&["-n", self.place.name.as_str()], arguments].concat();
        self.world.kubectl(&arguments).await?.refusal()
    }

    /// The cluster's Service.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn service(&self) -> Result<Http> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.world.client(), &self.place.name);
        Http::new(self.forwards.clone(), Target::service(&self.name, slices))
    }

    /// One cache pod.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn member(&self, ordinal: usize) -> Result<Http> {
        let pod = format!("{}-{ordinal}", self.name);
        Http::new(self.forwards.clone(), Target::Pod(pod))
    }

    /// Has a cache pod write everything that the database does not have yet.
    ///
    /// # Errors
    /// When some could not be written.
    pub async fn flush(&self, ordinal: usize) -> Result<u64> {
        let pod = format!("{}-{ordinal}", self.name);
        let port = self.pod_port(&pod, ADMIN, Role::Member).await?;
        let operator = Proof::Certificate(Box::new(self.pems(Role::Operator).await?));
        let answer: Value = port
            .told(&operator, Method::POST, "/admin/v1/flush")
            .await?;
        ensure!(
            answer["failed_users"] == 0,
            "{}-{ordinal}: {answer}",
            self.name
        );
        answer["flushed_users"]
            .as_u64()
            .with_context(|| format!("no number flushed: {answer}"))
    }

    /// The rows of the cluster's database.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn cassandra(&self) -> Result<Cassandra> {
        let selector = labels::selector_text(&self.name, labels::Component::Database);
        let pods = self.api::<Pod>();
        let members = pods
            .list(&ListParams::default().labels(&selector))
            .await?
            .items;
        Cassandra::connect(&pods, &members, self.database_login().await?).await
    }

    /// Makes sure that the database has a row of each of these users.
    ///
    /// # Errors
    /// With the first that it has none of, or when it cannot be reached.
    pub async fn has_rows_of(&self, users: &[u64]) -> Result<()> {
        let rows = self.cassandra().await?;
        for user in users {
            ensure!(rows.row(*user).await?.is_some(), "user {user} has no row");
        }
        Ok(())
    }

    /// Writes new users through the service and has the first cache pod write them to the database, which may be too
    /// slow for all of them at once.
    ///
    /// # Errors
    /// When it does not acknowledge one, or they are not written after a minute.
    pub async fn told_of(&self, count: u64) -> Result<Vec<u64>> {
        let users = Users::fresh().take(count);
        for user in &users {
            self.service()?.ack(*user, CHANNEL, MESSAGE).await?;
        }
        until("everybody is written", WRITTEN, async || {
            Ok(match self.flush(0).await {
                Ok(_) => Look::Done(()),
                Err(some) => Look::NotYet(format!("{some:#}")),
            })
        })
        .await?;
        Ok(users)
    }

    /// User and password of the cache pods, of which a database from before takes no notice.
    async fn database_login(&self) -> Result<(String, String)> {
        let name = format!("{}-db-login", self.name);
        let mut data = self
            .api::<Secret>()
            .get(&name)
            .await?
            .data
            .unwrap_or_default();
        let mut value = |key: &str| -> Result<String> {
            let bytes = data
                .remove(key)
                .with_context(|| format!("{name} has no {key}"))?;
            Ok(String::from_utf8(bytes.0)?)
        };
        Ok((value("username")?, value("password")?))
    }

    /// What a person would look at first: status, pods, events.
    pub(crate) async fn describe(&self) -> Result<String> {
        let mut text = String::new();
        let status = ["get", &self.reference(), "-o", "jsonpath={.status}"];
        let pods = ["get", "pods,jobs", "-o", "wide"];
        let events = [
            "get",
            "events",
            "--sort-by=.lastTimestamp",
            "-o",
            "custom-columns=\
            OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message",
        ];
        for arguments in [&status[..], &pods[..], &events[..]] {
            text = format!(
                "{text}\n{}",
                self.kubectl(arguments)
                    .await
                    .unwrap_or_else(|e| format!("{e:#}"))
            );
        }
        Ok(text)
    }

    fn reference(&self) -> String {
        format!("readstatecluster/{}", self.name)
    }
}
