//! `spec.cache` after parsing: the cache pods, and what they need when the spec does not say.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceRequirements;
use readstates_operator_api::{ApiTlsSpec, CacheSpec};

use super::{Checker, amounts, duration};
use crate::spec::{Cache, Placement};

impl Checker {
    pub(super) fn cache(&mut self, spec: &CacheSpec, namespace: &str) -> Cache {
        let CacheSpec {
            capacity_states,
            flush_interval,
            flush_mode,
            durability,
            resources,
            node_selector,
            tolerations,
            priority_class_name,
            clients,
            access,
            pod_template,
            service,
            tls,
        } = spec;
        Cache {
            capacity_states: *capacity_states,
            flush_interval: self.flush_interval(flush_interval),
            flush_mode: *flush_mode,
            durability: *durability,
            resources: self
                .resources("spec.cache.resources", resources.as_ref())
                .unwrap_or_else(|| default_resources(*capacity_states)),
            resources_by_capacity: resources.is_none(),
            placement: Placement::of(
                node_selector.as_ref(),
                tolerations.as_ref(),
                priority_class_name.as_ref(),
            ),
            clients: clients.clone(),
            overlay: self.pods_of_cache(pod_template.as_deref()),
            service: service.clone(),
            access: access
                .as_ref()
                .map(|access| self.access(access, namespace, tls.is_some())),
            tls: tls.as_ref().and_then(|tls| {
                let ApiTlsSpec {
                    secret_name,
                    issuer_ref,
                } = tls;
                self.tls("spec.cache.tls", secret_name.as_ref(), issuer_ref.as_ref())
            }),
        }
    }

    fn flush_interval(&mut self, text: &str) -> Duration {
        duration::parse(text).unwrap_or_else(|| {
            self.wrong(
                "spec.cache.flushInterval",
                format!("{text:?} is not a duration from 1s to 10m"),
            );
            Duration::ZERO
        })
    }
}

/// The cache keeps to 34 bytes a state; around it are what is dirty, what is being loaded, and the
/// requests. And what the process needs by itself.
fn default_resources(capacity_states: i64) -> ResourceRequirements {
    const BYTES_PER_STATE: i64 = 48;
    const PROCESS_MIB: i64 = 128;
    let mib = PROCESS_MIB + capacity_states * BYTES_PER_STATE / (1 << 20);
    ResourceRequirements {
        requests: Some(amounts("100m", &format!("{mib}Mi"))),
        ..ResourceRequirements::default()
    }
}
