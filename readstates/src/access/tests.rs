//! The access file as an operator may write it, and service accounts on a reviewer that is told what to say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::{file::FileError, *};

fn hash(of: &str) -> String {
    token::hash(of).to_string()
}

#[test]
fn a_file_in_either_form_names_the_same_callers() {
    let hash = hash("one");
    let yaml = format!(
        "callers:\n- name: gateway\n  verbs: [read, write]\n  tokens: [\"{hash}\"]\n  serviceAccounts: [talk/gateway]\n  \
         certificates: [Gateway.Talk.example]\n  maxConcurrent: 7\n"
    );
    let json = format!(
        r#"{{"callers": [{{"name": "gateway", "verbs": ["read", "write"], "tokens": ["{hash}"],
        "serviceAccounts": ["talk/gateway"], "certificates": ["gateway.talk.example"], "maxConcurrent": 7}}]}}"#
    );
    let file = AccessFile::parse(yaml.as_bytes()).unwrap();
    assert_eq!(AccessFile::parse(json.as_bytes()).unwrap(), file);
    let [caller] = &*file.callers else {
        panic!("{file:?}")
    };
    assert_eq!(caller.name, "gateway");
    assert!(caller.verbs.have(Verb::Read) && caller.verbs.have(Verb::Write));
    assert!(!caller.verbs.have(Verb::Delete) && !caller.verbs.have(Verb::AdminRead));
    assert_eq!(caller.tokens, [token::hash("one")]);
    assert_eq!(caller.certificates, ["gateway.talk.example"]);
    assert_eq!(caller.max_concurrent, Some(7));
}

#[test]
fn nobody_may_be_named_but_something_must_be_said() {
    assert!(
        AccessFile::parse(b"callers: []")
            .unwrap()
            .callers
            .is_empty()
    );
    for empty in ["", "{}", "callers:"] {
        assert!(AccessFile::parse(empty.as_bytes()).is_err(), "{empty:?}");
    }
}

