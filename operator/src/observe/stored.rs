//! Objects of our kinds as they are stored. One that this operator cannot read, such as one written for a later release,
//! keeps no other from being read: lists of them are of what is stored, and each is read by itself.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};

use crate::namespaced::Namespaced;

/// All of a namespace, unread.
///
/// # Errors
/// When the API server cannot be read.
pub async fn stored<K: Namespaced>(
    client: &Client,
    namespace: &str,
    which: &ListParams,
) -> kube::Result<Vec<DynamicObject>> {
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    Ok(api.list(which).await?.items)
}

/// Reads a stored object as this release knows its kind.
///
/// # Errors
/// When a field is missing or has a value that this release does not know.
pub fn read<K: Namespaced>(object: &DynamicObject) -> Result<K, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(object)?)
}
