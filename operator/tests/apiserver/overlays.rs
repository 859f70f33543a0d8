//! `podTemplate` and `service`: what users lay over pods and the API's Service.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;

use crate::{
    chat::{change_spec, cluster, running, until_done},
    policy::with_the_charts_rights,
    world::with_world,
};

#[test]
fn a_label_for_billing_reaches_every_pod_one_by_one() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 2).await;
        world.fleet.asked();
        let overlay = json!({ "podTemplate": { "labels": { "team": "chat" }, "env": [{ "name": "A", "value": "b" }] } });
        change_spec(&world, json!({ "cache": overlay, "database": overlay })).await;
        until_done(&world).await;
        let pods = world
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(pods.items.len(), 4);
        for pod in pods {
            assert_eq!(pod.labels().get("team").map(String::as_str), Some("chat"));
            let env = pod.spec.as_ref().unwrap().containers[0]
                .env
                .clone()
                .unwrap();
            assert!(env.iter().any(|v| v.name == "A"), "{}", pod.name_any());
        }
        let asked = world.fleet.asked();
        for pod in ["drain chat-0", "drain chat-1"] {
            assert!(asked.contains(&pod.to_owned()), "{asked:?}");
        }
    });
}

#[test]
fn the_service_becomes_a_load_balancer_and_an_address_of_the_cluster_again() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        let before = world.cache_pods("chat").await;
        let service = json!({
            "type": "LoadBalancer", "annotations": { "lb.example/internal": "true" },
            "externalTrafficPolicy": "Local",
        });
        change_spec(&world, json!({ "cache": { "service": service } })).await;
        let made: Service = world.get("chat").await;
        assert_eq!(made.annotations()["lb.example/internal"], "true");
        let spec = made.spec.unwrap();
        assert_eq!(spec.type_.as_deref(), Some("LoadBalancer"));
        assert_eq!(spec.external_traffic_policy.as_deref(), Some("Local"));

        change_spec(&world, json!({ "cache": { "service": null } })).await;
        let made: Service = world.get("chat").await;
        assert!(!made.annotations().contains_key("lb.example/internal"));
        assert_eq!(made.spec.unwrap().type_.as_deref(), Some("ClusterIP"));
        assert_eq!(world.cache_pods("chat").await, before);
    });
}

#[test]
fn the_api_gets_an_address_of_each_family_and_one_again() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        let before = world.cache_pods("chat").await;
        let families = async |name: &str| -> Vec<String> {
            let spec = world.get::<Service>(name).await.spec.unwrap();
            spec.ip_families.unwrap()
        };
        let both = json!({ "service": { "ipFamilyPolicy": "PreferDualStack" } });
        change_spec(&world, json!({ "cache": both })).await;
        assert_eq!(families("chat").await, ["IPv4", "IPv6"]);
        // Members and database nodes have names of one family: that of their pods' first addresses.
        for headless in ["chat-members", "chat-db"] {
            assert_eq!(families(headless).await, ["IPv4"]);
        }
        change_spec(&world, json!({ "cache": { "service": null } })).await;
        assert_eq!(families("chat").await, ["IPv4"]);
        assert_eq!(world.cache_pods("chat").await, before);
    });
}

#[test]
fn what_is_not_the_users_to_set_is_refused_with_its_field() {
    with_world(async |world| {
        for (cache, words) in [
            (
                json!({ "podTemplate": { "labels": { "app.kubernetes.io/component": "x" } } }),
                "are reserved",
            ),
            (
                json!({ "podTemplate": { "annotations": { "readstates.dev/x": "y" } } }),
                "are reserved",
            ),
            (
                json!({ "service": { "externalTrafficPolicy": "Local" } }),
                "only with types NodePort and LoadBalancer",
            ),
            (
                json!({ "service": { "type": "NodePort", "loadBalancerClass": "x" } }),
                "only with type LoadBalancer",
            ),
            (
                json!({ "service": { "type": "ExternalName" } }),
                "ExternalName",
            ),
        ] {
            let mut chat = cluster(1);
            chat["spec"]["cache"] = cache.clone();
            let said = world.create(&chat).await.unwrap_err();
            assert!(said.contains(words), "{cache}: {said}");
        }
        let mut external = cluster(1);
        external["spec"]["database"] = json!({ "embedded": {}, "podTemplate": {} });
        let said = world.create(&external).await.unwrap_err();
        assert!(
            said.contains("agentResources are valid only with engine"),
            "{said}"
        );
    });
}
