//! The Secret with the certificates for CQL. In: names. Out: whether it is there and can do what it is for, and a
//! mark of it.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::{Api, Client};
use readstates_operator_api::{DatabaseSpec, Engine};

use super::credentials::{self, Content};
use crate::{
    cert_manager::Certificate,
    certificates::{self, CA, CERTIFICATE, KEY, Pems},
    error::Error,
    validate::Identity,
};

/// The Secret with the certificates for CQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatesSeen {
    /// There is no such Secret.
    Absent {
        /// What cert-manager says of it, where it is to make it.
        words: Option<String>,
    },
    /// It lacks these keys.
    Incomplete(Vec<&'static str>),
    /// What it holds cannot be used, for this reason.
    Broken(String),
    /// There is no way to cert-manager, for this reason.
    NoManager(String),
    /// It has what is needed.
    Complete {
        /// Another one whenever what members show is.
        mark: String,
        /// Whether there is a certificate to show to a database that somebody else runs.
        client: bool,
        /// When the first of them expires.
        expires: Option<Timestamp>,
    },
}

pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    spec: &DatabaseSpec,
) -> Result<Option<CertificatesSeen>, Error> {
    let Some(tls) = &spec.tls else {
        return Ok(None);
    };
    let mut words = None;
    if tls.issuer_ref.is_some() {
        match issued(client, id, &id.certificate()).await? {
            Ok(said) => words = said,
            Err(why) => return Ok(Some(CertificatesSeen::NoManager(why))),
        }
    }
    let own = || id.certificate();
    let name = tls.secret_name.clone().unwrap_or_else(own);
    let Some(content) = credentials::read(client, id, &name).await? else {
        return Ok(Some(CertificatesSeen::Absent { words }));
    };
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
    Ok(Some(match spec.engine {
        Some(engine) => judge_server(&content, engine, &id.database_host(), now),
        None => judge_client(&content),
    }))
}

/// What cert-manager says of the certificate, `None` while it is silent; or why there is no way to it.
pub(super) async fn issued(
    client: &Client,
    id: &Identity,
    name: &str,
) -> Result<Result<Option<String>, String>, Error> {
    let api: Api<Certificate> = Api::namespaced(client.clone(), &id.namespace);
    match api.get_opt(name).await {
        Ok(Some(certificate)) => return Ok(Ok(certificate.words())),
        // There is no such object, or no such kind.
        Ok(None) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Ok(Err(format!(
                "the operator may not read Certificates ({}); install its chart with rbac.certificates=true",
                status.message
            )));
        }
        Err(source) => {
            let what = format!("Certificate {name}");
            return Err(Error::Read { what, source });
        }
    }
    let served = client.list_api_group_resources("cert-manager.io/v1").await;
    match served {
        Ok(kinds) if kinds.resources.iter().any(|r| r.kind == "Certificate") => Ok(Ok(None)),
        Ok(_) => Ok(Err(no_manager())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(no_manager())),
        Err(source) => Err(Error::Read {
            what: "the kinds of cert-manager".to_owned(),
            source,
        }),
    }
}

fn no_manager() -> String {
    "the kind Certificate of cert-manager.io/v1 does not exist; install cert-manager, or make a new cluster \
     without issuerRef"
        .to_owned()
}

fn value<'a>(content: &'a Content, key: &str) -> Option<&'a [u8]> {
    let ByteString(value) = content.get(key)?;
    Some(value.as_slice()).filter(|v| !v.is_empty())
}

fn judge_server(content: &Content, engine: Engine, host: &str, now: u64) -> CertificatesSeen {
    let [Some(certificate), Some(key), Some(ca)] =
        [CERTIFICATE, KEY, CA].map(|key| value(content, key))
    else {
        let missing = [CERTIFICATE, KEY, CA];
        let missing = missing.into_iter().filter(|k| value(content, k).is_none());
        return CertificatesSeen::Incomplete(missing.collect());
    };
    let pkcs8 = match engine {
        Engine::Cassandra => true,
        Engine::Scylla => false,
    };
    let pems = Pems {
        certificate,
        key,
        ca,
    };
    match certificates::check_server(pems, host, pkcs8, now) {
        Ok(()) => CertificatesSeen::Complete {
            mark: certificates::mark(certificate),
            client: false,
            expires: expires(&[certificate]),
        },
        Err(why) => CertificatesSeen::Broken(why),
    }
}

fn judge_client(content: &Content) -> CertificatesSeen {
    let Some(ca) = value(content, CA) else {
        return CertificatesSeen::Incomplete(vec![CA]);
    };
    let own = value(content, CERTIFICATE).zip(value(content, KEY));
    let pair = own.map(|(certificate, key)| certificates::check_pair(certificate, key, false));
    match (certificates::check_ca(ca), pair) {
        (Err(why), _) | (_, Some(Err(why))) => CertificatesSeen::Broken(why),
        (Ok(_), pair) => CertificatesSeen::Complete {
            mark: certificates::mark(ca),
            client: pair.is_some(),
            expires: expires(&value(content, CERTIFICATE).into_iter().collect::<Vec<_>>()),
        },
    }
}

/// The first moment at which one of these certificates, in PEM form, is not valid any more.
fn expires(pems: &[&[u8]]) -> Option<Timestamp> {
    let texts = pems.iter().filter_map(|pem| std::str::from_utf8(pem).ok());
    let all = texts.filter_map(|pem| readstates_identity::details(pem).ok());
    let ends = all.flatten().map(|details| details.not_after);
    ends.filter_map(|end| Timestamp::try_from(end).ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pairs: &[(&str, &str)]) -> Content {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let pairs = pairs.iter();
        pairs.map(|(k, v)| ((*k).to_owned(), bytes(v))).collect()
    }

    #[test]
    fn keys_that_are_missing_or_empty_are_named() {
        let seen = judge_server(
            &content(&[("tls.crt", "x"), ("ca.crt", "")]),
            Engine::Scylla,
            "h",
            0,
        );
        assert_eq!(seen, CertificatesSeen::Incomplete(vec![KEY, CA]));
        let seen = judge_client(&content(&[("tls.crt", "x")]));
        assert_eq!(seen, CertificatesSeen::Incomplete(vec![CA]));
    }

    #[test]
    fn what_is_not_a_certificate_is_broken() {
        let all = content(&[("tls.crt", "x"), ("tls.key", "y"), ("ca.crt", "z")]);
        for seen in [
            judge_server(&all, Engine::Cassandra, "h", 0),
            judge_client(&all),
        ] {
            let CertificatesSeen::Broken(why) = seen else {
                panic!("{seen:?}")
            };
            assert!(why.contains("no certificate in PEM form"), "{why}");
        }
    }
}
