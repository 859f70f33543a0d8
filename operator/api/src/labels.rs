//! Labels and annotations on the objects the operator makes, and the selectors built from them.

use std::{collections::BTreeMap, fmt};

/// Name of the cluster an object belongs to.
pub const CLUSTER: &str = "readstates.dev/cluster";
/// Rack of a database pod.
pub const RACK: &str = "readstates.dev/rack";
/// Component of a cluster that an object belongs to: see [`Component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// On what makes a backup, and on the VolumeSnapshots of one: the `ReadStateBackup`.
pub const BACKUP: &str = "readstates.dev/backup";
/// On what makes backups at given times: the `ReadStateBackupSchedule`.
pub const BACKUP_SCHEDULE: &str = "readstates.dev/backup-schedule";
/// On what moves a table to another database: the `ReadStateMigration`.
pub const MIGRATION: &str = "readstates.dev/migration";
/// On what restores a backup into a new cluster: the `ReadStateCluster`.
pub const RESTORE: &str = "readstates.dev/restore";
/// The zone of a node, and from Kubernetes 1.35 on of the pods on it.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// What an object is a part of.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// Hash of the object as the operator last applied it (annotation).
pub const APPLIED_HASH: &str = "readstates.dev/applied-hash";

/// Hash of the pod template that a StatefulSet was last given (annotation).
pub const TEMPLATE_HASH: &str = "readstates.dev/template-hash";
/// Hash of the user's spec for these pods, as of that template (annotation).
pub const SPEC_HASH: &str = "readstates.dev/spec-hash";
/// On database pods: the authentication that they require of clients; absent on pods from before it was required
/// (annotation).
pub const AUTHENTICATION: &str = "readstates.dev/authentication";
/// On pods that log in to the database: changes whenever the login changes (annotation).
pub const LOGIN: &str = "readstates.dev/login";
/// On database pods: changes whenever the certificate that they present changes (annotation).
pub const CERTIFICATES: &str = "readstates.dev/certificates";
/// On a `ReadStateCluster`: the update of the database pods that may go ahead, by the name that the condition
/// `RequiresUpdate` gives (annotation).
pub const UPDATE_DATABASE: &str = "readstates.dev/update-database";
/// On a `ReadStateCluster`: the update of the cache pods that may go ahead, by the name that the condition
/// `RequiresUpdate` gives (annotation).
pub const UPDATE_CACHE: &str = "readstates.dev/update-cache";
/// On a `ReadStateCluster`: any new value, such as the time, replaces the cache pods one by one (annotation).
pub const RESTART_CACHE: &str = "readstates.dev/restart-cache";
/// On a `ReadStateCluster`: any new value, such as the time, restarts the database pods one by one (annotation).
pub const RESTART_DATABASE: &str = "readstates.dev/restart-database";
/// On cache pods: changes whenever a change requires replacing the pod; not for settings that apply to a running pod
/// (annotation).
pub const REPLACE_HASH: &str = "readstates.dev/replace-hash";
/// On pods: the value of the request that they were last restarted for (annotation).
pub const RESTARTED: &str = "readstates.dev/restarted";
/// On a `ReadStateCluster`: the takeovers that a user has acknowledged, by the name that the condition `TakenOver`
/// gives (annotation).
pub const ACKNOWLEDGE_TAKEOVER: &str = "readstates.dev/acknowledge-takeover";
/// On a `ReadStateCluster`: time (RFC 3339) until which restarts may begin outside of its maintenance windows
/// (annotation).
pub const OPEN_WINDOW_UNTIL: &str = "readstates.dev/open-window-until";
/// On a `ReadStateCluster`: the name of the claim on the keyspace of an external database to take over, because the
/// cluster of that name is gone for good (annotation).
pub const TAKE_OVER_CLAIM: &str = "readstates.dev/take-over-claim";
/// On a `ReadStateCluster`: the database image that may follow the running one, although its release is not a supported
/// successor (annotation).
pub const ACCEPT_ENGINE_VERSION: &str = "readstates.dev/accept-engine-version";
/// On a `ReadStateCluster`: the database image that the nodes may be changed to although not all have a snapshot to go
/// back to (annotation).
pub const UPGRADE_WITHOUT_SNAPSHOT: &str = "readstates.dev/upgrade-without-snapshot";
/// On a `ReadStateCluster`: the name of the snapshot, kept since the database went back to its former release, that the
/// nodes may remove (annotation).
pub const RELEASE_SNAPSHOT: &str = "readstates.dev/release-snapshot";
/// On a `ReadStateCluster`: its own UID, to make it adopt objects of its name without an owner, as left by `kubectl
/// delete --cascade=orphan` (annotation).
pub const ADOPT: &str = "readstates.dev/adopt";
/// On a `ReadStateCluster`: the host ID of the node whose loss may be accepted although no copy of its data
/// exists (annotation).
pub const ACCEPT_DATA_LOSS: &str = "readstates.dev/accept-data-loss";

