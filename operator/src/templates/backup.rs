//! Jobs and CronJobs that make, verify and prune backups. Each container has what its own work needs, and no more: only
//! `create` the login of the database, none a token of the Kubernetes API. Each writes its result as its termination
//! message, or else leaves its last words there.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{
            CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec, PodFailurePolicy,
            PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
            PodFailurePolicyRule,
        },
        core::v1::{
            Container, PersistentVolumeClaimVolumeSource, PodSpec, ResourceRequirements, Volume,
            VolumeMount,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use readstates_operator_api::labels::{self, Component};

use super::{env, job, pod, service_account, store};
use crate::{
    names::{ACCESS_KEY_ID, CREATE, PRUNE, SECRET_ACCESS_KEY, VERIFY},
    spec::{BackupOwner, BackupPlace, BackupsAt, Retention, ValidatedCluster, ValidatedSchedule},
};

/// Attempts after the first. A second one stores nothing again that the first has stored.
const RETRIES: i32 = 3;
/// One that takes longer is stuck: it would keep all later ones of its schedule from beginning.
const LONGEST_SECONDS: i64 = 24 * 3600;
/// By how much one that could not begin in time may be late.
const LATEST_SECONDS: i64 = 6 * 3600;
/// Finished Jobs of each kind that are kept, with their logs.
const KEPT_JOBS: i32 = 3;

/// Exit status for wrong usage, and for damage: another attempt ends the same.
const USAGE: i32 = 2;
const DAMAGED: i32 = 4;

pub(super) const REPORT: &str = "/dev/termination-log";
const BACKUPS: &str = "backups";
const BACKUPS_PATH: &str = "/var/lib/readstates-backups";
const CA: &str = "backups-ca";
const CA_PATH: &str = "/etc/readstates/backups-ca";
const CA_FILE: &str = "READSTATES_BACKUPS_CA_FILE";
const ENCRYPTION: &str = "encryption";
const ENCRYPTION_PATH: &str = "/etc/readstates/encryption";
const ENCRYPTION_KEY_FILE: &str = "READSTATES_BACKUP_ENCRYPTION_KEY_FILE";

/// The Job that makes one backup.
#[must_use]
pub fn backup_job(cluster: &ValidatedCluster, owner: &BackupOwner, place: &BackupPlace) -> Job {
    let work = Work {
        cluster,
        owner,
        place,
    };
    Job {
        metadata: metadata(owner, owner.job(), &cluster.id.name),
        spec: Some(work.job(None, work.create(), vec![on_exit(CREATE, &[USAGE])])),
        status: None,
    }
}

/// The CronJobs of a schedule: the one that makes backups and prunes them, and the one that verifies them.
#[must_use]
pub fn backup_cron_jobs(
    cluster: &ValidatedCluster,
    owner: &BackupOwner,
    schedule: &ValidatedSchedule,
    place: &BackupPlace,
) -> Vec<CronJob> {
    let ValidatedSchedule {
        cluster: _,
        method: _,
        schedule: times,
        time_zone,
        suspend,
        retention,
        verify,
        max_age: _,
    } = schedule;
    let work = Work {
        cluster,
        owner,
        place,
    };
    let cron_job = |name: String, times: &str, job: JobSpec| CronJob {
        metadata: metadata(owner, name, &cluster.id.name),
        spec: CronJobSpec {
            schedule: times.to_owned(),
            time_zone: Some(time_zone.clone()),
            suspend: Some(*suspend),
            concurrency_policy: Some("Forbid".to_owned()),
            starting_deadline_seconds: Some(LATEST_SECONDS),
            successful_jobs_history_limit: Some(KEPT_JOBS),
            failed_jobs_history_limit: Some(KEPT_JOBS),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels(owner, &cluster.id.name)),
                    ..ObjectMeta::default()
                }),
                spec: Some(job),
            },
        },
        status: None,
    };
    let create = work.create();
    let job = match retention {
        None => work.job(None, create, vec![on_exit(CREATE, &[USAGE])]),
        // A backup that was made is not made again because old ones cannot be deleted: the next one tries that, too.
        Some(retention) => {
            let rules = vec![on_exit(CREATE, &[USAGE]), on_failure(PRUNE)];
            work.job(Some(create), work.prune(*retention), rules)
        }
    };
    let verify = verify.as_ref().map(|times| {
        let rules = vec![on_exit(VERIFY, &[USAGE, DAMAGED])];
        cron_job(owner.verify(), times, work.job(None, work.verify(), rules))
    });
    let create = cron_job(owner.create(), times, job);
    [create].into_iter().chain(verify).collect()
}

