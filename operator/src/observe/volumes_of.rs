//! Whether the cluster still exists whose volumes this one starts with (`spec.database.volumesOf`).

use kube::{Api, Client, ResourceExt};
use readstates_operator_api::{ReadStateCluster, VolumesOf};

use crate::{words::chain, world::Seen};

/// Looks, until as many nodes are on record as are wanted: from then on each pod is told which node it is.
pub(super) async fn observe(client: &Client, cluster: &ReadStateCluster) -> Option<Seen<bool>> {
    let database = &cluster.spec.database;
    let VolumesOf { namespace, name } = database.volumes_of.as_ref()?;
    let wanted: i32 = database
        .racks
        .iter()
        .flatten()
        .map(|rack| rack.members)
        .sum();
    let records = cluster.status.iter().flat_map(|s| &s.database_nodes);
    let members = records.filter(|node| node.is_member()).count();
    if i32::try_from(members).is_ok_and(|members| members >= wanted) {
        return None;
    }
    let clusters = Api::<ReadStateCluster>::namespaced(client.clone(), namespace);
    let found = clusters.get_metadata_opt(name).await;
    Some(match found {
        // A cluster may well start with the volumes of an earlier one of its own name.
        Ok(found) => Seen::Known(found.is_some_and(|one| one.uid() != cluster.uid())),
        Err(error) => Seen::Unknown(chain(&error)),
    })
}
