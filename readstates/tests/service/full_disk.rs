//! A disk that is really full, and has room again: the program on a small tmpfs of its own.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process::start;

const PATIENCE: Duration = Duration::from_secs(180);

/// The program, on free ports. It ends with this thread, however that ends.
struct Serving {
    child: Child,
    api: String,
    admin: String,
    watch: String,
    client: reqwest::Client,
}

/// Whether this process may mount a tmpfs in a namespace of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "a mount needs a process of its own"
)]
fn may_mount() -> bool {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--map-root-user",
        "mount",
        "-t",
        "tmpfs",
        "none",
        "/tmp",
    ]);
    command.status().is_ok_and(|status| status.success())
}

/// Starts it on a folder with more flags; with a tmpfs of so many MiB mounted there, which only this process sees.
#[expect(
    clippy::disallowed_methods,
    reason = "a mount needs a process of its own"
)]
fn serve(folder: &Path, tmpfs: Option<u32>, more: &[&str]) -> Serving {
    let mut command = Command::new("env");
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    if let Some(size) = tmpfs {
        command.args(["unshare", "--mount", "--map-root-user", "sh", "-c"]);
        let mount = format!("mount -t tmpfs -o size={size}m none \"$0\" && exec \"$@\"");
        command.arg(mount).arg(folder);
    }
    // Last: a change of user clears the parent-death signal.
    command.args(["setpriv", "--pdeathsig", "KILL", "--"]);
    command.args([env!("CARGO_BIN_EXE_readstates"), "serve", "--store"]);
    command.arg(format!("embedded:{}", folder.display()));
    let any = "127.0.0.1:0";
    for port in ["--listen", "--admin-listen", "--watch-listen"] {
        command.args([port, any]);
    }
    // What may wait for the store is 1000 states, so that refusing begins soon.
    command.args(["--capacity-states", "2000"]);
    let (child, event, _) = start(command.args(more));
    let url = |of: &str| format!("http://{}", event[of].as_str().unwrap());
    Serving {
        child,
        api: url("listen"),
        admin: url("admin"),
        watch: url("watch"),
        client: reqwest::Client::builder()
            .tls_certs_only([])
            .build()
            .unwrap(),
    }
}

impl Serving {
    /// A path as the process sees it.
    fn seen(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root{}", self.child.id(), path.display());
        root.into()
    }

    async fn ack(&self, user: u64, message: u64) -> u16 {
        let url = format!("{}/v1/users/{user}/read-states/1/ack", self.api);
        let body = json!({"message_id": message.to_string()});
        let answer = self.client.post(url).json(&body).send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        assert_eq!(status == 503, headers.contains_key("retry-after"));
        status
    }

    async fn last(&self, user: u64) -> Value {
        let url = format!("{}/v1/users/{user}/read-states/1", self.api);
        let answer = self.client.get(url).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let state: Value = serde_json::from_str(&text).unwrap();
        state["last_message_id"].clone()
    }

