//! TLS on the API port, as pods, Services and cert-manager are told of it.

use super::{environment, pod};
use crate::{
    fixtures::{EXTERNAL, cluster},
    objects::{Object, objects, service},
    plan::Plan,
    spec::ValidatedCluster,
};

fn with_tls(tls: &str) -> ValidatedCluster {
    cluster(&format!(
        "cache: {{ tls: {tls} }}\n{}",
        EXTERNAL.trim_start()
    ))
}

#[test]
fn cache_pods_show_the_certificate_of_the_secret_and_say_https() {
    let pod = pod(&with_tls("{ secretName: certs }"), "StatefulSet chat");
    let told = environment(&pod.containers[0]);
    for wanted in [
        "READSTATES_ADVERTISE=https://$(READSTATES_MEMBER).chat-members.talk.svc:7400",
        "READSTATES_TLS_CERT_FILE=/etc/readstates/api-tls/tls.crt",
        "READSTATES_TLS_KEY_FILE=/etc/readstates/api-tls/tls.key",
    ] {
        assert!(told.iter().any(|e| e == wanted), "{wanted}: {told:#?}");
    }
    let volumes = pod.volumes.unwrap();
    let volume = volumes.into_iter().find(|v| v.name == "api-tls").unwrap();
    let source = volume.secret.unwrap();
    assert_eq!(source.secret_name.as_deref(), Some("certs"));
    let keys: Vec<_> = source.items.unwrap().into_iter().map(|i| i.key).collect();
    assert_eq!(keys, ["tls.crt", "tls.key"]);
}

#[test]
fn services_say_how_the_port_is_spoken() {
    let spoken = |cluster: &ValidatedCluster| {
        [service::cache(cluster), service::cache_members(cluster)].map(|service| {
            let ports = service.spec.unwrap().ports.unwrap();
            let api = ports.into_iter().find(|p| p.port == 7400).unwrap();
            (api.name.unwrap(), api.app_protocol)
        })
    };
    let https = ("http".to_owned(), Some("https".to_owned()));
    let with_tls = with_tls("{ secretName: certs }");
    assert_eq!(spoken(&with_tls), [https.clone(), https]);
    let plain = ("http".to_owned(), None);
    assert_eq!(spoken(&cluster(EXTERNAL)), [plain.clone(), plain]);
}

#[test]
fn cert_manager_is_asked_for_the_names_by_which_clients_come() {
    let cluster = with_tls("{ issuerRef: { name: ours, kind: ClusterIssuer } }");
    let plan = Plan {
        api_certificate: true,
        ..Plan::default()
    };
    let asked = objects(&cluster, &plan).into_iter().find_map(|o| match o {
        Object::Certificate(asked) => Some(asked),
        _ => None,
    });
    let spec = asked.unwrap().spec;
    assert_eq!(
        spec.dns_names,
        ["chat.talk.svc", "chat.talk", "*.chat-members.talk.svc"]
    );
    assert_eq!(spec.secret_name, "chat-api-tls");
    assert_eq!(spec.issuer_ref.kind, "ClusterIssuer");
    let mounted = pod(&cluster, "StatefulSet chat").volumes.unwrap();
    let mounted = mounted.into_iter().find(|v| v.name == "api-tls").unwrap();
    assert_eq!(
        mounted.secret.unwrap().secret_name.as_deref(),
        Some("chat-api-tls")
    );
}
