//! The Secrets with the certificates for CQL and of the API. In: names. Out: whether each is there and can do what it
//! is for, and a mark of it.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::{Api, Client};
use readstates_agent::engine::Profile;
use readstates_operator_api::{ApiTlsSpec, DatabaseSpec};

use super::credentials::{self, Content};
use crate::{
    cert_manager::Certificate,
    certificates::{self, CA, CERTIFICATE, Host, KEY, Pems},
    error::Error,
    spec::Identity,
    world::CertificatesSeen,
};

pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    spec: &DatabaseSpec,
) -> Result<Option<CertificatesSeen>, Error> {
    let Some(tls) = &spec.tls else {
        return Ok(None);
    };
    let own = tls.issuer_ref.is_some().then(|| id.certificate());
    let found = match provided(client, id, own, tls.secret_name.as_ref(), NO_CQL).await? {
        Ok(found) => found,
        Err(seen) => return Ok(Some(seen)),
    };
    Ok(Some(match spec.engine {
        Some(engine) => {
            let host = id.database_host();
            let host = Host {
                name: &host,
                reaches: "the database is reached",
                wanted: &host,
            };
            let pkcs8 = Profile::of(engine).only_pkcs8;
            let now = seconds();
            let seen = judge_server(&found, pkcs8, &[host], now);
            if tls.internode == Some(true) {
                judge_peer(&found, seen, now)
            } else {
                seen
            }
        }
        None => judge_client(&found),
    }))
}

/// The certificate of the API; none where it is spoken in the clear.
pub(super) async fn of_api(
    client: &Client,
    id: &Identity,
    spec: Option<&ApiTlsSpec>,
) -> Result<Option<CertificatesSeen>, Error> {
    let Some(ApiTlsSpec {
        secret_name,
        issuer_ref,
    }) = spec
    else {
        return Ok(None);
    };
    let own = issuer_ref.is_some().then(|| id.api_certificate());
    let found = match provided(client, id, own, secret_name.as_ref(), NO_API).await? {
        Ok(found) => found,
        Err(seen) => return Ok(Some(seen)),
    };
    let (service, member) = (
        id.api_host(),
        id.pod_host(&id.cache(), 0, &id.cache_members()),
    );
    let members = format!("*.{}.{}.svc", id.cache_members(), id.namespace);
    let hosts = [
        Host {
            name: &service,
            reaches: "clients reach the API",
            wanted: &service,
        },
        Host {
            name: &member,
            reaches: "clients that follow the ring reach a cache pod",
            wanted: &members,
        },
    ];
    Ok(Some(judge_server(&found, false, &hosts, seconds())))
}

/// The content of the Secret: of one that the spec names, or of `own`, which cert-manager makes. Otherwise what there
/// is in its place.
async fn provided(
    client: &Client,
    id: &Identity,
    own: Option<String>,
    named: Option<&String>,
    instead: &str,
) -> Result<Result<Content, CertificatesSeen>, Error> {
    let mut words = None;
    if let Some(own) = &own {
        match issued(client, id, own, instead).await? {
            Ok(said) => words = said,
            Err(why) => return Ok(Err(CertificatesSeen::NoManager(why))),
        }
    }
    // The CRD lets neither both through nor none.
    let name = named.cloned().or(own).unwrap_or_default();
    let found = credentials::read(client, id, &name).await?;
    Ok(found.ok_or(CertificatesSeen::Absent { words }))
}

fn seconds() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}

/// What to do where cert-manager is missing, beside installing it.
pub(super) const NO_CQL: &str = "make a new cluster without issuerRef";
const NO_API: &str = "give spec.cache.tls.secretName";

/// What cert-manager says of the certificate, `None` while it is silent; or why there is no way to it, and what to do
/// `instead`.
pub(super) async fn issued(
    client: &Client,
    id: &Identity,
    name: &str,
    instead: &str,
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
        Ok(_) => Ok(Err(no_manager(instead))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(no_manager(instead))),
        Err(source) => Err(Error::Read {
            what: "the kinds of cert-manager".to_owned(),
            source,
        }),
    }
}

