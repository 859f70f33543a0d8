//! Apache Cassandra, through `nodetool` of its own image: JMX listens on loopback, so it is reachable from the pod
//! alone. `nodetool` starts a JVM for each query, so one query is made where one is enough: `status` reports every
//! node, and only a node that is not at rest is queried further.

use std::{net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use tokio::{net::TcpStream, process::Command, time::timeout};

use super::{Engine, EngineError, Facts, Keyspace, Look, Mode, Node, NodeState, Pools};
use crate::words::last_telling_line;

/// A JVM on a busy machine takes its time to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// A decommission streams the whole disk.
const LONGEST_DECOMMISSION: Duration = Duration::from_hours(7 * 24);
/// A cleanup reads and writes the whole disk.
const LONGEST_CLEANUP: Duration = Duration::from_hours(3 * 24);
const TOUCH: Duration = Duration::from_secs(3);

/// Keyspaces of Cassandra's own that hold history, not data: they are created with up to three copies, and a lost copy
/// does not matter. Everything else counts.
const HISTORY: [&str; 2] = ["system_distributed", "system_traces"];

/// Cassandra in this pod.
#[derive(Clone, Debug)]
pub struct Cassandra {
    /// The program.
    pub nodetool: PathBuf,
    /// This node's address among the others.
    pub address: String,
    /// Where JMX listens.
    pub jmx: SocketAddr,
}

impl Cassandra {
    async fn nodetool(&self, args: &[&str], patience: Duration) -> Result<String, EngineError> {
        let run = Command::new(&self.nodetool)
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let told = |text: String| EngineError::Unreachable(text);
        let out = timeout(patience, run)
            .await
            .map_err(|_| told(format!("nodetool {} did not end", args.join(" "))))?
            .map_err(|error| told(format!("nodetool cannot be run: {error}")))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if out.status.success() {
            return Ok(text(&out.stdout));
        }
        Err(EngineError::Refused(complaint(
            &text(&out.stdout),
            &text(&out.stderr),
        )))
    }
}

impl Engine for Cassandra {
    async fn look(&self) -> Result<Look, EngineError> {
        // Cheaper than a JVM that finds out the same.
        if !self.alive().await {
            let words = format!("nothing answers at {}", self.jmx);
            return Err(EngineError::Unreachable(words));
        }
        let nodes = status(&self.nodetool(&["status"], PATIENCE).await?)?;
        let own = nodes.iter().find(|n| n.address == self.address).cloned();
        if let Some(own) = &own
            && own.up
            && own.state == NodeState::Normal
        {
            return Ok(Look {
                host_id: Some(own.host_id.clone()),
                mode: Mode::Normal,
                progress: None,
                nodes,
            });
        }
        let netstats = self.nodetool(&["netstats"], PATIENCE).await?;
        let host_id = match own {
            Some(own) => Some(own.host_id),
            None => host_id(&self.nodetool(&["info"], PATIENCE).await.unwrap_or_default()),
        };
        Ok(Look {
            host_id,
            mode: mode(&netstats),
            progress: progress(&netstats),
            nodes,
        })
    }

    async fn facts(&self) -> Result<Facts, EngineError> {
        facts(&self.nodetool(&["describecluster"], PATIENCE).await?)
    }

    /// `--force` overrides one check, that enough nodes remain for the copies of every keyspace, history
    /// included. The operator has made that check, for every keyspace that holds data.
    async fn decommission(&self) -> Result<(), EngineError> {
        self.nodetool(&["decommission", "--force"], LONGEST_DECOMMISSION)
            .await
            .map(drop)
    }

    async fn cleanup(&self) -> Result<(), EngineError> {
        self.nodetool(&["cleanup"], LONGEST_CLEANUP).await.map(drop)
    }

    async fn pools(&self) -> Result<Option<Pools>, EngineError> {
        let told = self.nodetool(&["tpstats", "--format", "json"], PATIENCE);
        Pools::of_tpstats(&told.await?).map(Some)
    }

    async fn alive(&self) -> bool {
        matches!(
            timeout(TOUCH, TcpStream::connect(self.jmx)).await,
            Ok(Ok(_))
        )
    }
}

/// What `nodetool` complains of: the line after `error:`, or its last words, never a frame of its stack.
fn complaint(stdout: &str, stderr: &str) -> String {
    let lines = || stderr.lines().chain(stdout.lines()).map(str::trim);
    let marked = lines().find_map(|l| {
        l.strip_prefix("error:")
            .or_else(|| l.strip_prefix("nodetool:"))
    });
    let last = || last_telling_line(stderr).or_else(|| last_telling_line(stdout));
    marked
        .or_else(last)
        .map_or("nodetool failed without a word", str::trim)
        .to_owned()
}

/// The rows of `nodetool status`: `UN  10.0.0.1  115.63 KiB  16  100.0%  <host id>  rack`. The host ID is the
/// landmark: before it columns may hold one word or two.
fn status(text: &str) -> Result<Vec<Node>, EngineError> {
    let rows = text.lines().filter(|line| {
        let mut flags = line.chars();
        matches!(flags.next(), Some('U' | 'D' | '?'))
            && matches!(flags.next(), Some('N' | 'L' | 'J' | 'M'))
            && flags.next() == Some(' ')
    });
    rows.map(|line| {
        row(line).ok_or_else(|| EngineError::Odd {
            what: "a row of nodetool status",
            text: line.to_owned(),
        })
    })
    .collect()
}

fn row(line: &str) -> Option<Node> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (flags, address) = (words.first()?, words.get(1)?);
    let host_id = words.iter().skip(2).find(|w| is_uuid(w))?;
    let load_bytes = match (words.get(2), words.get(3)) {
        (Some(amount), Some(unit)) => bytes(amount, unit),
        _ => None,
    };
    Some(Node {
        host_id: (*host_id).to_owned(),
        address: (*address).to_owned(),
        up: flags.starts_with('U'),
        state: match flags.chars().nth(1)? {
            'N' => NodeState::Normal,
            'L' => NodeState::Leaving,
            'J' => NodeState::Joining,
            _ => NodeState::Moving,
        },
        load_bytes,
    })
}