/// Files, and what their refusals say.
type Wrong = Vec<(String, Vec<&'static str>)>;

/// A file with one caller.
fn of(fields: &str) -> String {
    format!("callers:\n- {{name: a, verbs: [read], {fields}}}\n")
}

fn with_wrong_proofs() -> Wrong {
    let one = hash("one");
    let good = format!("tokens: [\"{one}\"]");
    vec![
        ("callers: [".to_owned(), vec!["callers"]),
        ("caller: []".to_owned(), vec!["unknown field `caller`"]),
        (
            of(&format!("{good}, verb: [read]")),
            vec!["callers[0]", "unknown field `verb`"],
        ),
        (
            of("tokens: [secret-token]"),
            vec!["callers[0].tokens", "sha256:", "readstates token"],
        ),
        (
            of("tokens: [12345678]"),
            vec!["callers[0].tokens", "sha256:"],
        ),
        (
            of("tokens: secret-token"),
            vec!["callers[0].tokens", "list"],
        ),
        (
            of(&format!("tokens: [\"{}\"]", &one[..70])),
            vec!["callers[0].tokens"],
        ),
        (
            of("tokens: []"),
            vec!["callers[0] \"a\"", "no token", "nobody can be it"],
        ),
        (
            of("serviceAccounts: [gateway]"),
            vec!["serviceAccounts", "NAMESPACE/NAME"],
        ),
        (of("serviceAccounts: [a/b/c]"), vec!["serviceAccounts"]),
        (
            of("certificates: [\"*.example\"]"),
            vec!["certificates", "*.example"],
        ),
        (
            of(&format!("{good}, maxConcurrent: 0")),
            vec!["maxConcurrent", "1 to"],
        ),
        (
            of(&format!("{good}, maxConcurrent: -1")),
            vec!["maxConcurrent"],
        ),
        (
            of(&format!("tokens: [\"{one}\", \"{one}\"]")),
            vec!["tokens[1]", "\"a\""],
        ),
    ]
}

fn with_wrong_callers() -> Wrong {
    let (one, other) = (hash("one"), hash("other"));
    let two = |fields: &str| {
        let first = format!("tokens: [\"{one}\"], serviceAccounts: [n/s], certificates: [x.y]");
        format!("{}- {{name: b, verbs: [read], {fields}}}\n", of(&first))
    };
    let good = format!("tokens: [\"{one}\"]");
    vec![
        (two(&good), vec!["callers[1] \"b\"", "tokens[0]", "\"a\""]),
        (
            two("serviceAccounts: [n/s]"),
            vec!["serviceAccounts[0]", "\"a\""],
        ),
        (two("certificates: [X.y]"), vec!["certificates[0]", "\"a\""]),
        (
            two(&format!("tokens: [\"{other}\"]")).replace("name: b", "name: a"),
            vec!["callers[1]", "name", "\"a\""],
        ),
        (
            of(&good).replace("[read]", "[]"),
            vec!["verbs", "empty", "read, write, import, delete, admin-read"],
        ),
        (
            of(&good).replace("[read]", "[raed]"),
            vec!["callers[0].verbs", "raed"],
        ),
        (
            of(&good).replace("[read]", "[read, read]"),
            vec!["verbs", "twice"],
        ),
        (
            of(&good).replace("name: a", "name: a b"),
            vec!["name", "1 to 63"],
        ),
        ("{\"callers\": []} x".to_owned(), vec!["the file"]),
        (
            format!("{}---\ncallers: []\n", of(&good)),
            vec!["more than one document"],
        ),
    ]
}

#[test]
fn a_wrong_file_is_refused_with_the_place_and_without_its_tokens() {
    for (text, parts) in with_wrong_proofs().into_iter().chain(with_wrong_callers()) {
        let refusal = AccessFile::parse(text.as_bytes()).unwrap_err().to_string();
        for part in parts {
            assert!(refusal.contains(part), "{text}\n{refusal}");
        }
        assert!(!refusal.contains("secret-token"), "{refusal}");
        assert!(!refusal.contains("12345678"), "{refusal}");
        assert!(!refusal.contains(&hash("one")[10..]), "{refusal}");
    }
    let large = vec![b' '; MAX_BYTES + 1];
    assert!(matches!(
        AccessFile::parse(&large),
        Err(FileError::TooLarge(_))
    ));
}

/// Says of every token whose it claims to be, when it may; counts how often it was asked.
#[derive(Debug)]
struct Reviewer {
    asked: AtomicUsize,
    may_answer: Semaphore,
    says: fn(&str) -> Result<Option<String>, ReviewError>,
}

#[async_trait]
impl TokenReviewer for Reviewer {
    async fn review(&self, token: &str) -> Result<Option<String>, ReviewError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.may_answer.acquire().await.unwrap().forget();
        (self.says)(token)
    }
}

