//! Identity of a cluster: the names, labels and owner reference that everything else is made from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use readstates_identity::{ClusterName, Role};
use readstates_operator_api::{
    ReadStateCluster,
    labels::{self, Component},
};

use crate::error::Error;

/// Before the names of ClusterRoleBindings, which all namespaces share. The chart's admission policy knows it.
const TOKEN_REVIEW: &str = "readstates.dev:token-review";

/// The identity of one `ReadStateCluster`, with the names of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub namespace: String,
    pub name: String,
    /// Its UID: a cluster created again under the same name has a different one.
    pub uid: String,
    /// Generation of the spec at hand.
    pub generation: i64,
    /// Whether it takes over objects of its name that have no owner: a user has consented for this very cluster.
    pub adopts: bool,
}

impl Identity {
    /// Reads it from an object of the API server.
    ///
    /// # Errors
    /// When the object was never stored.
    pub fn of(cluster: &ReadStateCluster) -> Result<Self, Error> {
        let meta = cluster.meta();
        let need = |value: &Option<String>, field| value.clone().ok_or(Error::Nameless { field });
        Ok(Self {
            namespace: need(&meta.namespace, "namespace")?,
            name: need(&meta.name, "name")?,
            uid: need(&meta.uid, "uid")?,
            generation: meta.generation.unwrap_or_default(),
            adopts: meta.uid.is_some()
                && cluster.annotations().get(labels::ADOPT) == meta.uid.as_ref(),
        })
    }

    /// Whether an object is this cluster's, or its to take over.
    #[must_use]
    pub fn owns(&self, object: &ObjectMeta) -> bool {
        let mut owners = object.owner_references.iter().flatten();
        match owners.find(|owner| owner.controller == Some(true)) {
            Some(owner) => owner.uid == self.uid,
            None => self.adopts && self.is_of_its_name(object),
        }
    }

    /// What a person can do about an object of a name that it needs, and which is not its own.
    #[must_use]
    pub fn conflict(&self, object: &str, owner: Option<&str>) -> String {
        let Some(owner) = owner else {
            return format!(
                "{object} exists already and has no known owner: delete or rename it, give this cluster another \
                 name, or, where an earlier cluster of this name has left it, have it taken over with the annotation \
                 {}={}",
                labels::ADOPT,
                self.uid
            );
        };
        format!(
            "{object} exists already and belongs to {owner}: delete or rename it, or give this cluster another name"
        )
    }

    fn is_of_its_name(&self, object: &ObjectMeta) -> bool {
        let labels = object.labels.as_ref();
        labels.and_then(|labels| labels.get(labels::CLUSTER)) == Some(&self.name)
    }

