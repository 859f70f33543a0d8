//! The last test: the operator is uninstalled, and nothing that is left hangs.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{CHANNEL, Look, MESSAGE, Users, World, embedded_spec, until};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

const ENDS: Duration = Duration::from_mins(3);

#[tokio::test]
async fn uninstalling_leaves_service_running_and_nothing_that_hangs() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("uninstall").await?;
    let cluster = world.cluster(&place, "orphan");
    cluster.apply(embedded_spec()).await?;
    cluster.available().await?;
    let user = Users::fresh().one();
    let told = cluster.service().ack(user, CHANNEL, MESSAGE).await?;

    world.uninstall().await?;
    ensure!(
        world.operator().await?.is_none(),
        "the operator is still there"
    );
    ensure!(cluster.get().await.is_ok(), "crds.keep keeps the clusters");
    let read = cluster.service().read(user).await?;
    ensure!(
        read == [told],
        "the service goes on without its operator: {read:?}"
    );

    // Without an operator nobody could remove a finalizer: there must be none to remove.
    cluster.delete().await?;
    let names = world.delete_namespaces().await?;
    let namespaces: Api<Namespace> = Api::all(world.client());
    until("the namespaces of the tests end", ENDS, async || {
        let mut left = Vec::new();
        for name in &names {
            if namespaces.get_opt(name).await?.is_some() {
                left.push(name.as_str());
            }
        }
        Ok(if left.is_empty() {
            Look::Done(())
        } else {
            Look::NotYet(left.join(", "))
        })
    })
    .await?;
    for kind in ["readstateclusters", "readstaterings"] {
        let name = format!("crd/{kind}.readstates.dev");
        world
            .kubectl(&["delete", "--wait", "--timeout=60s", &name])
            .await?
            .success()?;
    }
    Ok(())
}
