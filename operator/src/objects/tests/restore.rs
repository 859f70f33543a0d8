//! The pod of a restore has what its work needs, and nothing else.

use crate::{
    fixtures::{CASSANDRA, cluster, id, with_tls},
    objects::restore_network_policy,
    spec::{BackupPlace, BackupsAt, RestoreSource},
    templates::{restore_job, restore_selector},
};

fn source(snapshot: &str) -> RestoreSource {
    RestoreSource {
        place: BackupPlace {
            at: BackupsAt::Volume {
                claim: "backups".to_owned(),
                path: Some("chat".to_owned()),
            },
            encryption: Some(("keys".to_owned(), "backup.key".to_owned())),
        },
        snapshot: snapshot.to_owned(),
    }
}

#[test]
fn a_restore_has_the_login_of_the_cache_a_read_only_volume_and_no_rights_at_the_api_server() {
    let cluster = cluster(&with_tls(CASSANDRA));
    let job = restore_job(&cluster, &source("latest")).spec.unwrap();
    let pod = job.template.spec.as_ref().unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.service_account_name.as_deref(), Some("default"));
    let security = pod.security_context.as_ref().unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    let [restore] = &pod.containers[..] else {
        panic!("one container");
    };
    let restricted = restore.security_context.as_ref().unwrap();
    assert_eq!(restricted.read_only_root_filesystem, Some(true));
    assert_eq!(restricted.allow_privilege_escalation, Some(false));
    assert_eq!(
        restore.args.as_ref().unwrap().join(" "),
        "backup restore --backups /var/lib/readstates-backups/chat --report /dev/termination-log latest --once \
         --store cql://chat-db.talk.svc:9042/readstates"
    );
    let env = restore.env.iter().flatten().map(|v| v.name.as_str());
    assert_eq!(
        env.collect::<Vec<_>>(),
        [
            "READSTATES_CQL_LOCAL_DC",
            "READSTATES_CQL_USER",
            "READSTATES_CQL_PASSWORD_FILE",
            "READSTATES_CQL_CA_FILE",
            "READSTATES_CLAIM",
            "READSTATES_BACKUP_ENCRYPTION_KEY_FILE",
        ]
    );
    let mounts: Vec<_> = restore.volume_mounts.iter().flatten().collect();
    let volumes: Vec<_> = pod.volumes.iter().flatten().map(|v| &v.name).collect();
    assert_eq!(mounts.iter().map(|m| &m.name).collect::<Vec<_>>(), volumes);
    assert!(mounts.iter().all(|mount| mount.read_only == Some(true)));
    // A machine that is gone does not hold the pod for ever.
    assert_eq!(job.pod_failure_policy, None);
    let taints: Vec<_> = pod.tolerations.iter().flatten().collect();
    assert!(taints.iter().all(|t| t.toleration_seconds == Some(60)));
}

#[test]
fn another_wish_is_another_job_that_nobody_connects_to() {
    let cluster = cluster(CASSANDRA);
    let name = |snapshot| {
        restore_job(&cluster, &source(snapshot))
            .metadata
            .name
            .unwrap()
    };
    assert!(name("latest").starts_with("chat-restore-"));
    assert_ne!(name("latest"), name("20260101T000000.000Z-00000001"));
    let policy = restore_network_policy(&id()).spec.unwrap();
    assert_eq!((policy.ingress, policy.egress), (None, None));
    let selected = policy.pod_selector.unwrap().match_labels.unwrap();
    let job = restore_job(&cluster, &source("latest"));
    let labels = job.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    assert!(
        selected
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    );
    let selector = restore_selector(&id());
    assert!(selector.split(',').all(|part| {
        let (key, value) = part.split_once('=').unwrap();
        labels[key] == value
    }));
    // The database's policy lets them in by these.
    assert_eq!(labels["readstates.dev/cluster"], "chat");
    assert_eq!(labels["app.kubernetes.io/component"], "backup");
}
