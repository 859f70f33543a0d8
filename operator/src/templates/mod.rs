//! Makes what pods are made from: StatefulSets, Jobs and CronJobs, typed, one file a kind. In: a validated cluster, and
//! which template it may have now. Out: objects. Pure, and cannot fail.

mod access;
mod api_tls;
mod applied;
mod backup;
mod cache;
mod database;
mod env;
mod identity;
mod job;
mod migration;
mod overlay;
pub(crate) mod pod;
mod restore;
mod schema_job;
pub(crate) mod service_account;
mod step;
mod store;
mod volume_snapshot;

use k8s_openapi::api::apps::v1::StatefulSet;

pub(crate) use self::{
    access::FILE as ACCESS_FILE, api_tls::scheme, backup::metadata as backup_metadata,
    restore::metadata as restore_metadata,
};
pub use self::{
    applied::hash as applied_hash,
    backup::{backup_cron_jobs, backup_job},
    cache::{memory as cache_memory, memory_of, template_hash as cache_template_hash},
    database::{
        config, database_image, internode_of, rack, template_hash, template_with_image, update_name,
    },
    migration::{Ends, move_job, moving_to, store_url},
    restore::{restore_job, restore_job_name, restore_selector},
    schema_job::{job_name as schema_job_name, made_by as made_by_job, schema_job, wanted_store},
    step::{RackStep, Template},
    volume_snapshot::{SnapshotWish, claim_from_snapshot, snapshot_wish},
};
use crate::spec::ValidatedCluster;

/// The StatefulSet of the cache with `replicas` pods of this template, restarted for this request.
#[must_use]
pub fn cache(
    cluster: &ValidatedCluster,
    replicas: i32,
    template: &Template,
    restarted: Option<&String>,
) -> StatefulSet {
    cache::stateful_set(cluster, replicas, template, restarted)
}
