//! `spec.cache.access` after parsing: callers whose names differ.

use readstates_operator_api::{AccessSpec, CallerSpec, TokenSecretRef, Verb};

use super::Checker;

const FIELD: &str = "spec.cache.access.callers";

/// Who may call the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The callers; their names differ. Nobody else is let in.
    pub callers: Vec<Caller>,
}

/// One caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its name.
    pub name: String,
    /// What it may do; never empty.
    pub verbs: Vec<Verb>,
    /// Secret and key of its token.
    pub token: TokenSecretRef,
    /// Most requests at the same time.
    pub max_concurrent: Option<i32>,
}

impl Checker {
    pub(super) fn access(&mut self, spec: &AccessSpec) -> Access {
        let AccessSpec { callers } = spec;
        for (i, caller) in callers.iter().enumerate() {
            if callers[..i].iter().any(|other| other.name == caller.name) {
                self.wrong(format!("{FIELD}[{i}].name"), "is the name of two callers");
            }
            if caller.verbs.is_empty() {
                self.wrong(format!("{FIELD}[{i}].verbs"), "at least one verb is needed");
            }
        }
        let callers = callers.iter().map(|caller| {
            let CallerSpec {
                name,
                verbs,
                token_secret_ref,
                max_concurrent,
            } = caller.clone();
            Caller {
                name,
                verbs,
                token: token_secret_ref,
                max_concurrent,
            }
        });
        Access {
            callers: callers.collect(),
        }
    }
}
