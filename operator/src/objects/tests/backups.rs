//! Pods of backups have what their work needs, and nothing else.

use k8s_openapi::api::{
    batch::v1::JobSpec,
    core::v1::{Container, PodSpec},
};

use crate::{
    fixtures::{CASSANDRA, EXTERNAL, cluster, id, with_tls},
    objects::backup_network_policy,
    spec::{
        BackupMethod, BackupOwner, BackupPlace, BackupsAt, Identity, Retention, ValidatedSchedule,
    },
    templates::{backup_cron_jobs, backup_job},
};

fn owner(label: &'static str) -> BackupOwner {
    BackupOwner {
        id: Identity {
            name: "nightly".to_owned(),
            uid: "uid-of-nightly".to_owned(),
            ..id()
        },
        kind: "ReadStateBackupSchedule".to_owned(),
        label,
    }
}

fn bucket() -> BackupPlace {
    BackupPlace {
        at: BackupsAt::Bucket {
            url: "s3://backups/chat".to_owned(),
            region: None,
            endpoint: Some("http://minio:9000".to_owned()),
            ca: None,
            credentials: Some("bucket".to_owned()),
            account: None,
        },
        encryption: Some(("keys".to_owned(), "backup.key".to_owned())),
    }
}

fn volume() -> BackupPlace {
    BackupPlace {
        at: BackupsAt::Volume {
            claim: "backups".to_owned(),
            path: Some("chat".to_owned()),
        },
        encryption: None,
    }
}

fn pod(job: &JobSpec) -> &PodSpec {
    job.template.spec.as_ref().unwrap()
}

fn names(container: &Container) -> Vec<&str> {
    let env = container.env.iter().flatten();
    env.map(|variable| variable.name.as_str()).collect()
}

fn mounts(container: &Container) -> Vec<&str> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts.map(|mount| mount.name.as_str()).collect()
}

fn args(container: &Container) -> String {
    container.args.as_ref().unwrap().join(" ")
}

fn schedule(retention: Option<Retention>) -> ValidatedSchedule {
    ValidatedSchedule {
        cluster: "chat".to_owned(),
        method: BackupMethod::Job(volume()),
        schedule: "0 3 * * *".to_owned(),
        time_zone: "Etc/UTC".to_owned(),
        suspend: false,
        retention,
        verify: Some("@weekly".to_owned()),
        max_age: None,
    }
}

const KEPT: Retention = Retention {
    last: Some(7),
    days: Some(14),
};

#[test]
fn a_backup_is_made_with_the_login_of_the_cache_and_no_rights_at_the_api_server() {
    let cluster = cluster(&with_tls(CASSANDRA));
    let job = backup_job(&cluster, &owner("readstates.dev/backup"), &bucket());
    let job = job.spec.unwrap();
    let pod = pod(&job);
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.service_account_name.as_deref(), Some("default"));
    let security = pod.security_context.as_ref().unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    let [create] = &pod.containers[..] else {
        panic!("one container");
    };
    let restricted = create.security_context.as_ref().unwrap();
    assert_eq!(restricted.read_only_root_filesystem, Some(true));
    assert_eq!(restricted.allow_privilege_escalation, Some(false));
    assert_eq!(
        args(create),
        "backup create --backups s3://backups/chat --report /dev/termination-log \
         --store cql://chat-db.talk.svc:9042/readstates"
    );
    assert_eq!(
        names(create),
        [
            "READSTATES_CQL_LOCAL_DC",
            "READSTATES_CQL_USER",
            "READSTATES_CQL_PASSWORD_FILE",
            "READSTATES_CQL_CA_FILE",
            "READSTATES_CLAIM",
            "AWS_ENDPOINT",
            "AWS_ALLOW_HTTP",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "READSTATES_BACKUP_ENCRYPTION_KEY_FILE",
        ]
    );
    assert_eq!(mounts(create), ["login", "certificates", "encryption"]);
    let volumes = pod.volumes.as_ref().unwrap();
    assert_eq!(volumes.len(), 3, "no superuser, no identity: {volumes:?}");
}

