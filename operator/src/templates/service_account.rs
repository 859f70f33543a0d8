//! The accounts that pods run under.

use readstates_operator_api::labels::Component;

use crate::spec::ValidatedCluster;

/// The schema Job runs the cache's image for the cache's sake, and so under its name. What makes backups has no use for the
/// rights of either, and runs under the account that every namespace has.
pub(crate) fn name(cluster: &ValidatedCluster, component: Component) -> String {
    match component {
        Component::Cache | Component::Schema => cluster.id.cache(),
        Component::Backup => "default".to_owned(),
        Component::Database => cluster.id.database(),
    }
}
