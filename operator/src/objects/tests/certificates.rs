//! Which containers get which CQL certificates.

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use serde_json::{Value, json};

use super::{SCYLLA, all, environment, name, pod};
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, cluster, with_tls},
    objects::{Object, objects},
    plan::Plan,
    spec::{Certificates, Database, Observed, Store, ValidatedCluster},
    templates,
};

/// The keys of the Secret `certs` that a pod has, and the mode of the files.
fn keys(pod: &PodSpec) -> Vec<(Vec<String>, Option<i32>)> {
    let certificates = |volume: &Volume| {
        let secret = volume.secret.clone()?;
        let keys = secret.items?.into_iter().map(|item| item.key).collect();
        (secret.secret_name? == "certs").then_some((keys, secret.default_mode))
    };
    let volumes = pod.volumes.iter().flatten();
    volumes.filter_map(certificates).collect()
}

fn only(keys: &[&str], mode: i32) -> Vec<(Vec<String>, Option<i32>)> {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    vec![(keys, Some(mode))]
}

/// What a container mounts, as `path` or `path ro`.
fn mounts(pod: &PodSpec, container: &str) -> Vec<String> {
    let inits = pod.init_containers.iter().flatten();
    let found = inits.chain(&pod.containers).find(|c| c.name == container);
    let mounts = found.unwrap().volume_mounts.iter().flatten();
    let text = |mount: &k8s_openapi::api::core::v1::VolumeMount| {
        let ro = mount.read_only == Some(true);
        format!("{}{}", mount.mount_path, if ro { " ro" } else { "" })
    };
    mounts.map(text).collect()
}

fn database(cluster: &ValidatedCluster) -> &Database {
    match &cluster.store {
        Store::Managed(database) => database,
        Store::External(_) | Store::Embedded(_) => panic!("no database"),
    }
}

#[test]
fn cache_pods_and_the_schema_job_get_the_ca_and_no_key() {
    let ours = cluster(&with_tls(CASSANDRA));
    let cache = templates::cache(&ours, 1, &crate::templates::Template::Wanted, None)
        .spec
        .unwrap()
        .template
        .spec
        .unwrap();
    for pod in [cache, pod(&ours, "Job chat-schema")] {
        assert_eq!(keys(&pod), only(&["ca.crt"], 0o440));
        let env = environment(&pod.containers[0]);
        let tls: Vec<_> = env.iter().filter(|e| e.contains("certificates")).collect();
        assert_eq!(
            tls,
            ["READSTATES_CQL_CA_FILE=/etc/readstates/certificates/ca.crt"]
        );
        let name = &pod.containers[0].name;
        assert!(mounts(&pod, name).contains(&"/etc/readstates/certificates ro".to_owned()));
    }
}

#[test]
fn a_database_of_somebody_else_is_shown_a_certificate_where_there_is_one() {
    let mut theirs = cluster(&with_tls(EXTERNAL));
    assert_eq!(
        keys(&pod(&theirs, "StatefulSet chat")),
        only(&["ca.crt"], 0o440)
    );
    theirs.certificates.client = true;
    let pod = pod(&theirs, "StatefulSet chat");
    assert_eq!(keys(&pod), only(&["ca.crt", "tls.crt", "tls.key"], 0o440));
    let env = environment(&pod.containers[0]);
    for (name, key) in [("CERT", "tls.crt"), ("KEY", "tls.key")] {
        let wanted = format!("READSTATES_CQL_{name}_FILE=/etc/readstates/certificates/{key}");
        assert!(env.contains(&wanted), "{env:?}");
    }
}