#[test]
fn only_what_reads_the_database_is_given_its_login() {
    let cluster = cluster(EXTERNAL);
    let owner = owner("readstates.dev/backup-schedule");
    let jobs = backup_cron_jobs(&cluster, &owner, &schedule(Some(KEPT)), &volume());
    let [create, verify] = &jobs[..] else {
        panic!("two CronJobs");
    };
    let spec = &create.spec;
    assert_eq!(spec.concurrency_policy.as_deref(), Some("Forbid"));
    assert_eq!(spec.time_zone.as_deref(), Some("Etc/UTC"));
    let create = pod(spec.job_template.spec.as_ref().unwrap());
    let first = &create.init_containers.as_ref().unwrap()[0];
    assert_eq!(mounts(first), ["login", "backups"]);
    let prune = &create.containers[0];
    assert_eq!(mounts(prune), ["backups"]);
    assert_eq!(names(prune), [""; 0]);
    assert!(args(prune).ends_with("--keep-last 7 --keep-days 14"));

    let spec = &verify.spec;
    assert_eq!(spec.schedule, "@weekly");
    let pod = pod(spec.job_template.spec.as_ref().unwrap());
    let check = &pod.containers[0];
    assert!(args(check).starts_with("backup verify --backups /var/lib/readstates-backups/chat "));
    let mount = &check.volume_mounts.as_ref().unwrap()[0];
    assert_eq!(mount.read_only, Some(true));
    assert_eq!(
        pod.volumes.as_ref().unwrap().len(),
        1,
        "no login of the database"
    );
}

#[test]
fn a_backup_that_was_made_is_not_made_again_because_old_ones_stay() {
    let cluster = cluster(EXTERNAL);
    let owner = owner("readstates.dev/backup-schedule");
    let codes = |retention| {
        let jobs = backup_cron_jobs(&cluster, &owner, &schedule(retention), &volume());
        let spec = &jobs[0].spec;
        let job = spec.job_template.spec.as_ref().unwrap();
        let rules = &job.pod_failure_policy.as_ref().unwrap().rules;
        let codes = rules.iter().filter_map(|rule| rule.on_exit_codes.as_ref());
        let words = |on: &k8s_openapi::api::batch::v1::PodFailurePolicyOnExitCodesRequirement| {
            let name = on.container_name.as_deref().unwrap();
            format!("{name} {} {:?}", on.operator, on.values)
        };
        codes.map(words).collect::<Vec<_>>()
    };
    assert_eq!(codes(None), ["create In [2]"]);
    assert_eq!(codes(Some(KEPT)), ["create In [2]", "prune NotIn [0]"]);
}

#[test]
fn a_role_of_the_cloud_comes_by_the_account_that_has_it_and_not_by_a_token() {
    let place = BackupPlace {
        at: BackupsAt::Bucket {
            url: "s3://backups".to_owned(),
            region: Some("eu-west-1".to_owned()),
            endpoint: None,
            ca: None,
            credentials: None,
            account: Some("backups".to_owned()),
        },
        encryption: None,
    };
    let job = backup_job(&cluster(EXTERNAL), &owner("readstates.dev/backup"), &place);
    let job = job.spec.unwrap();
    let pod = pod(&job);
    assert_eq!(pod.service_account_name.as_deref(), Some("backups"));
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert!(names(&pod.containers[0]).ends_with(&["AWS_REGION"]));
}

#[test]
fn a_store_with_a_private_ca_is_reached_with_that_ca() {
    let mut place = bucket();
    if let BackupsAt::Bucket { ca, endpoint, .. } = &mut place.at {
        *endpoint = Some("https://minio:9000".to_owned());
        *ca = Some(("cas".to_owned(), "ca.crt".to_owned()));
    }
    let job = backup_job(&cluster(CASSANDRA), &owner("readstates.dev/backup"), &place);
    let job = job.spec.unwrap();
    let create = &pod(&job).containers[0];
    let env = create.env.iter().flatten();
    let file = env.filter(|v| v.name == "READSTATES_BACKUPS_CA_FILE");
    let file: Vec<_> = file.filter_map(|v| v.value.as_deref()).collect();
    assert_eq!(file, ["/etc/readstates/backups-ca/ca.crt"]);
    assert!(mounts(create).contains(&"backups-ca"));
    assert!(!names(create).contains(&"AWS_ALLOW_HTTP"));
    let volumes = pod(&job).volumes.iter().flatten();
    assert!(
        volumes
            .into_iter()
            .any(|volume| volume.name == "backups-ca")
    );
}

#[test]
fn pods_of_a_backup_accept_no_connections() {
    let owner = owner("readstates.dev/backup");
    let policy = backup_network_policy(&owner, owner.job(), "chat");
    let selected = policy.spec.as_ref().unwrap().pod_selector.as_ref().unwrap();
    let selected = selected.match_labels.clone().unwrap();
    let job = backup_job(&cluster(CASSANDRA), &owner, &volume())
        .spec
        .unwrap();
    let labels = job.template.metadata.unwrap().labels.unwrap();
    assert!(
        selected
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    );
    let spec = policy.spec.unwrap();
    assert_eq!(
        (spec.ingress, spec.policy_types),
        (None, Some(vec!["Ingress".to_owned()]))
    );
}