pub(crate) fn metadata(owner: &BackupOwner, name: String, cluster: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(owner.id.namespace.clone()),
        labels: Some(pod_labels(owner, cluster)),
        owner_references: Some(vec![owner.owner_reference()]),
        ..ObjectMeta::default()
    }
}

pub(super) fn pod_labels(owner: &BackupOwner, cluster: &str) -> BTreeMap<String, String> {
    let mut all = labels::all(cluster, Component::Backup);
    all.insert(owner.label.to_owned(), owner.id.name.clone());
    all
}

struct Work<'a> {
    cluster: &'a ValidatedCluster,
    owner: &'a BackupOwner,
    place: &'a BackupPlace,
}

impl Work<'_> {
    fn create(&self) -> Container {
        let access = store::access(self.cluster);
        let store = store::url(self.cluster);
        self.container(CREATE, &["--store", &store], access, false)
    }

    fn verify(&self) -> Container {
        self.container(VERIFY, &[], store::Access::default(), true)
    }

    fn prune(&self, retention: Retention) -> Container {
        let Retention { last, days } = retention;
        let flags: Vec<_> = [("--keep-last", last), ("--keep-days", days)]
            .into_iter()
            .filter_map(|(flag, number)| Some([flag.to_owned(), number?.to_string()]))
            .flatten()
            .collect();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        self.container(PRUNE, &flags, store::Access::default(), false)
    }

    fn container(
        &self,
        name: &str,
        flags: &[&str],
        access: store::Access,
        read_only: bool,
    ) -> Container {
        container(self.cluster, self.place, name, flags, access, read_only)
    }

    /// `first` runs before `main`, in the same pod.
    fn job(
        &self,
        first: Option<Container>,
        main: Container,
        rules: Vec<PodFailurePolicyRule>,
    ) -> JobSpec {
        let Self {
            cluster,
            owner,
            place,
        } = self;
        let with_login = [first.as_ref(), Some(&main)];
        let with_login = with_login.into_iter().flatten().any(|c| c.name == CREATE);
        let login = if with_login {
            store::access(cluster).volumes
        } else {
            Vec::new()
        };
        let volumes = [login, volumes(place)].concat();
        let account = account(cluster, place);
        let pod = PodSpec {
            init_containers: first.map(|first| vec![first]),
            ..job::pod(cluster, account, vec![main], volumes)
        };
        JobSpec {
            backoff_limit: Some(RETRIES),
            active_deadline_seconds: Some(LONGEST_SECONDS),
            pod_failure_policy: Some(PodFailurePolicy {
                rules: [vec![on_disruption()], rules].concat(),
            }),
            template: job::template(pod_labels(owner, &cluster.id.name), pod),
            ..JobSpec::default()
        }
    }
}

/// The account of pods that reach a place: a bucket may be opened to one.
pub(super) fn account(cluster: &ValidatedCluster, place: &BackupPlace) -> String {
    let account = match &place.at {
        BackupsAt::Bucket { account, .. } => account.clone(),
        BackupsAt::Volume { .. } => None,
    };
    account.unwrap_or_else(|| service_account::name(cluster, Component::Backup))
}