#[test]
fn a_cassandra_member_has_certificate_and_key_in_one_file_in_memory() {
    let pod = pod(&cluster(&with_tls(CASSANDRA)), "StatefulSet chat-db-a");
    assert_eq!(keys(&pod), only(&["tls.crt", "tls.key"], 0o440));
    let volumes = pod.volumes.iter().flatten();
    let memory: Vec<_> = volumes
        .filter(|v| v.empty_dir.as_ref().is_some_and(|e| e.medium.is_some()))
        .map(|v| v.name.as_str())
        .collect();
    assert_eq!(memory, ["keystore"]);
    let prepare = mounts(&pod, "prepare");
    assert!(prepare.contains(&"/etc/readstates/certificates ro".to_owned()));
    assert!(prepare.contains(&"/run/keystore".to_owned()));
    let member = mounts(&pod, "database");
    assert!(member.contains(&"/run/keystore ro".to_owned()));
    assert!(!member.iter().any(|m| m.contains("certificates")));
    // The one that stays beside it has nothing of them.
    let agent = mounts(&pod, "agent").join(" ");
    assert!(!agent.contains("keystore") && !agent.contains("certificates"));

    let prepare = pod.init_containers.as_ref().unwrap();
    let args = prepare[0].args.as_ref().unwrap().join(" ");
    let handed = "--certificates /etc/readstates/certificates --keystore /run/keystore/server.pem";
    assert!(args.contains(handed), "{args}");
    let options = environment(&pod.containers[0]);
    let options = options.iter().find(|e| e.starts_with("JVM_EXTRA_OPTS="));
    for option in [
        "enabled=true",
        "optional=false",
        "keystore=/run/keystore/server.pem",
        "ssl_context_factory.class_name=org.apache.cassandra.security.PEMBasedSslContextFactory",
    ] {
        let option = format!(" -Dcassandra.settings.client_encryption_options.{option}");
        assert!(options.unwrap().contains(&option), "{options:?}");
    }
}

#[test]
fn a_scylla_member_reads_the_files_of_the_secret() {
    let pod = pod(&cluster(&with_tls(SCYLLA)), "StatefulSet chat-db-a");
    assert_eq!(keys(&pod), only(&["tls.crt", "tls.key"], 0o444));
    let member = mounts(&pod, "database");
    assert!(member.contains(&"/etc/readstates/certificates ro".to_owned()));
    let script = pod.containers[0].command.as_ref().unwrap()[2].clone();
    let section = "
client_encryption_options:
  enabled: true
  certificate: /etc/readstates/certificates/tls.crt
  keyfile: /etc/readstates/certificates/tls.key
TLS
";
    assert!(script.contains(section), "{script}");
}

fn with_internode_tls(spec: &str) -> String {
    with_tls(spec).replace("secretName: certs", "secretName: certs, internode: true")
}

#[test]
fn cassandra_nodes_prove_themselves_to_each_other_by_the_files_of_the_secret() {
    let pod = pod(
        &cluster(&with_internode_tls(CASSANDRA)),
        "StatefulSet chat-db-a",
    );
    assert_eq!(keys(&pod), only(&["tls.crt", "tls.key", "ca.crt"], 0o440));
    let member = mounts(&pod, "database");
    for mount in ["/run/keystore ro", "/etc/readstates/certificates ro"] {
        assert!(member.contains(&mount.to_owned()), "{member:?}");
    }
    let options = environment(&pod.containers[0]);
    let options = options.iter().find(|e| e.starts_with("JVM_EXTRA_OPTS="));
    for option in [
        "internode_encryption=all",
        "optional=false",
        "require_client_auth=true",
        "keystore=/run/keystore/server.pem",
        "truststore=/etc/readstates/certificates/ca.crt",
        "ssl_context_factory.class_name=org.apache.cassandra.security.PEMBasedSslContextFactory",
    ] {
        let option = format!(" -Dcassandra.settings.server_encryption_options.{option}");
        assert!(options.unwrap().contains(&option), "{options:?}");
    }
}