    async fn status(&self) -> Value {
        let url = format!("{}/admin/v1/status", self.admin);
        let answer = self.client.get(url).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        loop {
            let status = self.status().await;
            if holds(&status) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "still not {what}: {status}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ready(&self) -> (u16, String) {
        let answer = self.client.get(format!("{}/readyz", self.watch)).send();
        let answer = answer.await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

/// Takes all the room that is left, in smaller and smaller pieces.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for piece in [1 << 20, 4096, 1] {
        while file.write_all(&vec![7; piece]).is_ok() {}
    }
}

/// Whether a disk can be filled here; says so where it cannot.
fn may_fill() -> bool {
    if !may_mount() {
        let skipped =
            "SKIPPED: no disk was filled; unshare --mount --map-root-user needs user namespaces";
        // Not captured: a run says what it has left out.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "{skipped}").unwrap();
        return false;
    }
    true
}

/// Kills a member, with what is in its folder as it is then; starts another on that, and expects in it what was
/// acknowledged.
async fn expect_after_a_kill(
    member: Serving,
    data: &Path,
    copy: &Path,
    acknowledged: &[u64],
    more: &[&str],
) {
    let pid = Pid::from_child(&member.child);
    kill_process(pid, Signal::STOP).unwrap();
    let seen = member.seen(data);
    fs::create_dir(copy).unwrap();
    fs::copy(seen.join("blocks.redb"), copy.join("blocks.redb")).unwrap();
    if let Ok(files) = fs::read_dir(seen.join("journal")) {
        fs::create_dir(copy.join("journal")).unwrap();
        for file in files {
            let file = file.unwrap();
            fs::copy(file.path(), copy.join("journal").join(file.file_name())).unwrap();
        }
    }
    kill_process(pid, Signal::KILL).unwrap();
    let mut child = member.child;
    child.wait().unwrap();

    let mut again = serve(copy, None, more);
    for user in acknowledged {
        assert_eq!(again.last(*user).await, (100 + user).to_string());
    }
    kill_process(Pid::from_child(&again.child), Signal::TERM).unwrap();
    assert!(again.child.wait().unwrap().success());
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing_and_room_again_heals_by_itself() {
    if !may_fill() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let interval = ["--durability", "interval", "--flush-interval", "200ms"];
    let member = serve(&data, Some(24), &interval);
    let mut acknowledged = Vec::new();
    for user in 1..=200 {
        assert_eq!(member.ack(user, 100 + user).await, 200);
        acknowledged.push(user);
    }
    member
        .until("written", |status| status["dirty_users"] == 0)
        .await;

    let filler = member.seen(&data.join("filler"));
    fill(&filler);
    member
        .until("ill", |status| status["store"]["healthy"] == false)
        .await;
    let (status, text) = member.ready().await;
    assert!(status == 200 && text.contains("make room there"), "{text}");
    // Until as much waits as may; then it refuses, and goes on refusing.
    let mut refused = 0;
    for user in 201..=2000 {
        match member.ack(user, 100 + user).await {
            200 => acknowledged.push(user),
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    println!("{} acknowledged, {refused} refused", acknowledged.len());
    assert!(refused > 100 && acknowledged.len() > 500);
    assert_eq!(member.last(1).await, "101", "what was written is read");

    fs::remove_file(filler).unwrap();
    member
        .until("written", |status| status["dirty_users"] == 0)
        .await;
    member
        .until("healthy", |status| status["store"]["healthy"] == true)
        .await;
    assert_eq!(member.ready().await, (200, "ready\n".to_owned()));
    assert_eq!(member.ack(3000, 3100).await, 200);
    acknowledged.push(3000);
    member
        .until("written", |status| status["dirty_users"] == 0)
        .await;

    let copy = folder.path().join("copy");
    expect_after_a_kill(member, &data, &copy, &acknowledged, &interval).await;
}

#[tokio::test]
async fn a_journal_on_a_full_disk_acknowledges_nothing_that_it_cannot_hold() {
    if !may_fill() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    // Nothing is written behind: what survives was in the journal.
    let journal = ["--flush-mode", "interval", "--flush-interval", "1h"];
    let member = serve(&data, Some(64), &journal);
    let mut acknowledged = Vec::new();
    for user in 1..=200 {
        assert_eq!(member.ack(user, 100 + user).await, 200);
        acknowledged.push(user);
    }
    let filler = member.seen(&data.join("filler"));
    fill(&filler);
    let (mut refused, mut unknown) = (0, 0);
    for user in 201..=400 {
        match member.ack(user, 100 + user).await {
            200 => acknowledged.push(user),
            503 => refused += 1,
            504 => unknown += 1,
            other => panic!("{other}"),
        }
    }
    println!("{refused} refused, {unknown} unknown");
    assert_eq!(acknowledged.len(), 200);
    assert!(refused > 190, "only the first had to wait to see it");
    let status = member.status().await;
    assert_eq!(status["store"]["healthy"], false, "{status}");
    let (status, text) = member.ready().await;
    assert!(status == 200 && text.contains("journal"), "{text}");
    assert_eq!(member.last(1).await, "101", "what is on the disk is read");

    fs::remove_file(filler).unwrap();
    let start = Instant::now();
    while member.ack(3000, 3100).await != 200 {
        assert!(start.elapsed() < PATIENCE, "there is room again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    acknowledged.push(3000);
    let copy = folder.path().join("copy");
    expect_after_a_kill(member, &data, &copy, &acknowledged, &journal).await;
}
