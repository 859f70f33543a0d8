//! What is no part of a spec, and yet of what is built: what is asked for beside it, and what was seen.

use readstates_operator_api::{DatabaseReplication, InternodeTls};

/// What is asked for beside the spec, and on record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Namespace of the operator.
    pub operator_namespace: &'a str,
    /// The wish for another certificate authority.
    pub rotation: Option<&'a String>,
    /// What the operator may bind cache pods to.
    pub token_review_role: Option<&'a String>,
    /// The claim that is taken over.
    pub take_over_claim: Option<&'a String>,
    /// Until when the maintenance window is open, for once.
    pub window_until: Option<&'a String>,
    /// The copies that are on record; none: those that are wanted, and that the keyspace is made with.
    pub replication: Option<&'a DatabaseReplication>,
}

/// What was seen, and pods are built with.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub login: Login,
    pub certificates: Certificates,
    /// Whether there are CAs to check clients' certificates by.
    pub client_ca: bool,
    /// The stage that the nodes' traffic with each other is to have next; none: the wanted one.
    pub internode: Option<InternodeTls>,
}

/// What was seen of the login to a database that the operator runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// Changes whenever the user or the password does; neither can be told from it.
    pub version: Option<String>,
    /// Whether all of the database asks for a login: only then can roles be made.
    pub asked_for: bool,
}

/// What was seen of the certificates for CQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Changes whenever what members show changes; none while they cannot be used.
    pub mark: Option<String>,
    /// Whether there is one to show to an external database.
    pub client: bool,
}
