//! Decides which callers of the spec are admitted, by which credentials, and why others are refused. A refused caller
//! does not affect the others.

use std::{collections::BTreeMap, fmt};

use readstates_operator_api::{TokenSecretRef, Verb};

use crate::{
    spec::{Caller, ValidatedCluster},
    world::{TokenProblem, World},
};

/// What cache pods are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallersStep {
    /// Callers that are let in; no proof is that of two.
    pub admitted: Vec<Admitted>,
    /// The CAs of their certificates, in PEM form.
    pub client_ca: Option<String>,
    /// The ClusterRole that cache pods need to check tokens of service accounts.
    pub review_by: Option<String>,
    /// Callers that are not let in, or not by all that the spec gives them.
    pub refused: Vec<Refused>,
}

/// A caller that is let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    pub name: String,
    /// What it may do.
    pub verbs: Vec<Verb>,
    /// Hashes of its tokens.
    pub tokens: Vec<String>,
    /// Its service accounts, as `NAMESPACE/NAME`.
    pub service_accounts: Vec<String>,
    /// DNS names of its certificates.
    pub certificates: Vec<String>,
    /// Most requests at the same time.
    pub max_concurrent: Option<i32>,
}

/// A caller that is refused, or one of its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub caller: String,
    /// The refused kind of credential, where the caller has others; `None`: the caller is refused.
    pub with: Option<Proof>,
    /// Why, and what to do.
    pub why: String,
}

/// By what a caller proves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A token of a Secret.
    Token,
    /// A token of a service account.
    ServiceAccount,
    /// A client certificate.
    Certificate,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::ServiceAccount => "service account",
            Self::Certificate => "certificate",
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caller, with, why } = self;
        match with {
            None => write!(f, "{caller} is refused: {why}"),
            Some(proof) => write!(f, "{caller} is refused with its {proof}: {why}"),
        }
    }
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World) -> CallersStep {
    let mut step = CallersStep {
        client_ca: world.client_ca.as_ref().and_then(|seen| seen.pem.clone()),
        ..CallersStep::default()
    };
    let Some(access) = &cluster.cache.access else {
        return step;
    };
    if access.names_service_accounts() {
        step.review_by.clone_from(&cluster.token_review_role);
    }
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for caller in &access.callers {
        let (admitted, refusals) = judge(caller, cluster, world, &owners);
        let own = admitted.tokens.iter();
        owners.extend(own.map(|hash| (hash.clone(), caller.name.clone())));
        let several = proofs(caller) > 1;
        let refused = refusals.into_iter().map(|(proof, why)| Refused {
            caller: caller.name.clone(),
            with: several.then_some(proof),
            why,
        });
        step.refused.extend(refused);
        let Admitted {
            tokens,
            service_accounts,
            certificates,
            ..
        } = &admitted;
        // Cache pods refuse a file in which a caller has no credentials.
        if !(tokens.is_empty() && service_accounts.is_empty() && certificates.is_empty()) {
            step.admitted.push(admitted);
        }
    }
    step
}

/// How many kinds of proof the spec gives a caller.
fn proofs(caller: &Caller) -> usize {
    let Caller {
        name: _,
        verbs: _,
        token,
        service_accounts,
        certificates,
        max_concurrent: _,
    } = caller;
    let given = [
        token.is_some(),
        !service_accounts.is_empty(),
        !certificates.is_empty(),
    ];
    given.into_iter().filter(|given| *given).count()
}

/// The credentials by which a caller is admitted, and why the others are refused.
fn judge(
    caller: &Caller,
    cluster: &ValidatedCluster,
    world: &World,
    owners: &BTreeMap<String, String>,
) -> (Admitted, Vec<(Proof, String)>) {
    let mut refusals = Vec::new();
    let mut admitted = Admitted {
        name: caller.name.clone(),
        verbs: caller.verbs.clone(),
        max_concurrent: caller.max_concurrent,
        ..Admitted::default()
    };
    if let Some(token) = &caller.token {
        match tokens(caller, token, world, owners) {
            Ok(hashes) => admitted.tokens = hashes,
            Err(why) => refusals.push((Proof::Token, why)),
        }
    }
    if !caller.service_accounts.is_empty() {
        if cluster.token_review_role.is_some() {
            admitted
                .service_accounts
                .clone_from(&caller.service_accounts);
        } else {
            let why = "the operator may not let cache pods check tokens of service accounts; install its chart with \
                       rbac.tokenReviews=true";
            refusals.push((Proof::ServiceAccount, why.to_owned()));
        }
    }
    if !caller.certificates.is_empty() {
        match world.client_ca.as_ref().map(|seen| &seen.source) {
            Some(Ok(_)) => admitted.certificates.clone_from(&caller.certificates),
            Some(Err(why)) => refusals.push((Proof::Certificate, why.clone())),
            // The spec names CAs, or it would be invalid.
            None => {}
        }
    }
    (admitted, refusals)
}

fn tokens(
    caller: &Caller,
    TokenSecretRef { name: secret, key }: &TokenSecretRef,
    world: &World,
    owners: &BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    let hashes = match world.tokens.get(&caller.name) {
        Some(Ok(hashes)) => hashes,
        None | Some(Err(TokenProblem::NoSecret)) => {
            return Err(format!("Secret {secret} does not exist"));
        }
        Some(Err(TokenProblem::NoKey)) => return Err(format!("Secret {secret} has no key {key}")),
        Some(Err(TokenProblem::TooShort)) => {
            return Err(format!(
                "the token in Secret {secret} could be guessed; it needs 16 characters or more"
            ));
        }
    };
    // A token stands for one caller: by two names it would have the rights of both.
    match hashes.iter().find_map(|hash| owners.get(hash)) {
        Some(other) => Err(format!(
            "the token in Secret {secret} is also that of {other}; give it one of its own"
        )),
        None => Ok(hashes.clone()),
    }
}