fn is_uuid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// `115.63 KiB` in bytes, rounded down: what it is compared with has other doubts.
fn bytes(amount: &str, unit: &str) -> Option<u64> {
    let shift = match unit {
        "bytes" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    // Kept whole: hundredths are enough, and there is nothing to round wrongly.
    let (whole, part) = amount.split_once('.').unwrap_or((amount, "0"));
    let hundredths = format!("{part}00").get(..2)?.parse::<u64>().ok()?;
    let hundred_times = whole.parse::<u64>().ok()?.checked_mul(100)? + hundredths;
    Some(hundred_times.checked_mul(1 << shift)? / 100)
}

/// The first line of `nodetool netstats` is `Mode: NORMAL`.
fn mode(netstats: &str) -> Mode {
    let word = netstats
        .lines()
        .find_map(|l| l.trim().strip_prefix("Mode:"));
    match word.map(str::trim) {
        Some("STARTING") => Mode::Starting,
        Some("JOINING") => Mode::Joining,
        Some("JOINING_FAILED") => Mode::JoinFailed,
        Some("NORMAL") => Mode::Normal,
        Some("LEAVING") => Mode::Leaving,
        Some("DECOMMISSIONED") => Mode::Decommissioned,
        Some("DECOMMISSION_FAILED") => Mode::DecommissionFailed,
        Some("DRAINED") => Mode::Drained,
        Some(_) | None => Mode::Other,
    }
}

/// The sums of all `Receiving 5 files, 1000 bytes total. Already received 2 files (40.00%), 400 bytes total`.
fn progress(netstats: &str) -> Option<String> {
    let (mut total, mut done) = (0_u64, 0_u64);
    for line in netstats.lines().map(str::trim) {
        let transfer = line.starts_with("Receiving ") || line.starts_with("Sending ");
        let numbers: Vec<u64> = line
            .match_indices(" bytes total")
            .filter_map(|(at, _)| line[..at].rsplit(' ').next()?.parse().ok())
            .collect();
        if transfer && let [all, now] = numbers[..] {
            total += all;
            done += now;
        }
    }
    (total > 0).then(|| format!("{done} of {total} bytes transferred"))
}

/// `ID : <host id>` of `nodetool info`.
fn host_id(info: &str) -> Option<String> {
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "ID" && is_uuid(value.trim())).then(|| value.trim().to_owned())
    })
}

/// Two parts of `nodetool describecluster`: `<version>: [addresses]` under `Schema versions:`, and
/// `name -> Replication class: Strategy {dc1=3}` under `Keyspaces:`.
fn facts(text: &str) -> Result<Facts, EngineError> {
    let mut facts = Facts::default();
    let mut part = "";
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_suffix(':') {
            part = title;
        } else if part == "Schema versions"
            && let Some((version, _)) = line.split_once(": [")
        {
            facts.schema_versions.push(version.to_owned());
        } else if part == "Keyspaces"
            && let Some((name, class)) = line.split_once(" -> ")
            && !class.contains("LocalStrategy")
            && !HISTORY.contains(&name)
        {
            facts.keyspaces.push(Keyspace {
                name: name.to_owned(),
                replication_factor: factor(class).ok_or_else(|| EngineError::Odd {
                    what: "a keyspace of nodetool describecluster",
                    text: line.to_owned(),
                })?,
            });
        }
    }
    if facts.schema_versions.is_empty() || facts.keyspaces.is_empty() {
        return Err(EngineError::Odd {
            what: "nodetool describecluster",
            text: text.chars().take(200).collect(),
        });
    }
    Ok(facts)
}

