//! A bucket of a store with the protocol of S3, over TLS, whose certificate is of a CA of the test's own.

use std::{collections::BTreeMap, convert::Infallible, fs, net::SocketAddr, path::Path, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use object_store::{RetryConfig, aws::AmazonS3Builder};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{USERS, WISH, contents, create, expected, fill, keep_last, problems, restore};
use crate::{
    backup::{BackupError, Opened, Repository, place::trusting, seal::Key},
    store::MemoryStore,
};

/// When all objects were written.
const WRITTEN: [&str; 2] = ["Thu, 26 Nov 2026 04:00:00 GMT", "2026-11-26T04:00:00.000Z"];

/// The objects of a bucket.
#[derive(Debug, Default)]
struct Bucket(Mutex<BTreeMap<String, Bytes>>);

impl Bucket {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let key = head.uri.path().strip_prefix("/backups").unwrap();
        let key = key.trim_start_matches('/').to_owned();
        let query = head.uri.query().unwrap_or_default();
        let mut objects = self.0.lock();
        let answer = Response::builder().header("etag", "\"one\"");
        let found = |bytes: &Bytes| {
            let answer = answer.header("last-modified", WRITTEN[0]);
            let length = bytes.len().to_string();
            let answer = answer.header("content-length", length);
            let body = match head.method == Method::HEAD {
                true => Bytes::new(),
                false => bytes.clone(),
            };
            answer.body(Full::new(body)).unwrap()
        };
        let text = |status, text: String| {
            let answer = Response::builder().status(status).header("etag", "\"one\"");
            answer.body(Full::new(Bytes::from(text))).unwrap()
        };
        match &head.method {
            &Method::PUT => {
                objects.insert(key, body);
                text(StatusCode::OK, String::new())
            }
            &Method::POST if query == "delete" => {
                let body = String::from_utf8(body.to_vec()).unwrap();
                let keys = body.split("<Key>").skip(1);
                let keys = keys.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()));
                let deleted = keys.map(|key| {
                    objects.remove(&key);
                    format!("<Deleted><Key>{key}</Key></Deleted>")
                });
                let deleted: String = deleted.collect();
                let answer = format!("<DeleteResult>{deleted}</DeleteResult>");
                text(StatusCode::OK, answer)
            }
            &Method::GET if key.is_empty() => {
                let prefix = query
                    .split('&')
                    .find_map(|part| part.strip_prefix("prefix="));
                let prefix = prefix.unwrap_or_default().replace("%2F", "/");
                let listed = objects.iter().filter(|(key, _)| key.starts_with(&prefix));
                let listed = listed.map(|(key, bytes)| {
                    let (size, written) = (bytes.len(), WRITTEN[1]);
                    format!(
                        "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>{written}</LastModified>\
                         </Contents>"
                    )
                });
                let listed: String = listed.collect();
                let answer = format!("<ListBucketResult>{listed}</ListBucketResult>");
                text(StatusCode::OK, answer)
            }
            &Method::GET | &Method::HEAD => match objects.get(&key) {
                Some(bytes) => found(bytes),
                None => text(StatusCode::NOT_FOUND, String::new()),
            },
            other => panic!("{other} {}", head.uri),
        }
    }
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Authority { issuer, pem }
}

/// Serves a bucket `backups` until the test ends.
async fn serve(authority: &Authority) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap().pem();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bucket = Arc::new(Bucket::default());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, bucket) = (tls.clone(), Arc::clone(&bucket));
            tokio::spawn(async move {
                // A client that does not trust the certificate goes away.
                let Ok(stream) = tls.accept(stream).await else {
                    return;
                };
                let service = service_fn(move |request| {
                    let bucket = Arc::clone(&bucket);
                    async move { Ok::<_, Infallible>(bucket.answer(request).await) }
                });
                let connection = http1::Builder::new();
                // The test is over, or the client is.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

fn open(address: SocketAddr, ca: &Path) -> Result<Repository, BackupError> {
    let once = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let builder = AmazonS3Builder::new()
        .with_endpoint(format!("https://localhost:{}", address.port()))
        .with_region("us-east-1")
        .with_bucket_name("backups")
        .with_access_key_id("id")
        .with_secret_access_key("key")
        .with_client_options(trusting(ca)?)
        .with_retry(once);
    let objects = Arc::new(builder.build().unwrap());
    let root = object_store::path::Path::from("chat");
    Ok(Repository::on(objects, root, Key::new(&[7; 32])))
}

#[tokio::test]
async fn a_store_whose_certificate_is_of_a_private_ca_is_trusted_by_that_ca_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let address = serve(&ours).await;
    let (ca, other) = (
        folder.path().join("ca.crt"),
        folder.path().join("other.crt"),
    );
    // A bundle, as one is while a CA is replaced.
    fs::write(&ca, format!("{}{}", theirs.pem, ours.pem)).unwrap();
    fs::write(&other, &theirs.pem).unwrap();
    let store = MemoryStore::default();
    fill(&store).await;

    let repository = open(address, &ca).unwrap();
    create(&repository, &store).await.unwrap();
    assert_eq!(problems(&repository).await, 0);
    let again = create(&repository, &store).await.unwrap();
    assert_eq!(again.new_chunks, 0, "they are found in the list");
    keep_last(&repository, 1).await.unwrap();
    assert_eq!(repository.backups().await.unwrap().len(), 1);
    let into = Opened::memory();
    let restored = restore(&repository, &into, WISH).await.unwrap();
    assert_eq!(restored.users, USERS);
    assert_eq!(contents(&*into.scan).await, expected(restored.stamp));

    let untrusted = open(address, &other).unwrap();
    let refused = create(&untrusted, &store).await.unwrap_err();
    let words = crate::store::chain(&refused);
    assert!(words.to_lowercase().contains("certificate"), "{words}");
}

#[test]
fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    for text in [None, Some(""), Some("no certificate")] {
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let refused = trusting(&file).unwrap_err();
        assert!(matches!(refused, BackupError::Ca { .. }), "{refused}");
        assert!(refused.to_string().contains("ca.crt"), "{refused}");
        assert_eq!(refused.exit_status(), 1);
    }
}
