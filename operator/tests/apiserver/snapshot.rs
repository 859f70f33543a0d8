//! Snapshot of a namespace once nothing is waited for, without what differs between two clusters of the same spec:
//! names of namespaces, UIDs, versions, times, and random values.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::{ReadStateCluster, labels};
use serde_json::Value;

use crate::{chat::owners, world::World};

/// Objects by `Kind name`, and the slots that each member owns.
#[derive(Debug)]
pub(crate) struct Snapshot {
    objects: BTreeMap<String, Value>,
    slots: BTreeMap<String, usize>,
    cluster_uid: String,
}

/// All but the UID, which differs for every cluster.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.objects == other.objects && self.slots == other.slots
    }
}

/// Fields that say nothing of what was asked for.
const INCIDENTAL: &[&str] = &[
    "batch.kubernetes.io/controller-uid",
    "certificates",
    "claimUid",
    "clusterIP",
    "clusterIPs",
    "controller-revision-hash",
    "controller-uid",
    "creationTimestamp",
    "generation",
    "hostId",
    "lastRepaired",
    "lastTransitionTime",
    "managedFields",
    "observedGeneration",
    "process",
    "resourceVersion",
    "ringNumber",
    "since",
    "uid",
    // They follow from the rest, and from a login that is random.
    labels::APPLIED_HASH,
    labels::ISSUED_BY,
    labels::LOGIN,
    labels::REPLACE_HASH,
    labels::SPEC_HASH,
    labels::TEMPLATE_HASH,
];

impl Snapshot {
    pub(crate) async fn of(world: &World) -> Self {
        let mut shot = Self {
            objects: BTreeMap::new(),
            slots: owners(world).await,
            cluster_uid: world.get::<ReadStateCluster>("chat").await.uid().unwrap(),
        };
        shot.add::<ConfigMap>(world).await;
        shot.add::<Job>(world).await;
        shot.add::<NetworkPolicy>(world).await;
        shot.add::<PersistentVolumeClaim>(world).await;
        shot.add::<Pod>(world).await;
        shot.add::<PodDisruptionBudget>(world).await;
        shot.add::<Role>(world).await;
        shot.add::<RoleBinding>(world).await;
        shot.add::<Secret>(world).await;
        shot.add::<Service>(world).await;
        shot.add::<ServiceAccount>(world).await;
        shot.add::<StatefulSet>(world).await;
        shot.add::<ReadStateCluster>(world).await;
        shot
    }

    async fn add<K>(&mut self, world: &World)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let kind = K::kind(&());
        for object in world.api::<K>().list(&ListParams::default()).await.unwrap() {
            let mut value = serde_json::to_value(&object).unwrap();
            let fields = value.as_object_mut().unwrap();
            match &*kind {
                "ReadStateCluster" => {}
                "Secret" => drop(fields.remove("data")),
                _ => drop(fields.remove("status")),
            }
            let mut name = object.name_any();
            if name.ends_with("-database-nodes") {
                // Which identity a node drew says nothing; which pods have one does.
                for host_id in fields["data"].as_object_mut().unwrap().values_mut() {
                    *host_id = Value::from("HOST");
                }
            }
            strip(&mut value, &world.namespace, "NAMESPACE");
            // As which its keyspace is claimed.
            strip(&mut value, &self.cluster_uid, "CLUSTER");
            if kind == "Job" {
                // Its name follows from all that goes into it, among it a login that is random.
                strip(&mut value, &name, "JOB");
                "JOB".clone_into(&mut name);
            }
            let other = self.objects.insert(format!("{kind} {name}"), value);
            assert!(other.is_none(), "two of {kind} {name}");
        }
    }

    /// Where it differs from `other`.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.objects.keys().chain(other.objects.keys()).collect();
        let mut differences = Vec::new();
        for name in names {
            let of = |shot: &Self| shot.objects.get(name).cloned().unwrap_or_default();
            differ(name, &of(self), &of(other), &mut differences);
        }
        if self.slots != other.slots {
            differences.push(format!("slots: {:?}, {:?}", self.slots, other.slots));
        }
        differences
    }
}

/// Where one value differs from the other, as paths with both values.
fn differ(path: &str, one: &Value, other: &Value, differences: &mut Vec<String>) {
    match (one, other) {
        _ if one == other => {}
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let of = |fields: &serde_json::Map<String, Value>| {
                    fields.get(name).cloned().unwrap_or_default()
                };
                differ(&format!("{path}.{name}"), &of(one), &of(other), differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (place, (one, other)) in one.iter().zip(other).enumerate() {
                differ(&format!("{path}[{place}]"), one, other, differences);
            }
        }
        _ => differences.push(format!("{path}: {one}, {other}")),
    }
}

/// Takes out what is incidental, and this word.
fn strip(value: &mut Value, word: &str, instead: &str) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !INCIDENTAL.contains(&name.as_str()));
            for value in fields.values_mut() {
                strip(value, word, instead);
            }
        }
        Value::Array(items) => {
            for item in items {
                strip(item, word, instead);
            }
        }
        Value::String(text) => *text = without_ring_number(&text.replace(word, instead)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// "ring 47: all is well" without the number, which grows with every change on the way.
fn without_ring_number(text: &str) -> String {
    match text
        .strip_prefix("ring ")
        .and_then(|rest| rest.split_once(':'))
    {
        Some((number, rest)) if number.parse::<u64>().is_ok() => format!("ring N:{rest}"),
        Some(_) | None => text.to_owned(),
    }
}