/// The largest number of copies among `{dc1=3, …}` or `{replication_factor=1}`.
fn factor(class: &str) -> Option<i32> {
    let (_, options) = class.split_once('{')?;
    let options = options.split_once('}')?.0;
    options
        .split(',')
        .filter_map(|o| o.split_once('=')?.1.trim().parse().ok())
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "\
Datacenter: dc1
===============
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address      Load        Tokens  Owns (effective)  Host ID                               Rack
UN  10.244.1.7   115.63 KiB  16      68.2%             7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0001  a
DN  10.244.2.9   2 GiB       16      65.1%             7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0002  b
UJ  10.244.2.11  ?           16      ?                 7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0003  b

";

    #[test]
    fn every_node_of_the_status_is_read() {
        let node = |last: char, address: &str, up, state, load_bytes| Node {
            host_id: format!("7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a000{last}"),
            address: address.to_owned(),
            up,
            state,
            load_bytes,
        };
        assert_eq!(
            status(STATUS).unwrap(),
            [
                node('1', "10.244.1.7", true, NodeState::Normal, Some(118_405)),
                node('2', "10.244.2.9", false, NodeState::Normal, Some(2 << 30)),
                node('3', "10.244.2.11", true, NodeState::Joining, None),
            ]
        );
        assert!(status("UN  10.0.0.1  half a row").is_err());
    }

    #[test]
    fn mode_and_transfers_are_read_from_netstats() {
        let text = "Mode: LEAVING\nUnbootstrap 1e0c\n    /10.0.0.2\n        Sending 5 files, 1000 bytes \
                    total. Already sent 2 files (40.00%), 400 bytes total (40.00%)\n        Sending 1 \
                    files, 50 bytes total. Already sent 1 files (100.00%), 50 bytes total (100.00%)\n";
        assert_eq!(mode(text), Mode::Leaving);
        assert_eq!(
            progress(text).as_deref(),
            Some("450 of 1050 bytes transferred")
        );
        assert_eq!(
            mode("Mode: DECOMMISSION_FAILED\n"),
            Mode::DecommissionFailed
        );
        assert_eq!(mode("Mode: JOINING_FAILED\n"), Mode::JoinFailed);
        assert_eq!(progress("Mode: NORMAL\nNot sending any streams.\n"), None);
    }

    #[test]
    fn facts_leave_out_history_and_local_keyspaces() {
        let text = "Cluster Information:\n\tName: talk.chat\n\tSchema versions:\n\t\t0d8b: [10.0.0.1, \
                    10.0.0.2]\n\t\tUNREACHABLE: [10.0.0.3]\n\nStats for all nodes:\n\tLive: \
                    2\n\nKeyspaces:\n\tsystem_auth -> Replication class: SimpleStrategy \
                    {replication_factor=1}\n\tsystem_distributed -> Replication class: SimpleStrategy \
                    {replication_factor=3}\n\tsystem -> Replication class: LocalStrategy \
                    {}\n\treadstates -> Replication class: NetworkTopologyStrategy {dc1=2}\n";
        let keyspace = |name: &str, replication_factor| Keyspace {
            name: name.to_owned(),
            replication_factor,
        };
        assert_eq!(
            facts(text).unwrap(),
            Facts {
                schema_versions: vec!["0d8b".to_owned(), "UNREACHABLE".to_owned()],
                keyspaces: vec![keyspace("system_auth", 1), keyspace("readstates", 2)],
            }
        );
        assert!(facts("").is_err());
    }

    #[test]
    fn the_engines_own_words_are_kept() {
        assert_eq!(
            complaint(
                "",
                "nodetool: Failed to connect to '127.0.0.1:7199' - ConnectException: 'refused'.\n"
            ),
            "Failed to connect to '127.0.0.1:7199' - ConnectException: 'refused'."
        );
        assert_eq!(
            complaint(
                "",
                "error: Not enough live nodes\n-- StackTrace --\njava.lang.X\n\tat y\n"
            ),
            "Not enough live nodes"
        );
        assert_eq!(
            complaint(
                "",
                "java.lang.IllegalStateException: no quorum\n\tat org.apache.cassandra.tools.NodeTool.main(NodeTool.java:87)\n"
            ),
            "java.lang.IllegalStateException: no quorum"
        );
    }
}