fn no_manager(instead: &str) -> String {
    format!(
        "the kind Certificate of cert-manager.io/v1 does not exist; install cert-manager, or {instead}"
    )
}

fn value<'a>(content: &'a Content, key: &str) -> Option<&'a [u8]> {
    let ByteString(value) = content.get(key)?;
    Some(value.as_slice()).filter(|v| !v.is_empty())
}

fn judge_server(content: &Content, pkcs8: bool, hosts: &[Host<'_>], now: u64) -> CertificatesSeen {
    let [Some(certificate), Some(key), Some(ca)] =
        [CERTIFICATE, KEY, CA].map(|key| value(content, key))
    else {
        let missing = [CERTIFICATE, KEY, CA];
        let missing = missing.into_iter().filter(|k| value(content, k).is_none());
        return CertificatesSeen::Incomplete(missing.collect());
    };
    let pems = Pems {
        certificate,
        key,
        ca,
    };
    match certificates::check_server(pems, hosts, pkcs8, now) {
        Ok(()) => CertificatesSeen::Complete {
            mark: certificates::mark(certificate),
            client: false,
            expires: expiry(certificate, Which::First),
        },
        Err(why) => CertificatesSeen::Broken(why),
    }
}

/// What servers can use, if they can also show it to each other.
fn judge_peer(content: &Content, seen: CertificatesSeen, now: u64) -> CertificatesSeen {
    let (CertificatesSeen::Complete { .. }, Some(certificate), Some(ca)) =
        (&seen, value(content, CERTIFICATE), value(content, CA))
    else {
        return seen;
    };
    match certificates::check_peer(certificate, ca, now) {
        Ok(()) => seen,
        Err(why) => CertificatesSeen::Broken(why),
    }
}

fn judge_client(content: &Content) -> CertificatesSeen {
    let Some(ca) = value(content, CA) else {
        return CertificatesSeen::Incomplete(vec![CA]);
    };
    let own = value(content, CERTIFICATE).zip(value(content, KEY));
    let pair = own.map(|(certificate, key)| certificates::check_pair(certificate, key, false));
    match (certificates::check_ca(CA, ca), pair) {
        (Err(why), _) | (_, Some(Err(why))) => CertificatesSeen::Broken(why),
        (Ok(_), pair) => CertificatesSeen::Complete {
            mark: certificates::mark(ca),
            client: pair.is_some(),
            expires: value(content, CERTIFICATE).and_then(|own| expiry(own, Which::First)),
        },
    }
}

/// When the first, or the last, of the certificates in this PEM file is not valid any more.
pub(super) fn expiry(pem: &[u8], which: Which) -> Option<Timestamp> {
    let text = std::str::from_utf8(pem).ok()?;
    let all = readstates_identity::details(text).ok()?;
    let ends = all.iter().map(|details| details.not_after);
    let ends = ends.filter_map(|end| Timestamp::try_from(end).ok());
    match which {
        Which::First => ends.min(),
        Which::Last => ends.max(),
    }
}

/// Which of several.
#[derive(Clone, Copy)]
pub(super) enum Which {
    First,
    Last,
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
        let seen = judge_server(&content(&[("tls.crt", "x"), ("ca.crt", "")]), false, &[], 0);
        assert_eq!(seen, CertificatesSeen::Incomplete(vec![KEY, CA]));
        let seen = judge_client(&content(&[("tls.crt", "x")]));
        assert_eq!(seen, CertificatesSeen::Incomplete(vec![CA]));
    }

    #[test]
    fn what_is_not_a_certificate_is_broken() {
        let all = content(&[("tls.crt", "x"), ("tls.key", "y"), ("ca.crt", "z")]);
        for seen in [judge_server(&all, true, &[], 0), judge_client(&all)] {
            let CertificatesSeen::Broken(why) = seen else {
                panic!("{seen:?}")
            };
            assert!(why.contains("no certificate in PEM form"), "{why}");
        }
    }
}
