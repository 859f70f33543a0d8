//! Presences as Leases: `NAME-INCARNATION`, found by label, the presence as JSON in an annotation.
//!
//! Each process writes a Lease of its own, with the resourceVersion of its last write, so that a delayed
//! older presence cannot replace a newer one. `holderIdentity` and `renewTime` are for people who look;
//! no process counts by another machine's clock.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use parking_lot::Mutex;
use readstates_ring::Incarnation;

use super::{ANSWER_TIMEOUT, AnswerLimit, FIELD_MANAGER, Trouble};
use crate::ownership::store::{Presence, in_order};

/// Name of the ring whose members a Lease is of.
const RING: &str = "readstates.dev/ring";
const INCARNATION: &str = "readstates.dev/incarnation";
const PRESENCE: &str = "readstates.dev/presence";

/// How often a Lease that is not as it was left is looked at again.
const ATTEMPTS: usize = 3;

pub(super) struct Leases {
    api: Api<Lease>,
    /// For renewals alone: made where the first one is, so that no other thread's work is between a renewal and the
    /// API server.
    renewals: Mutex<Option<Api<Lease>>>,
    config: Config,
    ring: String,
    limit: AnswerLimit,
    /// The resourceVersion of the last write of each presence that is written here.
    written: Mutex<HashMap<Incarnation, String>>,
}

impl Leases {
    pub(super) fn new(api: Api<Lease>, config: Config, ring: &str) -> Self {
        Self {
            api,
            renewals: Mutex::default(),
            config,
            ring: ring.to_owned(),
            limit: AnswerLimit(ANSWER_TIMEOUT),
            written: Mutex::default(),
        }
    }

    pub(super) fn answered_within(self, limit: AnswerLimit) -> Self {
        Self { limit, ..self }
    }

    fn renewals(&self) -> Result<Api<Lease>, Trouble> {
        let mut renewals = self.renewals.lock();
        if let Some(api) = &*renewals {
            return Ok(api.clone());
        }
        let client = Client::try_from(self.config.clone())?;
        let namespace = self
            .api
            .namespace()
            .unwrap_or(&self.config.default_namespace);
        let api = Api::namespaced(client, namespace);
        Ok(renewals.insert(api).clone())
    }

    pub(super) async fn renew(
        &self,
        presence: &Presence,
        owner: Option<OwnerReference>,
    ) -> Result<(), Trouble> {
        let api = self.renewals()?;
        let mut lease = self.lease(presence, owner)?;
        let name = lease.name_any();
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        // Unknown from here on, until a write is answered.
        let mut version = self.written.lock().remove(&presence.incarnation);
        let mut attempts = 0;
        let written = loop {
            attempts += 1;
            lease.metadata.resource_version.clone_from(&version);
            let written = match version {
                Some(_) => {
                    let replaced = api.replace(&name, &params, &lease);
                    self.limit.answer(replaced).await
                }
                None => self.limit.answer(api.create(&params, &lease)).await,
            };
            match written {
                Ok(written) => break written,
                // It was forgotten, it is there since an answer was lost, or another writer (a person, a tool) changed
                // it.
                Err(Trouble::Refused(kube::Error::Api(status)))
                    if attempts < ATTEMPTS && matches!(status.code, 404 | 409) =>
                {
                    let there = self.limit.answer(api.get_opt(&name)).await?;
                    version = there.and_then(|lease| lease.resource_version());
                }
                Err(trouble) => return Err(trouble),
            }
        };
        if let Some(version) = written.resource_version() {
            self.written.lock().insert(presence.incarnation, version);
        }
        Ok(())
    }

    fn lease(&self, presence: &Presence, owner: Option<OwnerReference>) -> Result<Lease, Trouble> {
        let Presence {
            name, incarnation, ..
        } = presence;
        let labels = [
            (RING, self.ring.clone()),
            (INCARNATION, incarnation.to_string()),
        ];
        let texts = |pairs: &[(&str, String)]| -> BTreeMap<String, String> {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone()));
            owned.collect()
        };
        let json = serde_json::to_string(presence)?;
        Ok(Lease {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{incarnation}")),
                labels: Some(texts(&labels)),
                annotations: Some(texts(&[(PRESENCE, json)])),
                owner_references: owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(incarnation.to_string()),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        })
    }

    /// Without a resourceVersion in the request, the API server answers with what is, not with what it
    /// remembers.
    async fn list(&self, selector: String) -> Result<Vec<Lease>, Trouble> {
        let params = ListParams::default().labels(&selector);
        Ok(self.limit.answer(self.api.list(&params)).await?.items)
    }

    pub(super) async fn presences(&self) -> Result<Vec<Presence>, Trouble> {
        let leases = self.list(format!("{RING}={}", self.ring)).await?;
        let presences: Result<Vec<Presence>, Trouble> = leases.iter().map(presence).collect();
        let mut presences = presences?;
        in_order(&mut presences);
        Ok(presences)
    }

    pub(super) async fn forget(&self, incarnation: Incarnation) -> Result<(), Trouble> {
        let selector = format!("{RING}={},{INCARNATION}={incarnation}", self.ring);
        for lease in self.list(selector).await? {
            let params = DeleteParams::default();
            match self
                .limit
                .answer(self.api.delete(&lease.name_any(), &params))
                .await
            {
                Ok(_) => {}
                Err(Trouble::Refused(kube::Error::Api(status))) if status.is_not_found() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }
}

fn presence(lease: &Lease) -> Result<Presence, Trouble> {
    let json = lease.annotations().get(PRESENCE);
    serde_json::from_str(json.map_or("", String::as_str)).map_err(|source| Trouble::NoPresence {
        name: lease.name_any(),
        source,
    })
}
