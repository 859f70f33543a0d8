//! Identities of pods. None comes with a token: the pods that talk to the API server, which are the
//! cache pods, ask for theirs.

use k8s_openapi::api::core::v1::ServiceAccount;
use readstates_operator_api::labels::Component;

use crate::{spec::ValidatedCluster, templates::service_account::name};

pub(super) fn of(cluster: &ValidatedCluster, component: Component) -> ServiceAccount {
    ServiceAccount {
        metadata: cluster.id.child(name(cluster, component), component),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