    /// Metadata of a child.
    #[must_use]
    pub fn child(&self, name: String, component: Component) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.clone()),
            labels: Some(labels::all(&self.name, component)),
            owner_references: Some(vec![self.owner_reference()]),
            ..ObjectMeta::default()
        }
    }

    /// The labels that select the pods of `component`.
    #[must_use]
    pub fn selector(&self, component: Component) -> BTreeMap<String, String> {
        labels::selector(&self.name, component)
    }

    /// Makes a child go when the cluster goes.
    #[must_use]
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: ReadStateCluster::api_version(&()).into_owned(),
            kind: ReadStateCluster::kind(&()).into_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// StatefulSet, ServiceAccount, PodDisruptionBudget and ring of the cache, and the Service that
    /// clients use.
    #[must_use]
    pub fn cache(&self) -> String {
        self.name.clone()
    }

    /// Headless Service that gives each cache pod a name of its own.
    #[must_use]
    pub fn cache_members(&self) -> String {
        format!("{}-members", self.name)
    }

    /// NetworkPolicy of the schema Job, and the beginning of its name.
    #[must_use]
    pub fn schema(&self) -> String {
        format!("{}-schema", self.name)
    }

    /// NetworkPolicy of the Job that restores a backup, and the beginning of its name.
    #[must_use]
    pub fn restore(&self) -> String {
        format!("{}-restore", self.name)
    }

    /// Secret with the callers of the API, as cache pods read it.
    #[must_use]
    pub fn access(&self) -> String {
        format!("{}-access", self.name)
    }

    /// Headless Service, ServiceAccount and PodDisruptionBudget of the database.
    #[must_use]
    pub fn database(&self) -> String {
        format!("{}-db", self.name)
    }

    /// Secret with the token of the agents in database pods.
    #[must_use]
    pub fn agent_secret(&self) -> String {
        format!("{}-db-agent", self.name)
    }

    /// Secret with the login of cache pods, where the user gives none.
    #[must_use]
    pub fn login_secret(&self) -> String {
        format!("{}-db-login", self.name)
    }

    /// Secret with the password of the database's superuser.
    #[must_use]
    pub fn superuser_secret(&self) -> String {
        format!("{}-db-superuser", self.name)
    }

    /// Certificate for CQL where cert-manager makes it, and its Secret.
    #[must_use]
    pub fn certificate(&self) -> String {
        format!("{}-db-tls", self.name)
    }

    /// Certificate of the API where cert-manager makes it, and its Secret.
    #[must_use]
    pub fn api_certificate(&self) -> String {
        format!("{}-api-tls", self.name)
    }

    /// Host name, within the Kubernetes cluster, of the Service that clients use.
    #[must_use]
    pub fn api_host(&self) -> String {
        format!("{}.{}.svc", self.cache(), self.namespace)
    }

    /// ClusterRoleBinding by which cache pods may have tokens reviewed. No other cluster has the same: neither part
    /// can have a colon.
    #[must_use]
    pub fn token_review_binding(&self) -> String {
        format!("{TOKEN_REVIEW}:{}:{}", self.namespace, self.name)
    }

    /// What certificates call this cluster.
    ///
    /// # Errors
    /// When Kubernetes has given it a name that no certificate can have, which the CRD rules out.
    pub fn cluster_name(&self) -> Result<ClusterName, Error> {
        let name = format!("{}.{}", self.name, self.namespace);
        name.parse().map_err(|source| Error::Named { source })
    }

    /// Secret with the certificate authority of this cluster: the operator alone reads it.
    #[must_use]
    pub fn identity_authority(&self) -> String {
        format!("{}-identity-ca", self.name)
    }

    /// Secret (and Certificate, where cert-manager makes it) of the processes of a role.
    #[must_use]
    pub fn identity_secret(&self, role: Role) -> String {
        format!("{}-{role}-tls", self.name)
    }

    /// Host name, within the Kubernetes cluster, of all members of the database.
    #[must_use]
    pub fn database_host(&self) -> String {
        format!("{}.{}.svc", self.database(), self.namespace)
    }

    /// Claim of the volume of one database pod.
    #[must_use]
    pub fn claim(&self, pod: &str) -> String {
        format!("data-{pod}")
    }

    /// ConfigMap that tells each database pod which volume it has, for its super-disk.
    #[must_use]
    pub fn super_disks(&self) -> String {
        format!("{}-super-disks", self.name)
    }

    /// ConfigMap that tells each database pod which node it is.
    #[must_use]
    pub fn nodes(&self) -> String {
        format!("{}-database-nodes", self.name)
    }

    /// StatefulSet of one rack.
    #[must_use]
    pub fn rack(&self, rack: &str) -> String {
        rack_set(&self.name, rack)
    }

    /// Host name, within the Kubernetes cluster, of pod `ordinal` of a StatefulSet behind a headless
    /// Service. The cluster's domain is left to the resolver.
    #[must_use]
    pub fn pod_host(&self, stateful_set: &str, ordinal: i32, service: &str) -> String {
        format!("{stateful_set}-{ordinal}.{service}.{}.svc", self.namespace)
    }
}

/// StatefulSet of a rack of the cluster of that name.
#[must_use]
pub fn rack_set(cluster: &str, rack: &str) -> String {
    format!("{cluster}-db-{rack}")
}
