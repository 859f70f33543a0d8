//! Many readers of one large user at once: how much memory of the process that takes.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
    time::Duration,
};

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::process::start;

const STATES: u64 = 50_000;
const READERS: usize = 300;
/// One copy of the block is 1.2 MiB, the room for its JSON 11 MiB; the rest is what 300 connections and
/// an allocator hold. A copy for each reader would be 360 MiB, before any JSON.
const MOST_GROWTH_KIB: u64 = 96 << 10;
const PATIENCE: Duration = Duration::from_secs(120);

/// The program on free ports. It ends with this thread, however that ends.
struct Serving {
    child: Child,
    address: String,
}

#[expect(
    clippy::disallowed_methods,
    reason = "memory is measured by the process, so it has to be one of its own"
)]
fn serve(folder: &Path, more: &[&str]) -> Serving {
    let any = "127.0.0.1:0";
    let store = format!("embedded:{}", folder.display());
    let mut command = Command::new("setpriv");
    command.env_clear().args(["--pdeathsig", "KILL", "--"]);
    command.args([env!("CARGO_BIN_EXE_readstates"), "serve", "--store", &store]);
    command.args(["--listen", any, "--admin-listen", any]);
    command.args(more);
    let (child, event, _) = start(&mut command);
    let address = event["listen"].as_str().unwrap().to_owned();
    Serving { child, address }
}

impl Serving {
    /// A line of the kernel's account of its memory, in KiB.
    fn memory(&self, of: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(of));
        let number = line.unwrap().trim_start_matches(':').trim();
        number.strip_suffix(" kB").unwrap().parse().unwrap()
    }

    fn terminate(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    /// (status, bytes after the head) of a GET, read and forgotten.
    async fn get(&self, path: &str) -> (u16, usize) {
        let mut socket = TcpStream::connect(&self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut buffer = vec![0; 64 << 10];
        let (mut head, mut bytes) = (Vec::new(), 0);
        loop {
            let read = socket.read(&mut buffer).await.unwrap();
            if read == 0 {
                break;
            }
            if head.is_empty() {
                head.extend_from_slice(&buffer[..read.min(16)]);
            }
            bytes += read;
        }
        let status = String::from_utf8_lossy(&head)[9..12].parse().unwrap();
        (status, bytes)
    }
}

async fn fill(serving: &Serving, user: u64) {
    let client = reqwest::Client::builder()
        .tls_certs_only([])
        .build()
        .unwrap();
    let url = format!(
        "http://{}/v1/users/{user}/read-states/ack-bulk",
        serving.address
    );
    for first in (1..=STATES).step_by(1000) {
        let item = |channel: u64| json!({"channel_id": channel.to_string(), "message_id": "1000000000000"});
        let items: Vec<Value> = (first..first + 1000).map(item).collect();
        let body = json!({"read_states": items});
        let answer = client.post(&url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

/// How a herd of readers went: its answers by status, and by how many KiB the process grew at most.
async fn stampede(serving: &Serving, path: &str) -> (usize, usize, u64) {
    let before = serving.memory("VmRSS");
    let answers = join_all((0..READERS).map(|_| serving.get(path)));
    let answers = tokio::time::timeout(PATIENCE, answers).await.unwrap();
    let good = answers.iter().filter(|(status, _)| *status == 200).count();
    let busy = answers.iter().filter(|(status, _)| *status == 503).count();
    let grown = serving.memory("VmHWM").saturating_sub(before);
    println!("{path}: {good} x 200, {busy} x 503, grew by {grown} KiB at most");
    (good, busy, grown)
}

#[tokio::test]
async fn a_herd_that_reads_one_cold_large_user_shares_one_copy() {
    let folder = tempfile::tempdir().unwrap();
    let first = serve(folder.path(), &[]);
    fill(&first, 1).await;
    first.terminate();

    let second = serve(folder.path(), &[]);
    let (good, _, grown) = stampede(&second, "/v1/users/1/read-states").await;
    assert!(grown <= MOST_GROWTH_KIB, "grew by {grown} KiB");
    assert_eq!(good, READERS, "no reader is refused: all share one copy");
    second.terminate();

    // What changed since a version is written for each caller, as far as there is memory for it: it is
    // taken before anything is written.
    let third = serve(folder.path(), &["--max-buffered-bytes", "67108864"]);
    let (good, busy, grown) = stampede(&third, "/v1/users/1/read-states?since=1").await;
    assert!(grown <= MOST_GROWTH_KIB, "grew by {grown} KiB");
    assert!(
        good > 0 && good + busy == READERS,
        "{good} served, {busy} refused"
    );
    third.terminate();
}
