//! The tokens of the API's callers. In: names of Secrets. Out: hashes of what is in them, or what is wrong with it. A
//! token itself goes no further than here.

use std::{collections::BTreeMap, fmt::Write as _};

use aws_lc_rs::digest;
use futures::future::try_join_all;
use kube::Client;
use readstates_operator_api::{AccessSpec, CallerSpec, TokenSecretRef};

use super::credentials::{self, Content};
use crate::{
    error::Error,
    spec::Identity,
    world::{TokenProblem, Tokens},
};

/// Characters of the shortest token that is taken: less could be guessed from its hash.
const SHORTEST: usize = 16;
/// Before a key: the one that is about to be replaced.
const PREVIOUS: &str = "previous-";

pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    spec: Option<&AccessSpec>,
) -> Result<BTreeMap<String, Tokens>, Error> {
    let callers = spec.into_iter().flat_map(|spec| &spec.callers);
    let with_token = callers.filter_map(|caller| {
        let CallerSpec {
            name,
            token_secret_ref,
            service_accounts: _,
            certificates: _,
            verbs: _,
            max_concurrent: _,
        } = caller;
        Some((name, token_secret_ref.as_ref()?))
    });
    let seen = with_token.map(async |(name, TokenSecretRef { name: secret, key })| {
        let content = credentials::read(client, id, secret).await?;
        Ok::<_, Error>((name.clone(), hashes(content.as_ref(), key)))
    });
    Ok(try_join_all(seen).await?.into_iter().collect())
}

/// The token, and the one before it where there still is one.
fn hashes(content: Option<&Content>, key: &str) -> Tokens {
    let content = content.ok_or(TokenProblem::NoSecret)?;
    let previous = format!("{PREVIOUS}{key}");
    let tokens = [key, &previous].map(|key| token(content, key));
    let found: Vec<_> = tokens.into_iter().flatten().collect();
    if found.is_empty() {
        return Err(TokenProblem::NoKey);
    }
    // One that is too short is taken for none; a good one beside it counts.
    let long = found.iter().filter(|token| token.len() >= SHORTEST);
    let mut hashes: Vec<_> = long.map(|token| hash(token)).collect();
    hashes.dedup();
    if hashes.is_empty() {
        return Err(TokenProblem::TooShort);
    }
    Ok(hashes)
}

/// Without the line end that a file has.
fn token<'a>(content: &'a Content, key: &str) -> Option<&'a [u8]> {
    let token = content.get(key)?.0.trim_ascii();
    Some(token).filter(|token| !token.is_empty())
}

fn hash(token: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, token);
    let bytes = digest.as_ref().iter();
    bytes.fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn content(pairs: &[(&str, &str)]) -> Content {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect()
    }

    #[test]
    fn a_token_is_known_by_its_sha256_alone() {
        // As `printf 0123456789abcdef | sha256sum` prints it.
        let of = "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let seen = hashes(Some(&content(&[("token", "0123456789abcdef\n")])), "token");
        assert_eq!(seen, Ok(vec![of.to_owned()]));
    }

    #[test]
    fn during_a_rotation_both_tokens_count() {
        let both = content(&[
            ("key", "new-new-new-new-new"),
            ("previous-key", "old-old-old-old-old"),
        ]);
        assert_eq!(hashes(Some(&both), "key").unwrap().len(), 2);
        let same = content(&[
            ("key", "new-new-new-new-new"),
            ("previous-key", "new-new-new-new-new"),
        ]);
        assert_eq!(hashes(Some(&same), "key").unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_token_says_why() {
        let wrong = |pairs: &[(&str, &str)]| hashes(Some(&content(pairs)), "token").unwrap_err();
        assert_eq!(hashes(None, "token"), Err(TokenProblem::NoSecret));
        assert_eq!(wrong(&[]), TokenProblem::NoKey);
        assert_eq!(wrong(&[("token", " \n")]), TokenProblem::NoKey);
        assert_eq!(wrong(&[("token", "secret")]), TokenProblem::TooShort);
    }
}
