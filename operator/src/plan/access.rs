//! The callers of the API: who is let in by which token, and who is refused although the spec names it.

use std::{collections::BTreeMap, fmt};

use crate::{
    observe::{TokenProblem, World},
    validate::{Caller, ValidatedCluster},
};

/// What cache pods are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokensStep {
    /// Hashes of tokens by the caller's name; each hash once.
    pub hashes: BTreeMap<String, Vec<String>>,
    /// Callers that are not let in.
    pub refused: Vec<Refused>,
}

/// A caller that is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub caller: String,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused: {}", self.caller, self.why)
    }
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World) -> TokensStep {
    let mut step = TokensStep::default();
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for caller in cluster.cache.access.iter().flat_map(|a| &a.callers) {
        match admitted(caller, world, &owners) {
            Ok(hashes) => {
                let own = hashes.iter().map(|h| (h.clone(), caller.name.clone()));
                owners.extend(own);
                step.hashes.insert(caller.name.clone(), hashes);
            }
            Err(why) => step.refused.push(Refused {
                caller: caller.name.clone(),
                why,
            }),
        }
    }
    step
}

fn admitted(
    caller: &Caller,
    world: &World,
    owners: &BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    let (secret, key) = (&caller.token.name, &caller.token.key);
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
