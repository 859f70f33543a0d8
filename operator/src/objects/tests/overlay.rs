//! `podTemplate`: what users lay over pods, and what of ours stays.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

use super::{Object, SCYLLA, all, name};
use crate::fixtures::{CASSANDRA, cluster, try_cluster};

const OVERLAY: &str = "{
  labels: { team: chat, readstates: no },
  annotations: { mesh.example/inject: 'true' },
  env: [{ name: HTTP_PROXY, value: 'http://proxy' }],
  affinity: {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [
      { matchExpressions: [{ key: disk, operator: In, values: [fast] }] },
      { matchExpressions: [{ key: disk, operator: In, values: [faster] }] } ] } },
    podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [
      { weight: 1, podAffinityTerm: { topologyKey: rack } } ] } },
  topologySpreadConstraints: [{ maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule }],
  securityContext: { runAsNonRoot: true } }";

pub(super) fn with_overlays(overlay: &str) -> String {
    let flat = overlay.replace('\n', " ");
    CASSANDRA
        .replace(
            "replicas: 3",
            &format!("replicas: 3\ncache: {{ podTemplate: {flat} }}"),
        )
        .replace(
            "database:\n",
            &format!("database:\n  podTemplate: {flat}\n"),
        )
}

fn template(spec: &str, wanted: &str) -> PodTemplateSpec {
    let objects = all(&cluster(spec));
    let found = objects.iter().find(|object| name(object) == wanted);
    match found.unwrap() {
        Object::StatefulSet(set) => set.spec.as_ref().unwrap().template.clone(),
        other => panic!("{other:?}"),
    }
}

fn as_json(spec: &str, wanted: &str) -> Value {
    serde_json::to_value(template(spec, wanted)).unwrap()
}

#[test]
fn what_users_lay_over_pods_is_there_and_so_is_what_pods_are_found_by() {
    for (set, component, container) in [
        ("StatefulSet chat", "cache", 0),
        ("StatefulSet chat-db-b", "database", 0),
    ] {
        let pod = as_json(&with_overlays(OVERLAY), set);
        let labels = &pod["metadata"]["labels"];
        assert_eq!(labels["team"], "chat");
        assert_eq!(labels["readstates.dev/cluster"], "chat");
        assert_eq!(labels["app.kubernetes.io/component"], component);
        assert_eq!(
            pod["metadata"]["annotations"]["mesh.example/inject"],
            "true"
        );
        let spec = &pod["spec"];
        assert_eq!(spec["securityContext"], json!({ "runAsNonRoot": true }));
        assert_eq!(
            spec["topologySpreadConstraints"].as_array().unwrap().len(),
            1
        );
        assert_eq!(spec["topologySpreadConstraints"][0]["topologyKey"], "rack");
        let env = spec["containers"][container]["env"].as_array().unwrap();
        assert_eq!(env.last().unwrap()["name"], "HTTP_PROXY");
    }
}

/// The modes of the Secrets' files in pods that run so, of every kind and of the schema Job.
fn modes(security: &str) -> BTreeSet<i32> {
    let objects = all(&cluster(&with_overlays(security)));
    let pods = objects.iter().filter_map(|object| match object {
        Object::StatefulSet(set) => set.spec.as_ref()?.template.spec.as_ref(),
        Object::Job(job) => job.spec.as_ref()?.template.spec.as_ref(),
        _ => None,
    });
    let volumes = pods.flat_map(|pod| pod.volumes.iter().flatten());
    let of_secret = volumes.filter_map(|volume| volume.secret.as_ref()?.default_mode);
    of_secret.collect()
}

#[test]
fn a_process_reads_its_secrets_whether_or_not_its_pod_has_a_group_for_them() {
    assert_eq!(modes("{ labels: { team: chat } }"), [0o440].into());
    let security = |fields: &str| modes(&format!("{{ securityContext: {{ {fields} }} }}"));
    assert_eq!(
        security("runAsUser: 1000650000, fsGroup: 1000650000"),
        [0o440].into()
    );
    assert_eq!(security("runAsNonRoot: true"), [0o444].into());
    // What a user mounts is the user's.
    let theirs = "{ securityContext: { runAsNonRoot: true }, volumes: [{ name: own, secret: { secretName: own, \
                  defaultMode: 256 } }] }";
    assert_eq!(modes(theirs), [0o400, 0o444].into());
}

