//! Pods and Services that have IPv6 addresses alone: `hack/e2e --ipv6`.

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use e2e::{Told, World};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;

#[tokio::test]
#[ignore = "wants a cluster of IPv6: hack/e2e --ipv6"]
async fn a_cluster_with_ipv6_addresses_alone_serves_and_survives_a_killed_member() -> Result<()> {
    let cluster = World::chat().await?;
    let all = ListParams::default();
    let pods = cluster.api::<Pod>().list(&all).await?.items;
    let addresses = pods
        .iter()
        .flat_map(|pod| pod.status.iter().flat_map(|s| s.pod_ips.iter().flatten()));
    let addresses: Vec<_> = addresses.map(|address| address.ip.clone()).collect();
    ensure!(
        addresses.len() >= 4,
        "three members and a node: {addresses:?}"
    );
    let services = cluster.api::<Service>().list(&all).await?;
    let of_services = services
        .iter()
        .filter_map(|service| service.spec.as_ref()?.cluster_ip.clone());
    let of_services: Vec<_> = of_services.filter(|ip| ip != "None").collect();
    ensure!(!of_services.is_empty(), "no Service has an address");
    for address in addresses.iter().chain(&of_services) {
        let ip: IpAddr = address.parse().with_context(|| address.clone())?;
        ensure!(ip.is_ipv6(), "{ip} is not of IPv6");
    }

    let service = cluster.service()?;
    let told = Told::by(&service, 60).await?;
    for member in 0..3 {
        cluster.flush(member).await?;
    }
    cluster.kill_process(0).await?;
    cluster.has_members(3).await?;
    told.holds(&service).await?;
    told.holds(&cluster.member(0)?).await
}
