//! `spec.database.settings` after parsing: settings of an engine that are the user's to choose.

use std::collections::BTreeMap;

use readstates_agent::engine::Profile;
use readstates_operator_api::{Engine, SettingValue};

use super::Checker;

const FIELD: &str = "spec.database.settings";
/// Longer than any name there is.
const NAME_LENGTH: usize = 128;

/// Settings that the operator sets or relies on: identity, addresses, folders, login.
const OURS: [&str; 43] = [
    "allocate_tokens_for_keyspace",
    "allocate_tokens_for_local_replication_factor",
    "api_address",
    "api_port",
    "auth_superuser_name",
    "auth_superuser_salted_password",
    "authenticator",
    "authorizer",
    "auto_bootstrap",
    "broadcast_address",
    "broadcast_rpc_address",
    "cdc_raw_directory",
    "client_encryption_options",
    "cluster_name",
    "commitlog_directory",
    "cpuset",
    "data_file_directories",
    "developer_mode",
    "endpoint_snitch",
    "hints_directory",
    "ignore_dead_nodes_for_replace",
    "initial_token",
    "io_properties_file",
    "listen_address",
    "listen_interface",
    "local_system_data_file_directory",
    "native_shard_aware_transport_port",
    "native_transport_port",
    "num_tokens",
    "overprovisioned",
    "partitioner",
    "replace_address",
    "replace_address_first_boot",
    "replace_node_first_boot",
    "rpc_address",
    "rpc_interface",
    "saved_caches_directory",
    "seed_provider",
    "server_encryption_options",
    "smp",
    "start_native_transport",
    "storage_port",
    "workdir",
];

impl Checker {
    /// They become options of a program, and with Cassandra words of a shell's line: what a CRD older than this
    /// operator would let pass ends here.
    pub(super) fn settings(
        &mut self,
        engine: Engine,
        settings: Option<&BTreeMap<String, SettingValue>>,
    ) -> BTreeMap<String, String> {
        let mut valid = BTreeMap::new();
        for (name, SettingValue(value)) in settings.into_iter().flatten() {
            match wrong(engine, name, value) {
                Some(problem) => self.wrong(format!("{FIELD}.{name}"), problem),
                None => drop(valid.insert(name.clone(), value.clone())),
            }
        }
        valid
    }
}

fn wrong(engine: Engine, name: &str, value: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let is_word = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part
                .chars()
                .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'))
    };
    if name.len() > NAME_LENGTH || !parts.iter().all(is_word) {
        return Some("is not the name of a setting, such as concurrent_writes".to_owned());
    }
    if OURS.binary_search(&parts[0]).is_ok() {
        return Some("is set by the operator: leave it out".to_owned());
    }
    let profile = Profile::of(engine);
    if !profile.inner_settings && parts.len() > 1 {
        return Some(format!(
            "{} takes no inner settings here: only names without dots",
            profile.title
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:/%+-".contains(c);
    if value.is_empty() || !value.chars().all(plain) {
        return Some(format!(
            "{value:?} may have letters, digits and _ . , : / % + - only"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{CASSANDRA, try_cluster};

    #[test]
    fn what_is_ours_is_in_order() {
        assert!(OURS.is_sorted());
    }

    #[test]
    fn names_and_values_that_are_no_settings_or_ours_are_refused() {
        for (setting, word) in [
            ("Concurrent_writes: '1'", "not the name of a setting"),
            ("'a b': '1'", "not the name of a setting"),
            ("'a..b': '1'", "not the name of a setting"),
            ("cluster_name: mine", "is set by the operator"),
            (
                "'client_encryption_options.enabled': 'false'",
                "is set by the operator",
            ),
            ("a: 'x y'", "letters, digits"),
            ("a: '$(reboot)'", "letters, digits"),
            ("a: ''", "letters, digits"),
        ] {
            let spec = CASSANDRA.replace(
                "database:\n",
                &format!("database:\n  settings: {{ {setting} }}\n"),
            );
            let text = try_cluster(&spec).unwrap_err().to_string();
            assert!(
                text.contains("spec.database.settings.") && text.contains(word),
                "{setting}: {text}"
            );
        }
    }

    #[test]
    fn scylladb_has_no_inner_settings() {
        let text = wrong(Engine::Scylla, "audit.enabled", "true").unwrap();
        assert!(text.contains("without dots"), "{text}");
        assert_eq!(
            wrong(Engine::Cassandra, "audit_logging_options.enabled", "true"),
            None
        );
    }
}
