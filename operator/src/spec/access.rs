//! Who may call the API.

use readstates_operator_api::{TokenSecretRef, Verb};

/// Who may call the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The callers; their names differ. All others are refused.
    pub callers: Vec<Caller>,
}

/// One caller, with one proof or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub name: String,
    /// What it may do; never empty.
    pub verbs: Vec<Verb>,
    /// Secret and key of its token.
    pub token: Option<TokenSecretRef>,
    /// Its service accounts, as `NAMESPACE/NAME`; each is that of one caller.
    pub service_accounts: Vec<String>,
    /// DNS names of its client certificates; each is that of one caller.
    pub certificates: Vec<String>,
    /// Most requests at the same time.
    pub max_concurrent: Option<i32>,
}

impl Access {
    /// Whether tokens of service accounts have to be checked.
    #[must_use]
    pub fn names_service_accounts(&self) -> bool {
        self.callers.iter().any(|c| !c.service_accounts.is_empty())
    }
}