/// The token of a service account, for as long as `says` has it; `mark` tells it from others.
fn jwt(account: &str, mark: usize) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let claims =
        serde_json::json!({"sub": format!("system:serviceaccount:{account}"), "jti": mark});
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn reviewed(
    says: fn(&str) -> Result<Option<String>, ReviewError>,
    answers: usize,
) -> (Arc<Access>, Arc<Reviewer>, tempfile::TempDir) {
    let reviewer = Arc::new(Reviewer {
        asked: AtomicUsize::new(0),
        may_answer: Semaphore::new(answers),
        says,
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.yaml");
    fs::write(
        &file,
        "callers: [{name: gateway, verbs: [read], serviceAccounts: [talk/gateway]}]",
    )
    .unwrap();
    let config = AccessConfig {
        reviewer: Some(Arc::clone(&reviewer) as Arc<dyn TokenReviewer>),
        ..AccessConfig::new(file)
    };
    let access = Access::open(config, &Limits::default()).unwrap();
    (access, reviewer, folder)
}

async fn by(access: &Access, token: &str) -> Result<String, NoCaller> {
    let mut headers = HeaderMap::new();
    let header = format!("Bearer {token}").parse().unwrap();
    headers.insert(names::AUTHORIZATION, header);
    let caller = access.authenticate(&headers, None).await?;
    Ok(caller.name.clone())
}

fn gateway(_: &str) -> Result<Option<String>, ReviewError> {
    Ok(Some("system:serviceaccount:talk:gateway".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_service_account_is_reviewed_once_a_minute_however_many_ask() {
    let (access, reviewer, _folder) = reviewed(gateway, 2);
    let token = jwt("talk:gateway", 0);
    let all = (0..100).map(|_| by(&access, &token));
    for answer in futures::future::join_all(all).await {
        assert_eq!(answer.as_deref(), Ok("gateway"));
    }
    assert_eq!(by(&access, &token).await.as_deref(), Ok("gateway"));
    assert_eq!(reviewer.asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(by(&access, &token).await.as_deref(), Ok("gateway"));
    assert_eq!(reviewer.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_valid_is_refused_and_not_asked_about_again_for_a_minute() {
    let (access, reviewer, _folder) = reviewed(|_| Ok(None), 2);
    let token = jwt("talk:gateway", 0);
    for _ in 0..10 {
        assert_eq!(by(&access, &token).await, Err(NoCaller::UnknownToken));
    }
    assert_eq!(reviewer.asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(by(&access, &token).await, Err(NoCaller::UnknownToken));
    assert_eq!(reviewer.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn tokens_that_claim_no_account_of_the_file_cost_the_api_server_nothing() {
    let (access, reviewer, _folder) = reviewed(gateway, 100);
    for token in [
        jwt("talk:other", 0),
        jwt("other:gateway", 0),
        "a.b.c".to_owned(),
        "opaque".to_owned(),
        format!("{}.d", jwt("talk:gateway", 0)),
    ] {
        assert_eq!(by(&access, &token).await, Err(NoCaller::UnknownToken));
    }
    assert_eq!(reviewer.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn another_account_than_the_token_claims_is_nobody() {
    let (access, _, _folder) = reviewed(
        |_| Ok(Some("system:serviceaccount:talk:other".to_owned())),
        1,
    );
    let token = jwt("talk:gateway", 0);
    assert_eq!(by(&access, &token).await, Err(NoCaller::UnknownToken));
}

#[tokio::test]
async fn a_few_reviews_go_on_at_once_and_the_others_are_told_to_come_back() {
    let (access, reviewer, _folder) = reviewed(gateway, 0);
    let tokens: Vec<_> = (0..20).map(|mark| jwt("talk:gateway", mark)).collect();
    let asking = futures::future::join_all(tokens.iter().map(|token| by(&access, token)));
    let answers = async {
        while reviewer.asked.load(Ordering::SeqCst) < 8 {
            tokio::task::yield_now().await;
        }
        reviewer.may_answer.add_permits(8);
    };
    let (answers, ()) = tokio::join!(asking, answers);
    let later = |answer: &&Result<String, NoCaller>| **answer == Err(NoCaller::NotReviewed);
    assert_eq!(answers.iter().filter(later).count(), 12);
    assert_eq!(reviewer.asked.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_no_refusal_for_good() {
    let (access, reviewer, _folder) = reviewed(gateway, 0);
    let token = jwt("talk:gateway", 0);
    assert_eq!(by(&access, &token).await, Err(NoCaller::NotReviewed));
    reviewer.may_answer.add_permits(1);
    assert_eq!(by(&access, &token).await.as_deref(), Ok("gateway"));
}

#[tokio::test]
async fn outside_of_kubernetes_a_file_with_service_accounts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.yaml");
    let text = "callers: [{name: gateway, verbs: [read], serviceAccounts: [talk/gateway]}]";
    fs::write(&file, text).unwrap();
    let refusal = Access::open(AccessConfig::new(file), &Limits::default()).unwrap_err();
    let refusal = chain(&refusal);
    assert!(
        refusal.contains("serviceAccounts") && refusal.contains("in a pod"),
        "{refusal}"
    );
}