/// `readstates backup NAME`, with these flags and what is needed besides the place of the backups.
pub(super) fn container(
    cluster: &ValidatedCluster,
    place: &BackupPlace,
    name: &str,
    flags: &[&str],
    mut access: store::Access,
    read_only: bool,
) -> Container {
    let (backups, at) = reach(place, read_only);
    access.extend(at);
    let args = ["backup", name, "--backups", &backups, "--report", REPORT];
    let args = args.iter().chain(flags).map(|&arg| arg.to_owned());
    let amount = |amount: &str| Quantity(amount.to_owned());
    let requests = [("cpu", "100m"), ("memory", "512Mi")];
    let limits = [("memory", "1Gi")];
    let amounts = |of: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        let each = of.iter();
        each.map(|&(name, text)| (name.to_owned(), amount(text)))
            .collect()
    };
    Container {
        name: name.to_owned(),
        image: Some(cluster.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        args: Some(args.collect()),
        env: Some(access.env).filter(|e| !e.is_empty()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts(&requests)),
            limits: Some(amounts(&limits)),
            ..ResourceRequirements::default()
        }),
        security_context: Some(pod::restricted_container(true)),
        termination_message_path: Some(REPORT.to_owned()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(access.mounts).filter(|m| !m.is_empty()),
        ..Container::default()
    }
}

/// The place as `--backups` takes it, and what a container needs to reach it.
fn reach(place: &BackupPlace, read_only: bool) -> (String, store::Access) {
    let BackupPlace { at, encryption } = place;
    let mut access = store::Access::default();
    let backups = match at {
        BackupsAt::Bucket {
            url,
            region,
            endpoint,
            ca,
            credentials,
            account: _,
        } => {
            let plain = endpoint.as_ref().filter(|url| url.starts_with("http://"));
            let values = [
                region
                    .as_ref()
                    .map(|region| ("AWS_REGION", region.as_str())),
                endpoint.as_ref().map(|url| ("AWS_ENDPOINT", url.as_str())),
                plain.map(|_| ("AWS_ALLOW_HTTP", "true")),
            ];
            let values = values.into_iter().flatten();
            access
                .env
                .extend(values.map(|(name, value)| env::value(name, value)));
            if let Some((secret, key)) = ca {
                let (volume, mount) = store::keys_of(CA, CA_PATH, secret, &[key.as_str()]);
                access
                    .env
                    .push(env::value(CA_FILE, format!("{CA_PATH}/{key}")));
                access.volumes.push(volume);
                access.mounts.push(mount);
            }
            let keys = [
                ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
                ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY),
            ];
            access.env.extend(
                credentials
                    .iter()
                    .flat_map(|secret| keys.map(|(name, key)| env::secret(name, secret, key))),
            );
            url.clone()
        }
        BackupsAt::Volume { claim, path } => {
            access.volumes.push(Volume {
                name: BACKUPS.to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: claim.clone(),
                    read_only: None,
                }),
                ..Volume::default()
            });
            access.mounts.push(VolumeMount {
                read_only: read_only.then_some(true),
                ..pod::mount(BACKUPS, BACKUPS_PATH)
            });
            let below = path.as_ref().map(|path| format!("/{path}"));
            format!("{BACKUPS_PATH}{}", below.unwrap_or_default())
        }
    };
    if let Some((secret, key)) = encryption {
        let (volume, mount) = store::keys_of(ENCRYPTION, ENCRYPTION_PATH, secret, &[key.as_str()]);
        let file = format!("{ENCRYPTION_PATH}/{key}");
        access.env.push(env::value(ENCRYPTION_KEY_FILE, file));
        access.volumes.push(volume);
        access.mounts.push(mount);
    }
    (backups, access)
}

/// The volumes that [`container`] mounts for a place.
pub(super) fn volumes(place: &BackupPlace) -> Vec<Volume> {
    reach(place, false).1.volumes
}

/// A pod that was evicted is no failed attempt.
pub(super) fn on_disruption() -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: "Ignore".to_owned(),
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".to_owned(),
            status: Some("True".to_owned()),
        }]),
        on_exit_codes: None,
    }
}

/// With these exit codes, the container is not tried again.
pub(super) fn on_exit(container: &str, codes: &[i32]) -> PodFailurePolicyRule {
    no_other_attempt(container, "In", codes)
}

/// However it fails, the container is not tried again.
fn on_failure(container: &str) -> PodFailurePolicyRule {
    no_other_attempt(container, "NotIn", &[0])
}

fn no_other_attempt(container: &str, operator: &str, values: &[i32]) -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: "FailJob".to_owned(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(container.to_owned()),
            operator: operator.to_owned(),
            values: values.to_vec(),
        }),
        on_pod_conditions: None,
    }
}
