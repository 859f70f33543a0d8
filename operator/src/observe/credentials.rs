//! The login Secrets of the database. In: names. Out: whether they are there and complete, and a mark of their content
//! that does not reveal it.

use std::{collections::BTreeMap, fmt::Write as _};

use aws_lc_rs::hmac;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use readstates_operator_api::DatabaseSpec;

use crate::{
    error::Error,
    names::{PASSWORD_KEY, SECRET_KEYS},
    spec::Identity,
    world::SecretSeen,
};

/// Bytes of the mark that are kept.
const MARK_BYTES: usize = 8;

/// What was seen of the Secrets.
#[derive(Default)]
pub(super) struct CredentialsSeen {
    pub(super) login: Option<SecretSeen>,
    pub(super) superuser: Option<SecretSeen>,
    pub(super) version: Option<String>,
}

pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    spec: &DatabaseSpec,
) -> Result<CredentialsSeen, Error> {
    if spec.engine.is_none() {
        let named = spec.external.as_ref().and_then(|e| e.secret_ref.as_ref());
        let login = match named {
            Some(reference) => Some(seen(&read(client, id, &reference.name).await?)),
            None => None,
        };
        return Ok(CredentialsSeen {
            login,
            ..CredentialsSeen::default()
        });
    }
    let named = spec.secret_ref.as_ref().map(|r| r.name.clone());
    let login = read(client, id, &named.unwrap_or_else(|| id.login_secret())).await?;
    let superuser = read(client, id, &id.superuser_secret()).await?;
    Ok(CredentialsSeen {
        login: Some(seen(&login)),
        superuser: Some(seen(&superuser)),
        version: login
            .zip(superuser)
            .and_then(|(login, superuser)| mark(superuser.get(PASSWORD_KEY)?, &login)),
    })
}

pub(super) type Content = BTreeMap<String, ByteString>;

/// What is in a Secret; `None` when there is none of this name.
pub(super) async fn read(
    client: &Client,
    id: &Identity,
    name: &str,
) -> Result<Option<Content>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    let found = api.get_opt(name).await.map_err(|source| Error::Read {
        what: format!("Secret {name}"),
        source,
    })?;
    Ok(found.map(|secret| secret.data.unwrap_or_default()))
}

fn seen(content: &Option<Content>) -> SecretSeen {
    let Some(content) = content else {
        return SecretSeen::Absent;
    };
    let missing: Vec<_> = SECRET_KEYS
        .into_iter()
        .filter(|key| content.get(*key).is_none_or(|value| value.0.is_empty()))
        .collect();
    if missing.is_empty() {
        SecretSeen::Complete
    } else {
        SecretSeen::Incomplete(missing)
    }
}

/// Pods carry it in the open: without the superuser's password, not even a weak login password can be guessed from it.
fn mark(superuser: &ByteString, login: &Content) -> Option<String> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &superuser.0);
    let mut context = hmac::Context::with_key(&key);
    for name in SECRET_KEYS {
        let value = &login.get(name)?.0;
        // Where one ends and the next begins is a part of it.
        context.update(&value.len().to_le_bytes());
        context.update(value);
    }
    let tag = context.sign();
    Some(
        tag.as_ref()[..MARK_BYTES]
            .iter()
            .fold(String::new(), |mut text, byte| {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::USERNAME_KEY;

    fn login(user: &str, password: &str) -> Content {
        [(USERNAME_KEY, user), (PASSWORD_KEY, password)]
            .map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())))
            .into()
    }

    #[test]
    fn the_mark_changes_with_user_password_and_key_alone() {
        let key = |text: &str| ByteString(text.as_bytes().to_vec());
        let of =
            |k: &str, user: &str, password: &str| mark(&key(k), &login(user, password)).unwrap();
        let first = of("k", "chat", "p1");
        assert_eq!(first.len(), 16);
        assert_eq!(first, of("k", "chat", "p1"));
        assert_ne!(first, of("k", "chat", "p2"));
        assert_ne!(first, of("k", "chatp", "1"));
        assert_ne!(first, of("other", "chat", "p1"));
        let mut more = login("chat", "p1");
        more.insert("note".to_owned(), key("x"));
        assert_eq!(mark(&key("k"), &more).unwrap(), first);
    }

    #[test]
    fn an_empty_password_is_none() {
        assert_eq!(seen(&None), SecretSeen::Absent);
        assert_eq!(seen(&Some(login("u", "p"))), SecretSeen::Complete);
        let incomplete = SecretSeen::Incomplete(vec![PASSWORD_KEY]);
        assert_eq!(seen(&Some(login("u", ""))), incomplete);
    }
}