#[test]
fn no_two_database_pods_share_a_machine_whatever_is_laid_over_them() {
    let spec = &as_json(&with_overlays(OVERLAY), "StatefulSet chat-db-b")["spec"]["affinity"];
    let apart = &spec["podAntiAffinity"];
    let required = &apart["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required[0]["topologyKey"], "kubernetes.io/hostname");
    let preferred = &apart["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(preferred[0]["podAffinityTerm"]["topologyKey"], "rack");
    // The zone of the rack holds in each alternative.
    let nodes = &spec["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = nodes["nodeSelectorTerms"].as_array().unwrap();
    let values = terms.iter().map(|term| {
        let all = term["matchExpressions"].as_array().unwrap();
        all.iter()
            .map(|e| e["values"][0].as_str().unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(
        values.collect::<Vec<_>>(),
        [["zone-b", "fast"], ["zone-b", "faster"]]
    );
}

#[test]
fn nothing_laid_over_pods_leaves_them_as_they_were() {
    for set in ["StatefulSet chat", "StatefulSet chat-db-b"] {
        assert_eq!(as_json(&with_overlays("{}"), set), as_json(CASSANDRA, set));
    }
}

#[test]
fn what_the_operator_sets_itself_is_refused_by_name() {
    let env = |name: &str| with_overlays(&format!("{{ env: [{{ name: {name}, value: x }}] }}"));
    let said = try_cluster(&env("READSTATES_STORE"))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("spec.cache.podTemplate.env[0].name"),
        "{said}"
    );
    // A second database, to which the table moves, is a person's to name.
    for name in ["READSTATES_MOVING_TO", "READSTATES_TO_CQL_USER"] {
        assert!(try_cluster(&env(name)).is_ok(), "{name}");
    }
    let said = try_cluster(&env("CASSANDRA_SEEDS"))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("spec.database.podTemplate.env[0].name"),
        "{said}"
    );
    let flat = "  podTemplate: { env: [{ name: SCYLLA_SEEDS, value: x }] }\n";
    let scylla = SCYLLA.replace("database:\n", &format!("database:\n{flat}"));
    let said = try_cluster(&scylla).unwrap_err().to_string();
    assert!(
        said.contains("spec.database.podTemplate.env[0].name"),
        "{said}"
    );
}

#[test]
fn the_service_of_the_api_is_of_the_type_that_is_wanted_and_changes_no_pod() {
    let service = |text: &str| {
        CASSANDRA.replace(
            "replicas: 3",
            &format!("replicas: 3\ncache: {{ service: {text} }}"),
        )
    };
    let balanced = service(
        "{ type: LoadBalancer, annotations: { lb.example/internal: 'true' }, loadBalancerSourceRanges: [10.0.0.0/8], \
         externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, trafficDistribution: PreferClose }",
    );
    let objects = all(&cluster(&balanced));
    let found = objects.iter().find_map(|object| match object {
        Object::Service(service) if name(object) == "Service chat" => Some(service),
        _ => None,
    });
    let found = serde_json::to_value(found.unwrap()).unwrap();
    assert_eq!(
        found["metadata"]["annotations"]["lb.example/internal"],
        "true"
    );
    let spec = &found["spec"];
    assert_eq!(spec["type"], "LoadBalancer");
    assert_eq!(spec["externalTrafficPolicy"], "Local");
    assert_eq!(spec["ipFamilyPolicy"], "PreferDualStack");
    assert_eq!(spec["trafficDistribution"], "PreferClose");
    assert_eq!(spec["loadBalancerSourceRanges"], json!(["10.0.0.0/8"]));
    let set = "StatefulSet chat";
    assert_eq!(as_json(&balanced, set), as_json(CASSANDRA, set));
    assert_eq!(
        cluster(&balanced).cache_spec_hash(),
        cluster(CASSANDRA).cache_spec_hash()
    );
}
