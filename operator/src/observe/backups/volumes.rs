//! The VolumeSnapshots of a backup. In: its name. Out: plain values.

use kube::{Api, Client, api::ListParams};
use readstates_operator_api::labels;

use crate::{error::Error, volume_snapshot::VolumeSnapshot, world::SnapshotSeen};

/// Reads them, by their label; or why Kubernetes has none.
///
/// # Errors
/// When the API server cannot be read.
pub async fn snapshots(
    client: &Client,
    namespace: &str,
    backup: &str,
) -> Result<Result<Vec<SnapshotSeen>, String>, Error> {
    let api: Api<VolumeSnapshot> = Api::namespaced(client.clone(), namespace);
    let wanted = ListParams::default().labels(&format!("{}={backup}", labels::BACKUP));
    match api.list(&wanted).await {
        Ok(found) => {
            let mut seen: Vec<_> = found.items.into_iter().map(SnapshotSeen::from).collect();
            seen.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(Ok(seen))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(
            "this Kubernetes has no VolumeSnapshots: install the snapshot controller and its definitions, and a storage \
             driver that takes snapshots"
                .to_owned(),
        )),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Err(format!("the operator may not list VolumeSnapshots: {}", status.message)))
        }
        Err(source) => Err(Error::Read {
            what: format!("the VolumeSnapshots of {backup}"),
            source,
        }),
    }
}
