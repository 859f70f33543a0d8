//! The objects around a cluster: itself, its children, its volumes. Listed, watched, and deleted to see
//! whether they come back.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
};
use readstates_operator_api::{ReadStateCluster, Waiting, labels};
use serde::de::DeserializeOwned;

use crate::{
    cluster::{Cluster, PODS_CHANGE},
    wait::watched,
};

/// A kind of object that a cluster may have in its namespace.
pub trait Child:
    Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static
{
}

impl<K> Child for K where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static
{
}

impl Cluster {
    /// The object itself.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn get(&self) -> Result<ReadStateCluster> {
        Ok(self.api().get(&self.name).await?)
    }

    /// A condition of its status.
    ///
    /// # Errors
    /// When it has none of that type.
    pub async fn condition(&self, type_: &str) -> Result<Condition> {
        let conditions = self.get().await?.status.unwrap_or_default().conditions;
        let condition = conditions
            .into_iter()
            .find(|condition| condition.type_ == type_);
        condition.with_context(|| format!("{} has no condition {type_}", self.name))
    }

    /// Waits until the operator says that it waits, for this reason.
    ///
    /// # Errors
    /// When it does not say so within `limit`.
    pub async fn waits_on(&self, reason: &str, limit: Duration) -> Result<Waiting> {
        let says = |cluster: &ReadStateCluster| {
            let waiting = cluster
                .status
                .as_ref()
                .and_then(|status| status.waiting_on.as_ref());
            waiting.is_some_and(|waiting| waiting.reason == reason)
        };
        let what = format!("waits on {reason}");
        let seen = self.watch(&self.name, &what, limit, says).await?;
        seen.status
            .and_then(|status| status.waiting_on)
            .context("it waited and does not")
    }

    /// Waits until an object meets `condition`.
    ///
    /// # Errors
    /// When it does not.
    pub async fn sees<K>(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&K) -> bool + Send + Sync,
    ) -> Result<K>
    where
        K: Child,
        K::DynamicType: Default,
    {
        self.watch(name, what, PODS_CHANGE, condition).await
    }

    /// The same, with patience of its own.
    ///
    /// # Errors
    /// When it does not within `limit`.
    pub async fn sees_within<K>(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        condition: impl Fn(&K) -> bool + Send + Sync,
    ) -> Result<K>
    where
        K: Child,
        K::DynamicType: Default,
    {
        self.watch(name, what, limit, condition).await
    }

    pub(crate) async fn watch<K>(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        condition: impl Fn(&K) -> bool + Send + Sync,
    ) -> Result<K>
    where
        K: Child,
        K::DynamicType: Default,
    {
        let met = |object: Option<&K>| object.is_some_and(&condition);
        match watched(self.api::<K>(), name, what, limit, met).await {
            Ok(object) => object.context("watched until it was there, and it is not"),
            Err(error) => Err(error.context(self.describe().await?)),
        }
    }

    /// The kind's API in the cluster's namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Child,
        K::DynamicType: Default,
    {
        Api::namespaced(self.world.client(), &self.place.name)
    }

    /// Names of all objects of a kind that carry the cluster's label, sorted.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn names<K>(&self) -> Result<Vec<String>>
    where
        K: Child,
        K::DynamicType: Default,
    {
        let selector = ListParams::default().labels(&labels::of_cluster(&self.name));
        let mut names: Vec<String> = self
            .api::<K>()
            .list(&selector)
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        names.sort();
        Ok(names)
    }

    /// The cache pods, by ordinal.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn cache_pods(&self) -> Result<Vec<Pod>> {
        let selector = labels::selector_text(&self.name, labels::Component::Cache);
        let mut pods = self
            .api::<Pod>()
            .list(&ListParams::default().labels(&selector))
            .await?
            .items;
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// Names of the claims in the namespace that belong to the cluster, sorted.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn claims(&self) -> Result<Vec<String>> {
        let all = self
            .api::<PersistentVolumeClaim>()
            .list(&ListParams::default())
            .await?;
        let mut names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
        names.sort();
        Ok(names)
    }

    /// Deletes an object and waits until another has its name and meets `condition`.
    ///
    /// # Errors
    /// When it is not there, or does not come back.
    pub async fn delete_and_see_again<K>(
        &self,
        name: &str,
        condition: impl Fn(&K) -> bool + Send + Sync,
    ) -> Result<K>
    where
        K: Child,
        K::DynamicType: Default,
    {
        let api = self.api::<K>();
        let old = api
            .get(name)
            .await
            .with_context(|| format!("no {name} to delete"))?
            .uid();
        println!("    deleting {name}");
        api.delete(name, &DeleteParams::default()).await?;
        let another = |object: &K| object.uid() != old && condition(object);
        self.watch(name, "comes back", PODS_CHANGE, another).await
    }

    /// Deletes a cache pod and waits until another in its place is ready.
    ///
    /// # Errors
    /// When none becomes ready.
    pub async fn replace_pod(&self, ordinal: usize) -> Result<()> {
        let name = format!("{}-{ordinal}", self.name);
        self.delete_and_see_again::<Pod>(&name, is_ready).await?;
        Ok(())
    }
}

/// Whether it is there to stay and serves.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        })
}
