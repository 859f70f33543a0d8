//! The Jobs of a move. Each container has the login of the databases that it works on, and none a token of the
//! Kubernetes API:
//!
//! ```text
//! schema (target) ─▶ copy (source, target) ─▶ verify (source, target)
//! ```
//! The Job that copies ahead ends with `copy`. The keyspace of another cluster is made by that cluster, without `schema`. Each reports as its termination message, or leaves its last words there.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec, PodFailurePolicy},
        core::v1::{
            Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSpec, ResourceRequirements,
            Volume,
        },
    },
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::{MembersMeanwhile, labels::Component};

use super::{
    backup::{REPORT, metadata, on_disruption, on_exit, pod_labels},
    env, job, pod, service_account, store,
};
use crate::{
    names::{COPY, MOVING_TO, SCHEMA, VERIFY, ports},
    spec::{BackupOwner, ValidatedCluster, ValidatedMigration},
};

/// Attempts after the first: each goes on where the one before was, and tries a database that is away for ten minutes.
const RETRIES: i32 = 20;
/// Exit statuses after which another attempt ends the same: wrong usage, refused, different.
const FINAL: [i32; 3] = [2, 3, 4];
/// A pod that is told to go records nothing more: what it has done is on record.
const GRACE_SECONDS: i64 = 5;

const CHECKPOINTS: &str = "checkpoints";
const CHECKPOINTS_PATH: &str = "/var/lib/readstates-migrate";
/// Where Secrets are mounted, and those of the target.
const SECRETS: &str = "/etc/readstates/";
const SECRETS_OF_TARGET: &str = "/etc/readstates/to/";
/// Beginnings of the variables of a login, and of one to the target.
const LOGIN: &str = "READSTATES_CQL_";
const LOGIN_TO_TARGET: &str = "READSTATES_TO_CQL_";
/// `--to-claim`: whose keyspace the target is.
const TO_CLAIM: &str = "READSTATES_TO_CLAIM";

/// A move with its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends {
    /// The cluster as it is.
    pub source: ValidatedCluster,
    /// The cluster as it will be, or the other one that the table moves into.
    pub target: ValidatedCluster,
}

impl Ends {
    /// Whether the table moves into another cluster.
    fn is_into(&self) -> bool {
        self.source.id.uid != self.target.id.uid
    }
}

/// The Job that copies ahead, or the one that copies and compares.
#[must_use]
pub fn move_job(
    ends: &Ends,
    owner: &BackupOwner,
    migration: &ValidatedMigration,
    ahead: bool,
) -> Job {
    let name = if ahead { owner.ahead() } else { owner.moving() };
    Job {
        metadata: metadata(owner, name, &ends.source.id.name),
        spec: Some(job_spec(ends, owner, migration, ahead)),
        status: None,
    }
}

/// The variables by which members write this database as well, each as a person has to set it.
#[must_use]
pub fn moving_to(target: &ValidatedCluster, is_into: bool) -> Vec<String> {
    let store::Access {
        env,
        volumes,
        mounts,
    } = as_target(store::access(target));
    // The Secret whose key a file is.
    let secret = |path: &str| {
        let (folder, key) = path.rsplit_once('/')?;
        let mount = mounts.iter().find(|mount| mount.mount_path == folder)?;
        let volume = volumes.iter().find(|volume| volume.name == mount.name)?;
        let name = volume.secret.as_ref()?.secret_name.as_ref()?;
        Some(format!("a file with the key {key} of Secret {name}"))
    };
    let of_login = env.into_iter().filter_map(
        |EnvVar {
             name,
             value,
             value_from,
         }| {
            let value = match (value, value_from) {
                (Some(value), _) => secret(&value).map_or(format!("{name}={value}"), |file| {
                    format!("{name} to the path of {file}")
                }),
                (None, from) => {
                    let key = from?.secret_key_ref?;
                    format!("{name} from the key {} of Secret {}", key.key, key.name)
                }
            };
            Some(value)
        },
    );
    let claim = is_into.then(|| format!("{TO_CLAIM}={}", target.id.uid));
    [format!("{MOVING_TO}={}", store::url(target))]
        .into_iter()
        .chain(claim)
        .chain(of_login)
        .collect()
}

/// The database of a cluster as `--store` takes it.
#[must_use]
pub fn store_url(cluster: &ValidatedCluster) -> String {
    store::url(cluster)
}

fn job_spec(
    ends: &Ends,
    owner: &BackupOwner,
    migration: &ValidatedMigration,
    ahead: bool,
) -> JobSpec {
    let Ends { source, target } = ends;
    let copy = work(ends, owner, migration, COPY, &copy_flags(migration, ahead));
    let mut first: Vec<_> = (!ends.is_into())
        .then(|| schema(source, target))
        .into_iter()
        .collect();
    let main = match ahead {
        true => copy,
        false => {
            first.push(copy);
            work(ends, owner, migration, VERIFY, &[])
        }
    };
    let checkpoints = Volume {
        name: CHECKPOINTS.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: migration.checkpoints.clone(),
            read_only: None,
        }),
        ..Volume::default()
    };
    let volumes = [
        store::access(source).volumes,
        apart(store::access(target)).volumes,
        vec![checkpoints],
    ];
    let rules: Vec<_> = first
        .iter()
        .chain([&main])
        .map(|container| on_exit(&container.name, &FINAL))
        .collect();
    let account = service_account::name(source, Component::Backup);
    let pod = PodSpec {
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        init_containers: Some(first).filter(|first| !first.is_empty()),
        ..job::pod(source, account, vec![main], volumes.concat())
    };
    JobSpec {
        backoff_limit: Some(RETRIES),
        suspend: Some(false),
        pod_failure_policy: Some(PodFailurePolicy {
            rules: [vec![on_disruption()], rules].concat(),
        }),
        template: job::template(pod_labels(owner, &source.id.name), pod),
        ..JobSpec::default()
    }
}

