//! Identities of pods. None comes with a token: the pods that talk to the API server, which are the
//! cache pods, ask for theirs.

use k8s_openapi::api::core::v1::ServiceAccount;
use readstates_operator_api::labels::Component;

use crate::validate::ValidatedCluster;

pub(super) fn of(cluster: &ValidatedCluster, component: Component) -> ServiceAccount {
    ServiceAccount {
        metadata: cluster.id.child(name(cluster, component), component),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// The schema Job runs the cache's image for the cache's sake, and so under its name. What makes backups has no use for the
/// rights of either, and runs under the account that every namespace has.
pub(super) fn name(cluster: &ValidatedCluster, component: Component) -> String {
    match component {
        Component::Cache | Component::Schema => cluster.id.cache(),
        Component::Backup => "default".to_owned(),
        Component::Database => cluster.id.database(),
    }
}
