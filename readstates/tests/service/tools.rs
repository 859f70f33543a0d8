//! The program beside a member that serves: `readstates user`, and spans that leave it.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process;

/// (succeeded, standard output, standard error)
fn readstates(arguments: &[&str]) -> (bool, String, String) {
    let (status, out, error) = process::readstates(arguments);
    (status == 0, out, error)
}

/// A member on free ports; ends when dropped.
pub struct Serving {
    child: Child,
    pub url: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serve(more: &[&str], environment: &[(&str, &str)]) -> Serving {
    serve_with("memory", more, environment)
}

/// A member on this store.
pub fn serve_on(store: &str) -> Serving {
    serve_with(store, &[], &[])
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program itself is what is tested here"
)]
fn serve_with(store: &str, more: &[&str], environment: &[(&str, &str)]) -> Serving {
    let any = "127.0.0.1:0";
    let mut command = Command::new("setpriv");
    command.env_clear().envs(environment.iter().copied());
    command.args([
        "--pdeathsig",
        "KILL",
        "--",
        env!("CARGO_BIN_EXE_readstates"),
        "serve",
    ]);
    command.args(["--listen", any, "--admin-listen", any, "--store", store]);
    let (child, event, _) = process::start(command.args(more));
    let url = format!("http://{}", event["listen"].as_str().unwrap());
    Serving { child, url }
}

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().tls_certs_only([]);
    client.build().unwrap()
}

/// Acknowledges as a caller with this token.
async fn ack(url: &str, channel: u64, message: u64, token: Option<&str>) {
    let url = format!("{url}/v1/users/4001/read-states/{channel}/ack");
    let mut request = client().post(url).json(&json!({"message_id": message}));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_user_is_shown_and_deleted_from_a_shell() {
    let serving = serve(&[], &[]);
    let url = ["--url", &*serving.url];
    let user = |arguments: &[&str]| readstates(&[&["user"], arguments, &url].concat());
    let (shown, text, _) = user(&["show", "4001"]);
    assert!(
        shown && text == "user 4001 at version 0: 0 read states\n",
        "{text}"
    );
    ack(&serving.url, 10, 100, None).await;
    ack(&serving.url, 11, 101, None).await;
    let (shown, text, error) = user(&["show", "4001"]);
    assert!(shown && text.lines().count() == 4, "{text}{error}");
    let (_, text, _) = user(&["show", "4001", "--json"]);
    let states: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(states["read_states"][1]["last_message_id"], "101");
    let (deleted, _, error) = user(&["delete", "4001", "--if-version", "1"]);
    let version = states["version"].as_str().unwrap();
    assert!(
        !deleted && error.contains(&format!("is at version {version}")),
        "{error}"
    );
    let (deleted, text, error) = user(&["delete", "4001", "--if-version", version]);
    assert!(
        deleted && text.contains("user 4001 is deleted"),
        "{text}{error}"
    );
    let (_, text, _) = user(&["show", "4001"]);
    assert!(
        text.ends_with("0 read states\n") && !text.contains("version 0"),
        "{text}"
    );
    let (deleted, ..) = user(&["delete", "4001"]);
    assert!(deleted, "again is no mistake");
}

#[tokio::test]
async fn a_caller_needs_the_verb_and_is_told_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let hash = |token: &str| ::readstates::access::token::hash(token).to_string();
    let access = format!(
        "callers:\n- {{name: reader, verbs: [read, write], tokens: [\"{}\"]}}\n",
        hash("secret-of-reader")
    );
    std::fs::write(file("access.yaml"), access).unwrap();
    std::fs::write(file("token"), "secret-of-reader\n").unwrap();
    let serving = serve(&["--access", &file("access.yaml")], &[]);
    ack(&serving.url, 10, 100, Some("secret-of-reader")).await;
    let token = file("token");
    let (shown, text, error) = self::readstates(&[
        "user",
        "show",
        "4001",
        "--url",
        &serving.url,
        "--token-file",
        &token,
    ]);
    assert!(shown && text.contains("1 read states"), "{text}{error}");
    let url = &*serving.url;
    for (arguments, part) in [
        (
            &[
                "user",
                "delete",
                "4001",
                "--url",
                url,
                "--token-file",
                &*token,
            ][..],
            "lacks the verb delete",
        ),
        (
            &["user", "show", "4001", "--url", url],
            "give --token-file FILE",
        ),
        (
            &[
                "user",
                "show",
                "4001",
                "--url",
                url,
                "--token-file",
                "/no/such",
            ],
            "--token-file /no/such",
        ),
        (&["user", "show", "x"], "an id is a decimal number"),
        (&["user", "show", "0"], "an id is a decimal number"),
        (&["user", "delete", "1", "--if-version", "x"], "no version"),
        (&["user", "show", "1", "--url", "chat:7400"], "http://HOST"),
        (&["user", "show", "1", "--cert-file", "a"], "--key-file"),
    ] {
        let (succeeded, _, error) = self::readstates(arguments);
        assert!(!succeeded && error.contains(part), "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

/// Takes one request, and returns its head and its body.
fn taken(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut socket, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = socket.read(&mut part).unwrap();
        bytes.extend_from_slice(&part[..read]);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end.filter(|_| read > 0) else {
            assert_ne!(read, 0, "a whole request");
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec())
            .unwrap()
            .to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().parse().unwrap();
        let body = bytes[end + 4..].to_vec();
        if body.len() >= length {
            socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            return (head, body);
        }
    }
}

#[tokio::test]
async fn spans_are_exported_where_the_environment_says_so() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=chat"),
        ("OTEL_SERVICE_NAME", "chat-of-a-test"),
    ];
    let mut serving = serve(&[], &environment);
    let trace = *b"\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36";
    let request = client()
        .get(format!("{}/v1/users/1/read-states", serving.url))
        .header(
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        );
    assert_eq!(request.send().await.unwrap().status(), 200);
    // What is left is exported when it stops.
    kill_process(Pid::from_child(&serving.child), Signal::TERM).unwrap();
    let taken = tokio::task::spawn_blocking(move || taken(&collector));
    let (head, body) = taken.await.unwrap();
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(
        head.contains("x-tenant: chat") && head.contains("application/x-protobuf"),
        "{head}"
    );
    let has = |part: &[u8]| body.windows(part.len()).any(|bytes| bytes == part);
    assert!(has(&trace) && has(b"chat-of-a-test"));
    assert!(has(b"GET /v1/users/{user}/read-states"));
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn a_protocol_that_is_not_spoken_ends_the_start_with_its_name() {
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    #[expect(
        clippy::disallowed_methods,
        reason = "the program itself is what is tested here"
    )]
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_readstates"));
    let any = "127.0.0.1:0";
    command.args([
        "serve",
        "--store",
        "memory",
        "--listen",
        any,
        "--admin-listen",
        any,
    ]);
    let output = command.env_clear().envs(environment).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        error.contains("OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\""),
        "{error}"
    );
}
