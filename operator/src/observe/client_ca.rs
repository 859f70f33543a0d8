//! Reads the CAs of client certificates from the Secret or ConfigMap that the spec names, and from the access Secret.
//!
//! When the source is missing or invalid, callers with certificates are refused by the access file. Cache pods keep the
//! last valid CA file, because TLS does not start without one.

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client};
use readstates_operator_api::{AccessSpec, ClientCaSource};

use super::{
    certificates::{self, Which},
    credentials,
};
use crate::{
    certificates::check_ca, error::Error, names::CLIENT_CA_FILE, spec::Identity,
    world::ClientCaSeen,
};

pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    spec: Option<&AccessSpec>,
) -> Result<Option<ClientCaSeen>, Error> {
    let Some(source) = spec.and_then(|spec| spec.client_ca.as_ref()) else {
        return Ok(None);
    };
    let ClientCaSource {
        secret_name,
        config_map_name,
        key,
    } = source;
    let (what, value) = match (secret_name, config_map_name) {
        (Some(name), None) => {
            let value = in_secret(client, id, name, key).await?;
            (format!("Secret {name}"), value)
        }
        (None, Some(name)) => {
            let value = in_config_map(client, id, name, key).await?;
            (format!("ConfigMap {name}"), value)
        }
        // Refused as an invalid spec.
        (Some(_), Some(_)) | (None, None) => return Ok(None),
    };
    Ok(Some(match judge(&what, key, value) {
        Ok(pem) => ClientCaSeen {
            source: Ok(certificates::expiry(pem.as_bytes(), Which::Last)),
            pem: Some(pem),
        },
        Err(why) => ClientCaSeen {
            pem: given_before(client, id).await?,
            source: Err(why),
        },
    }))
}

/// What there is under the key.
enum Value {
    NoObject,
    NoKey,
    Bytes(Vec<u8>),
}

impl Value {
    fn of(bytes: Option<Vec<u8>>) -> Self {
        bytes
            .filter(|bytes| !bytes.is_empty())
            .map_or(Self::NoKey, Self::Bytes)
    }
}

async fn in_secret(client: &Client, id: &Identity, name: &str, key: &str) -> Result<Value, Error> {
    let content = credentials::read(client, id, name).await?;
    let value = |content: credentials::Content| content.get(key).map(|value| value.0.clone());
    Ok(content.map_or(Value::NoObject, |content| Value::of(value(content))))
}

async fn in_config_map(
    client: &Client,
    id: &Identity,
    name: &str,
    key: &str,
) -> Result<Value, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &id.namespace);
    let found = api.get_opt(name).await.map_err(|source| Error::Read {
        what: format!("ConfigMap {name}"),
        source,
    })?;
    let Some(map) = found else {
        return Ok(Value::NoObject);
    };
    let text = map.data.unwrap_or_default().remove(key);
    let binary = map.binary_data.unwrap_or_default().remove(key);
    let bytes = text.map(String::into_bytes);
    Ok(Value::of(
        bytes.or_else(|| binary.map(|ByteString(bytes)| bytes)),
    ))
}

/// The text, if it can be used.
fn judge(what: &str, key: &str, value: Value) -> Result<String, String> {
    let bytes = match value {
        Value::NoObject => return Err(format!("{what} does not exist")),
        Value::NoKey => return Err(format!("{what} has no key {key}")),
        Value::Bytes(bytes) => bytes,
    };
    check_ca(key, &bytes).map_err(|why| format!("{what}: {why}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{what}: {key} is not text in PEM form"))
}

/// What cache pods have, as far as it can be used.
async fn given_before(client: &Client, id: &Identity) -> Result<Option<String>, Error> {
    let name = id.access();
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    let found = api.get_opt(&name).await.map_err(|source| Error::Read {
        what: format!("Secret {name}"),
        source,
    })?;
    let ours = found.filter(|secret| id.owns(&secret.metadata));
    let bytes = ours.and_then(|secret| secret.data?.remove(CLIENT_CA_FILE));
    let value = Value::of(bytes.map(|ByteString(bytes)| bytes));
    Ok(judge(&name, CLIENT_CA_FILE, value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: Value) -> String {
        judge("ConfigMap clients", "ca.crt", value).unwrap_err()
    }

    #[test]
    fn what_is_no_ca_says_where_it_was_looked_for() {
        assert_eq!(said(Value::NoObject), "ConfigMap clients does not exist");
        let empty = Value::of(Some(Vec::new()));
        assert_eq!(said(empty), "ConfigMap clients has no key ca.crt");
        let words = said(Value::Bytes(b"x".to_vec()));
        assert!(
            words.starts_with("ConfigMap clients: ca.crt holds no certificate in PEM form"),
            "{words}"
        );
    }
}
