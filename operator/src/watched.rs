//! The watch of `ReadStateCluster`s. One that this operator cannot read, such as one written for a later release, is
//! reported and left alone; the others go on.

use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    core::{DeserializeGuard, error_boundary::InvalidObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use readstates_operator_api::ReadStateCluster;

use crate::telemetry;

/// What happens to the clusters of one namespace, or of all.
pub(crate) fn clusters(
    client: Client,
    namespace: Option<&str>,
) -> impl Stream<Item = watcher::Result<Event<ReadStateCluster>>> + Send + 'static {
    type Guarded = DeserializeGuard<ReadStateCluster>;
    let api: Api<Guarded> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    events.filter_map(async |event| event.map(readable).transpose())
}

fn readable(event: Event<DeserializeGuard<ReadStateCluster>>) -> Option<Event<ReadStateCluster>> {
    match event {
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
        Event::InitApply(DeserializeGuard(Ok(cluster))) => Some(Event::InitApply(cluster)),
        Event::Apply(DeserializeGuard(Ok(cluster))) => Some(Event::Apply(cluster)),
        Event::Delete(DeserializeGuard(Ok(cluster))) => Some(Event::Delete(cluster)),
        Event::InitApply(DeserializeGuard(Err(invalid)))
        | Event::Apply(DeserializeGuard(Err(invalid))) => {
            report(&invalid);
            None
        }
        // It is forgotten by its name; what it said does not matter any more.
        Event::Delete(DeserializeGuard(Err(InvalidObject { metadata, .. }))) => {
            let nothing = serde_json::json!({ "database": {} });
            let spec = serde_json::from_value(nothing).ok()?;
            let mut cluster = ReadStateCluster::new("", spec);
            cluster.metadata = metadata;
            Some(Event::Delete(cluster))
        }
    }
}

fn report(InvalidObject { error, metadata }: &InvalidObject) {
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    tracing::error!(
        name,
        namespace,
        error,
        "failed to read a ReadStateCluster, which is left as it is; does it need a later operator?"
    );
    telemetry::unreadable();
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn guarded(database: serde_json::Value) -> DeserializeGuard<ReadStateCluster> {
        let cluster = json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
            "metadata": { "name": "chat", "namespace": "talk" }, "spec": { "database": database },
        });
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn a_cluster_of_a_later_release_is_passed_over_and_can_still_be_deleted() {
        let later = || guarded(json!({ "engine": "NotYetInvented" }));
        assert!(readable(Event::Apply(later())).is_none());
        assert!(readable(Event::InitApply(later())).is_none());
        match readable(Event::Delete(later())) {
            Some(Event::Delete(cluster)) => assert_eq!(cluster.name_any(), "chat"),
            other => panic!("{other:?}"),
        }
        let ours = guarded(json!({ "embedded": {} }));
        assert!(matches!(
            readable(Event::Apply(ours)),
            Some(Event::Apply(_))
        ));
    }
}
