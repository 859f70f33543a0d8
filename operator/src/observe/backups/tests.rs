use serde_json::json;

use super::*;
use crate::world::{JobOutcome, Said, Told};

fn secret(entries: &[(&str, &[u8])]) -> Content {
    let entry = |(key, value): &(&str, &[u8])| ((*key).to_owned(), ByteString(value.to_vec()));
    entries.iter().map(entry).collect()
}

#[test]
fn a_secret_of_the_bucket_is_named_with_what_it_lacks() {
    let said = |content: Option<Content>| lacks("bucket", content.as_ref());
    assert_eq!(said(None).unwrap(), "Secret bucket does not exist");
    let half = secret(&[(ACCESS_KEY_ID, b"id"), (SECRET_ACCESS_KEY, b"")]);
    assert_eq!(
        said(Some(half)).unwrap(),
        "Secret bucket has no secretAccessKey"
    );
    let whole = secret(&[(ACCESS_KEY_ID, b"id"), (SECRET_ACCESS_KEY, b"key")]);
    assert_eq!(said(Some(whole)), None);
}

#[test]
fn a_key_that_cannot_encrypt_is_told_before_a_job_fails_of_it() {
    let said = |content: Option<Content>| no_key("keys", "k", content.as_ref());
    assert_eq!(said(None).unwrap(), "Secret keys does not exist");
    assert_eq!(said(Some(secret(&[]))).unwrap(), "Secret keys has no k");
    let short = said(Some(secret(&[("k", b"password")]))).unwrap();
    assert!(
        short.starts_with("k of Secret keys has 8 bytes and not 32"),
        "{short}"
    );
    assert_eq!(said(Some(secret(&[("k", &[7; 32])]))), None);
}

#[test]
fn a_secret_of_cas_is_told_by_what_it_lacks() {
    let said = |content: Option<Content>| no_certificates("cas", "ca.crt", content.as_ref());
    assert_eq!(said(None).unwrap(), "Secret cas does not exist");
    let no = "ca.crt of Secret cas has no certificate as PEM";
    for other in [secret(&[]), secret(&[("ca.crt", b"MII")])] {
        assert_eq!(said(Some(other)).unwrap(), no);
    }
    let pem: &[u8] = b"-----BEGIN CERTIFICATE-----\n";
    assert_eq!(said(Some(secret(&[("ca.crt", pem)]))), None);
}

/// The container statuses of a pod of Job `j`: name, exit code, message.
fn pod(made: &str, first: &[(&str, i32, &str)], main: &[(&str, i32, &str)]) -> Pod {
    let statuses = |all: &[(&str, i32, &str)]| -> Vec<_> {
        let status = |(name, code, message): &(&str, i32, &str)| {
            json!({
                "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "terminated": { "exitCode": code, "message": message } },
            })
        };
        all.iter().map(status).collect()
    };
    let pod = json!({
        "metadata": {
            "name": made, "creationTimestamp": made,
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-of-j" }],
        },
        "status": { "initContainerStatuses": statuses(first), "containerStatuses": statuses(main) },
    });
    serde_json::from_value(pod).unwrap()
}

#[test]
fn of_several_attempts_the_newest_words_of_each_container_count() {
    let job = json!({
        "metadata": { "name": "j", "uid": "uid-of-j", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "conditions": [{ "type": "Failed", "status": "True", "message": "too many attempts" }] },
    });
    let job: Job = serde_json::from_value(job).unwrap();
    let report = r#"{"id":"20260101T000000.000Z-00000001","users":7,"chunks":1,"stored_bytes":9,
        "finished":"2026-01-01T00:00:05Z"}"#;
    let pods = [
        pod(
            "2026-01-01T00:00:01Z",
            &[("create", 1, "no host answers")],
            &[],
        ),
        pod(
            "2026-01-01T00:00:02Z",
            &[("create", 0, report)],
            &[("prune", 3, "busy\n\n")],
        ),
    ];
    let run = run(&job, &pods).unwrap();
    let told = Told {
        id: Some("20260101T000000.000Z-00000001".to_owned()),
        finished: Some("2026-01-01T00:00:05Z".parse().unwrap()),
        users: Some(7),
        stored_bytes: Some(9),
        ..Told::default()
    };
    assert_eq!(run.said("create"), Some(&Said::Done(Some(told))));
    assert_eq!(run.said("prune"), Some(&Said::Failed("busy".to_owned())));
    assert_eq!(run.said("verify"), None);
    assert!(matches!(run.outcome, JobOutcome::Failed { .. }));
}

#[test]
fn a_container_without_words_is_told_by_its_exit_code() {
    let killed = ContainerStateTerminated {
        exit_code: 137,
        reason: Some("OOMKilled".to_owned()),
        ..ContainerStateTerminated::default()
    };
    assert_eq!(
        heard(&killed),
        Said::Failed("exit code 137: OOMKilled".to_owned())
    );
    let usage = ContainerStateTerminated {
        exit_code: 2,
        message: Some(
            "error: unexpected argument '--once' found\n\nFor more information, try '--help'.\n"
                .to_owned(),
        ),
        ..ContainerStateTerminated::default()
    };
    assert_eq!(
        heard(&usage),
        Said::Failed("error: unexpected argument '--once' found".to_owned())
    );
    let odd = ContainerStateTerminated {
        message: Some("no JSON".to_owned()),
        ..ContainerStateTerminated::default()
    };
    assert_eq!(heard(&odd), Said::Done(None));
}
