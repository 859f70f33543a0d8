//! The operator as the program that it is, and what it costs: by its own metrics and by the kernel's books.

use std::{collections::BTreeMap, net::TcpListener, process::Stdio, time::Duration};

use tokio::process::{Child, Command};

use crate::world::KUBECONFIG;

/// Names the program, when another is meant than the one that was compiled with the tests.
const PROGRAM: &str = "READSTATES_TEST_OPERATOR";
/// How long its start may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Operator {
    process: Child,
    url: String,
    http: reqwest::Client,
}

/// What it has cost so far.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// Requests to the API server: `patch readstateclusters/status`.
    pub(crate) requests: BTreeMap<String, u64>,
    pub(crate) reconciles: u64,
    pub(crate) processor: Duration,
    /// Bytes of memory, now and at most.
    pub(crate) memory: u64,
    pub(crate) most_memory: u64,
}

impl Operator {
    /// Starts it for these namespaces, or all. It leads by a Lease in `home`.
    pub(crate) async fn start(home: &str, namespaces: &[&str]) -> Self {
        let listen = free_address();
        let program = std::env::var_os(PROGRAM);
        let mut command = Command::new(program.unwrap_or(env!("CARGO_BIN_EXE_operator").into()));
        command
            .args(["run", "--listen", &listen, "--lease-namespace", home])
            .args(["--readstates-image", "readstates:1"])
            .args(["--agent-image", "operator:1"])
            .args(["--log-level", "warn"])
            .args(namespaces.iter().flat_map(|n| ["--watch-namespace", n]))
            .env("KUBECONFIG", std::env::var_os(KUBECONFIG).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let operator = Self {
            process: command.spawn().unwrap(),
            url: format!("http://{listen}"),
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .build()
                .unwrap(),
        };
        let leads = async {
            while !operator
                .metrics()
                .await
                .is_some_and(|text| text.contains("readstates_operator_leader 1"))
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, leads).await.unwrap();
        operator
    }

    async fn metrics(&self) -> Option<String> {
        let answer = self.http.get(format!("{}/metrics", self.url)).send();
        answer.await.ok()?.text().await.ok()
    }

    pub(crate) async fn cost(&self) -> Cost {
        let text = self.metrics().await.unwrap();
        let mut requests = BTreeMap::new();
        let mut reconciles = 0;
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let label = |key: &str| {
                let (_, rest) = labels.split_once(&format!("{key}=\"")).unwrap();
                rest.split_once('"').unwrap().0
            };
            match name {
                "readstates_operator_api_requests_total" => {
                    let what = format!("{} {}", label("verb"), label("kind"));
                    requests.insert(what, value.parse().unwrap());
                }
                "readstates_operator_reconciles_total" => {
                    reconciles += value.parse::<u64>().unwrap();
                }
                _ => {}
            }
        }
        let pid = self.process.id().unwrap();
        Cost {
            requests,
            reconciles,
            processor: processor(pid),
            memory: kibibytes(pid, "VmRSS:") << 10,
            most_memory: kibibytes(pid, "VmHWM:") << 10,
        }
    }
}

impl Cost {
    /// Requests, all of them.
    pub(crate) fn all_requests(&self) -> u64 {
        self.requests.values().sum()
    }

    /// What was written since `before`, but for the Lease by which it leads.
    pub(crate) fn writes_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let reads = ["get ", "list ", "watch "];
        let mut writes = self.requests.clone();
        writes.retain(|what, count| {
            *count -= before.requests.get(what).copied().unwrap_or_default();
            *count > 0 && !what.ends_with(" leases") && !reads.iter().any(|r| what.starts_with(r))
        });
        writes
    }
}

/// User and system time, which the kernel counts in hundredths of a second.
fn processor(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<_> = after_name.split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn kibibytes(pid: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// An address of loopback that is not listened on now.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