/// On a `ReadStateCluster`: any new value rotates the certificate authority, in stages and without interruption
/// (annotation). On the Secret with the authority: the value that the newest authority was created for.
pub const ROTATE_IDENTITY: &str = "readstates.dev/rotate-identity";
/// On a Secret with a certificate of a process: the mark of the authority that issued it (annotation).
pub const ISSUED_BY: &str = "readstates.dev/issued-by";

/// On a `ReadStateCluster`: which leg of a super-disk to keep when both took writes (annotation), as `<UID of its
/// pod>.durable` or `<UID of its pod>.fast`.
pub const KEEP_LEG: &str = "readstates.dev/keep-leg";

/// On a volume claim of a database with super-disks: the UID of the claim that its disk is a copy of (annotation), or
/// `<UID>@<generation>` for the snapshot of that generation alone. Needed if its data source does not say, for instance because the claim that the snapshot was taken from is gone.
pub const COPY_OF: &str = "readstates.dev/copy-of";

/// On a VolumeSnapshot of a backup: the database node that it is of, and how it is restored (annotation), as JSON.
pub const SNAPSHOT_OF: &str = "readstates.dev/snapshot-of";
/// On a volume claim of a database: the UID of the VolumeSnapshot that the operator made it from (annotation).
pub const RESTORED_FROM: &str = "readstates.dev/restored-from";

/// On a `ReadStateCluster` whose database is deleted with it (finalizer): its cache pods write what they hold first.
pub const STOP_IN_ORDER: &str = "readstates.dev/stop-in-order";

/// On a `ReadStateMigration` that has begun (finalizer): its Job ends before it goes.
pub const END_MIGRATION: &str = "readstates.dev/end-migration";

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The field manager of every server-side apply, and the value of the managed-by label.
pub const MANAGER: &str = "readstates-operator";

/// Component of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The cache pods.
    Cache,
    /// The database pods.
    Database,
    /// The Job that creates keyspace and table.
    Schema,
    /// The Jobs that make, verify, prune and restore backups, and those that move a table.
    Backup,
}

impl Component {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Database => "database",
            Self::Schema => "schema",
            Self::Backup => "backup",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Every label of an object of `cluster`.
#[must_use]
pub fn all(cluster: &str, component: Component) -> BTreeMap<String, String> {
    let mut labels = selector(cluster, component);
    for (key, value) in [
        (NAME, "readstates"),
        (INSTANCE, cluster),
        (PART_OF, "readstates"),
        (MANAGED_BY, MANAGER),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    labels
}

/// The labels that select the pods of one component; never changed, since selectors are immutable.
#[must_use]
pub fn selector(cluster: &str, component: Component) -> BTreeMap<String, String> {
    BTreeMap::from([
        (CLUSTER.to_owned(), cluster.to_owned()),
        (COMPONENT.to_owned(), component.as_str().to_owned()),
    ])
}

/// [`selector`] as the text of a list request or of the scale subresource.
#[must_use]
pub fn selector_text(cluster: &str, component: Component) -> String {
    format!("{CLUSTER}={cluster},{COMPONENT}={component}")
}

/// Selects every object of `cluster`, whatever its component.
#[must_use]
pub fn of_cluster(cluster: &str) -> String {
    format!("{CLUSTER}={cluster}")
}