/// Claims the target for this cluster: one that is another's is refused, and nothing is changed.
fn schema(source: &ValidatedCluster, target: &ValidatedCluster) -> Container {
    let url = store::url(target);
    let replication = store::replication(target).unwrap_or_default();
    let args = [
        "schema",
        "--store",
        &url,
        "--replication",
        &replication,
        "--claim",
        &target.id.uid,
    ];
    let args = args.map(str::to_owned).to_vec();
    container(source, SCHEMA, args, apart(store::access_of_schema(target)))
}

fn copy_flags(migration: &ValidatedMigration, ahead: bool) -> Vec<String> {
    // With members stopped nothing changes any more: the last pass has to find nothing.
    match (migration.members, ahead) {
        (MembersMeanwhile::Stop, false) => vec!["--until".to_owned(), "0".to_owned()],
        (MembersMeanwhile::Stop, true) | (MembersMeanwhile::Serve, _) => Vec::new(),
    }
}

/// `readstates migrate VERB` between the two.
fn work(
    ends: &Ends,
    owner: &BackupOwner,
    migration: &ValidatedMigration,
    verb: &str,
    flags: &[String],
) -> Container {
    let Ends { source, target } = ends;
    let ValidatedMigration {
        target: _,
        members: _,
        checkpoints: _,
        merge,
        rate,
        parallel,
        suspend: _,
    } = migration;
    let checkpoint = format!("{CHECKPOINTS_PATH}/{}.json", owner.id.name);
    let (from, to) = (store::url(source), store::url(target));
    let listen = format!("{}:{}", ports::ANY, ports::WATCH);
    let fixed = [
        "migrate",
        verb,
        "--store",
        &from,
        "--to",
        &to,
        "--checkpoint",
        &checkpoint,
        "--progress-listen",
        &listen,
        "--report",
        REPORT,
    ];
    let numbers = [("--rate", rate), ("--parallel", parallel)];
    let numbers = numbers
        .into_iter()
        .filter_map(|(flag, number)| Some([flag.to_owned(), (*number)?.to_string()]));
    let args = fixed
        .map(str::to_owned)
        .into_iter()
        .chain(merge.then(|| "--merge".to_owned()))
        .chain(numbers.flatten())
        .chain(flags.iter().cloned());
    let mut access = store::access(source);
    access.extend(as_target(apart(store::access(target))));
    if ends.is_into() {
        access.env.push(env::value(TO_CLAIM, target.id.uid.clone()));
    }
    access
        .mounts
        .push(pod::mount(CHECKPOINTS, CHECKPOINTS_PATH));
    container(source, verb, args.collect(), access)
}

fn container(
    cluster: &ValidatedCluster,
    name: &str,
    args: Vec<String>,
    access: store::Access,
) -> Container {
    let amounts = |of: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        let each = of.iter();
        each.map(|&(name, text)| (name.to_owned(), Quantity(text.to_owned())))
            .collect()
    };
    Container {
        name: name.to_owned(),
        image: Some(cluster.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        args: Some(args),
        env: Some(access.env).filter(|env| !env.is_empty()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts(&[("cpu", "100m"), ("memory", "256Mi")])),
            limits: Some(amounts(&[("memory", "2Gi")])),
            ..ResourceRequirements::default()
        }),
        security_context: Some(pod::restricted_container(true)),
        termination_message_path: Some(REPORT.to_owned()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(access.mounts).filter(|mounts| !mounts.is_empty()),
        ..Container::default()
    }
}

/// With volumes and paths that those of the source do not have.
fn apart(access: store::Access) -> store::Access {
    let store::Access {
        mut env,
        mut volumes,
        mut mounts,
    } = access;
    let moved = |path: &str| {
        let below = path.strip_prefix(SECRETS);
        below.map(|below| format!("{SECRETS_OF_TARGET}{below}"))
    };
    for variable in &mut env {
        let path = variable.value.as_deref().and_then(moved);
        variable.value = path.or_else(|| variable.value.take());
    }
    for volume in &mut volumes {
        volume.name = format!("to-{}", volume.name);
    }
    for mount in &mut mounts {
        mount.name = format!("to-{}", mount.name);
        mount.mount_path = moved(&mount.mount_path).unwrap_or_else(|| mount.mount_path.clone());
    }
    store::Access {
        env,
        volumes,
        mounts,
    }
}

/// By the variables with which `readstates migrate` logs in to its target; the claim is that of the source.
fn as_target(access: store::Access) -> store::Access {
    let env = access.env.into_iter().filter_map(|mut variable| {
        let name = variable.name.strip_prefix(LOGIN)?;
        variable.name = format!("{LOGIN_TO_TARGET}{name}");
        Some(variable)
    });
    store::Access {
        env: env.collect(),
        ..access
    }
}
