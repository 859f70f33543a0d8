//! The last test: the operator is uninstalled, and nothing that is left hangs.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{CHANNEL, Look, MESSAGE, Place, Users, World, embedded_spec, until};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use readstates_operator_api::{ReadStateCluster, labels};

/// A cache pod may take as long as this to write what it holds.
const ENDS: Duration = Duration::from_mins(6);

fn is_held(cluster: &ReadStateCluster) -> bool {
    let mut finalizers = cluster.finalizers().iter();
    finalizers.any(|one| one == labels::STOP_IN_ORDER)
}

/// Deletes the clusters of a namespace that are held, and waits until they are gone.
async fn delete_held(world: &World, namespace: &str) -> Result<()> {
    let clusters: Api<ReadStateCluster> = Api::namespaced(world.client(), namespace);
    let all = clusters.list(&ListParams::default()).await?;
    for held in all.items.into_iter().filter(is_held) {
        let place = Place {
            name: namespace.to_owned(),
        };
        world.cluster(&place, &held.name_any()).delete().await?;
    }
    Ok(())
}

#[tokio::test]
async fn uninstalling_leaves_service_running_and_nothing_that_hangs() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("uninstall").await?;
    let cluster = world.cluster(&place, "orphan");
    cluster.apply(embedded_spec()).await?;
    cluster.available().await?;
    let user = Users::fresh().one();
    let told = cluster.service()?.ack(user, CHANNEL, MESSAGE).await?;

    // Those with a database of their own are held until their cache has written what it holds, and only an operator
    // knows when that is: they go first.
    let chat = World::chat().await?;
    ensure!(is_held(&chat.get().await?), "nothing holds chat");
    let places = world.namespaces().await?;
    for Place { name } in &places {
        delete_held(&world, name).await?;
    }

    world.uninstall().await?;
    ensure!(
        world.operator().await?.is_none(),
        "the operator is still there"
    );
    ensure!(cluster.get().await.is_ok(), "crds.keep keeps the clusters");
    let read = cluster.service()?.read(user).await?;
    ensure!(
        read == [told],
        "the service goes on without its operator: {read:?}"
    );

    // Without an operator no finalizer would ever be removed: there must be none left.
    for Place { name } in &places {
        let all = [
            "delete",
            "rsc",
            "--all",
            "-n",
            name,
            "--wait",
            "--timeout=60s",
        ];
        world.kubectl(&all).await?.success()?;
    }
    // A namespace with pods in it ends no sooner than half the longest grace period of them, however soon
    // they are gone; that is Kubernetes' way, and not what is tested here.
    until("the pods of the tests are gone", ENDS, async || {
        let mut left = Vec::new();
        for Place { name } in &places {
            let pods: Api<Pod> = Api::namespaced(world.client(), name);
            left.extend(
                pods.list(&ListParams::default())
                    .await?
                    .iter()
                    .map(ResourceExt::name_any),
            );
        }
        Ok(if left.is_empty() {
            Look::Done(())
        } else {
            Look::NotYet(left.join(", "))
        })
    })
    .await?;
    for Place { name } in &places {
        let namespace = ["delete", "namespace", name, "--wait", "--timeout=120s"];
        world.kubectl(&namespace).await?.success()?;
    }
    let kinds = [
        "readstatebackups",
        "readstatebackupschedules",
        "readstatemigrations",
        "readstateclusters",
        "readstaterings",
    ];
    for kind in kinds {
        let name = format!("crd/{kind}.readstates.dev");
        world
            .kubectl(&["delete", "--wait", "--timeout=60s", &name])
            .await?
            .success()?;
    }
    Ok(())
}
