//! `spec.cache.access` after parsing: callers whose names and proofs differ.

use std::collections::BTreeMap;

use readstates_operator_api::{AccessSpec, CallerSpec, ClientCaSource};

use super::Checker;
use crate::spec::{Access, Caller};

const ACCESS: &str = "spec.cache.access";
const FIELD: &str = "spec.cache.access.callers";

impl Checker {
    /// `namespace`: that of service accounts that name none. `tls`: whether the API speaks TLS.
    pub(super) fn access(&mut self, spec: &AccessSpec, namespace: &str, tls: bool) -> Access {
        let AccessSpec { client_ca, callers } = spec;
        if let Some(source) = client_ca {
            self.client_ca(source, tls);
        }
        let callers: Vec<_> = callers.iter().map(|spec| caller(spec, namespace)).collect();
        let mut accounts = BTreeMap::new();
        let mut certificates = BTreeMap::new();
        for (i, caller) in callers.iter().enumerate() {
            let field = |name: &str| format!("{FIELD}[{i}].{name}");
            if callers[..i].iter().any(|other| other.name == caller.name) {
                self.wrong(field("name"), "is the name of two callers");
            }
            if caller.verbs.is_empty() {
                self.wrong(field("verbs"), "at least one verb is needed");
            }
            let Caller {
                token,
                service_accounts,
                certificates: names,
                ..
            } = caller;
            if token.is_none() && service_accounts.is_empty() && names.is_empty() {
                self.wrong(
                    field("tokenSecretRef"),
                    "needs a token, a service account or a certificate with which the caller authenticates",
                );
            }
            if !names.is_empty() && client_ca.is_none() {
                self.wrong(
                    field("certificates"),
                    format!("needs {ACCESS}.clientCa: the CAs that have signed them"),
                );
            }
            for (list, values, seen) in [
                ("serviceAccounts", service_accounts, &mut accounts),
                ("certificates", names, &mut certificates),
            ] {
                for (at, value) in values.iter().enumerate() {
                    if let Some(other) = seen.insert(value.clone(), &caller.name) {
                        let problem = format!(
                            "{value} is also that of {other}; each stands for one caller, once"
                        );
                        self.wrong(field(&format!("{list}[{at}]")), problem);
                    }
                }
            }
        }
        Access { callers }
    }

    fn client_ca(&mut self, source: &ClientCaSource, tls: bool) {
        let ClientCaSource {
            secret_name,
            config_map_name,
            key: _,
        } = source;
        let field = format!("{ACCESS}.clientCa");
        if secret_name.is_some() == config_map_name.is_some() {
            let problem = "exactly one of secretName and configMapName must be set";
            self.wrong(&field, problem);
        }
        if !tls {
            let problem = "needs spec.cache.tls: client certificates are presented over TLS only";
            self.wrong(&field, problem);
        }
    }
}

fn caller(spec: &CallerSpec, namespace: &str) -> Caller {
    let CallerSpec {
        name,
        verbs,
        token_secret_ref,
        service_accounts,
        certificates,
        max_concurrent,
    } = spec.clone();
    let accounts = service_accounts.into_iter().flatten().map(|account| {
        let namespace = account.namespace.as_deref().unwrap_or(namespace);
        format!("{namespace}/{}", account.name)
    });
    let certificates = certificates.into_iter().flatten();
    Caller {
        name,
        verbs,
        token: token_secret_ref,
        service_accounts: accounts.collect(),
        // As cache pods compare them.
        certificates: certificates.map(|dns| dns.to_ascii_lowercase()).collect(),
        max_concurrent,
    }
}