#[test]
fn scylla_nodes_prove_themselves_to_each_other_by_the_files_of_the_secret() {
    let pod = pod(
        &cluster(&with_internode_tls(SCYLLA)),
        "StatefulSet chat-db-a",
    );
    assert_eq!(keys(&pod), only(&["tls.crt", "tls.key", "ca.crt"], 0o444));
    let script = pod.containers[0].command.as_ref().unwrap()[2].clone();
    let section = "
server_encryption_options:
  internode_encryption: all
  certificate: /etc/readstates/certificates/tls.crt
  keyfile: /etc/readstates/certificates/tls.key
  truststore: /etc/readstates/certificates/ca.crt
  require_client_auth: true
TLS
";
    assert!(script.contains(section), "{script}");
}

#[test]
fn other_certificates_are_another_wish_for_members_and_none_for_cache_pods() {
    let before = cluster(&with_tls(CASSANDRA));
    let plain = crate::fixtures::try_cluster(&with_tls(CASSANDRA)).unwrap();
    let other = Certificates {
        mark: Some("m2".to_owned()),
        client: false,
    };
    let after = plain.seen(Observed {
        login: before.login.clone(),
        certificates: other,
        ..Observed::default()
    });
    let name = |cluster| templates::update_name(cluster, database(cluster));
    assert_ne!(name(&before), name(&after));
    // The operator has not changed, so no consent is needed.
    assert_ne!(
        database(&before).spec_hash(None),
        database(&after).spec_hash(None)
    );
    assert_eq!(
        templates::cache(&before, 1, &crate::templates::Template::Wanted, None),
        templates::cache(&after, 1, &crate::templates::Template::Wanted, None)
    );
    assert_eq!(
        templates::schema_job_name(&before),
        templates::schema_job_name(&after)
    );
}

#[test]
fn without_tls_nothing_is_said_of_it() {
    for spec in [CASSANDRA, SCYLLA, EXTERNAL] {
        for object in all(&cluster(spec)) {
            let text = format!("{object:?}");
            for word in ["certificates", "keystore", "client_encryption", "CA_FILE"] {
                assert!(!text.contains(word), "{word} is in {}", name(&object));
            }
        }
    }
    // By TLS for clients nothing changes between nodes.
    for object in all(&cluster(&with_tls(CASSANDRA))) {
        let text = format!("{object:?}");
        assert!(!text.contains("server_encryption"), "{}", name(&object));
    }
}

#[test]
fn cert_manager_is_asked_for_a_certificate_by_the_names_of_all_members() {
    let issuer = CASSANDRA.replace(
        "database:\n",
        "database:\n  tls: { issuerRef: { name: ours, kind: ClusterIssuer } }\n",
    );
    let cluster = cluster(&issuer);
    let plan = Plan {
        certificate: true,
        ..Plan::default()
    };
    let written = objects(&cluster, &plan);
    let Object::Certificate(asked) = &written[0] else {
        panic!("{}", name(&written[0]))
    };
    let asked: Value = serde_json::to_value(asked).unwrap();
    assert_eq!(asked["metadata"]["name"], "chat-db-tls");
    assert_eq!(asked["apiVersion"], "cert-manager.io/v1");
    assert_eq!(
        asked["spec"],
        json!({
            "secretName": "chat-db-tls",
            "dnsNames": ["chat-db.talk.svc", "*.chat-db.talk.svc"],
            "issuerRef": { "name": "ours", "kind": "ClusterIssuer", "group": "cert-manager.io" },
            "privateKey": {
                "algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always",
            },
            "usages": ["digital signature", "key encipherment", "server auth"],
        })
    );
    assert_eq!(
        objects(&cluster, &Plan::default())
            .iter()
            .map(name)
            .find(|n| n.starts_with("Cert")),
        None
    );
    let internode = issuer.replace(
        "kind: ClusterIssuer }",
        "kind: ClusterIssuer }, internode: true",
    );
    let written = objects(&crate::fixtures::cluster(&internode), &plan);
    let Object::Certificate(asked) = &written[0] else {
        panic!("{}", name(&written[0]))
    };
    let (_, more) = asked.spec.usages.split_at(3);
    assert_eq!(more, ["client auth"]);
}
