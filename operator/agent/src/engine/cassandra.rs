//! Apache Cassandra, through `nodetool` of its own image: JMX listens on loopback, so it is reachable from the pod
//! alone. `nodetool` starts a JVM for each query, so one query is made where one is enough: `status` reports every
//! node, and only a node that is not at rest is queried further.

mod profile;

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    net::TcpStream,
    process::Command,
    time::timeout,
};

pub(super) use self::profile::PROFILE;
use super::{EngineError, LocalNode, Look, Pools, canonical};
use crate::{
    wire::{Facts, Keyspace, Mode, Node, NodeState, Ranges, SNAPSHOTS, UpgradeStep},
    words::last_telling_line,
};

/// A JVM on a busy machine takes its time to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// A decommission streams the whole disk.
const LONGEST_DECOMMISSION: Duration = Duration::from_hours(7 * 24);
/// A cleanup reads and writes the whole disk.
const LONGEST_CLEANUP: Duration = Duration::from_hours(3 * 24);
/// A repair reads the whole disk, and those of the nodes with the other copies.
const LONGEST_REPAIR: Duration = Duration::from_hours(3 * 24);
/// A flush writes what is in memory.
const LONGEST_FLUSH: Duration = Duration::from_mins(15);
/// A drain writes what is in memory: all the time that a pod has to stop.
const LONGEST_DRAIN: Duration = Duration::from_mins(15);
/// A snapshot writes what is in memory, and links files.
const LONGEST_SNAPSHOT: Duration = Duration::from_mins(30);
/// Reads data in the format of an earlier release, and rewrites it.
const LONGEST_REWRITE: Duration = Duration::from_hours(3 * 24);
const TOUCH: Duration = Duration::from_secs(3);

/// Keyspaces of Cassandra's own that hold history, not data: they are created with up to three copies, and a lost copy
/// does not matter. Everything else counts.
const HISTORY: [&str; 2] = ["system_distributed", "system_traces"];

/// Cassandra in this pod.
#[derive(Clone, Debug)]
pub(super) struct Cassandra {
    /// The program.
    pub(super) nodetool: PathBuf,
    /// This node's address among the others.
    pub(super) address: String,
    /// Where JMX listens.
    pub(super) jmx: SocketAddr,
}

impl Cassandra {
    async fn nodetool(&self, args: &[&str], patience: Duration) -> Result<String, EngineError> {
        self.watched(args, patience, |_| {}).await
    }

    async fn clear_snapshot(&self, name: &str) -> Result<(), EngineError> {
        let args = ["clearsnapshot", "-t", name];
        self.nodetool(&args, LONGEST_SNAPSHOT).await.map(drop)
    }

    /// Runs `nodetool`, and hands out each line that it prints meanwhile.
    async fn watched(
        &self,
        args: &[&str],
        patience: Duration,
        line: impl Fn(&str) + Send,
    ) -> Result<String, EngineError> {
        let run = async {
            let mut child = Command::new(&self.nodetool)
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            // Both at once: a program whose complaints are not read stops.
            let (stdout, stderr) =
                tokio::try_join!(read(stdout, line), read(stderr, |_: &str| {}))?;
            Ok::<_, std::io::Error>((child.wait().await?, stdout, stderr))
        };
        let told = |text: String| EngineError::Unreachable(text);
        let (status, stdout, stderr) = timeout(patience, run)
            .await
            .map_err(|_| {
                let (command, seconds) = (args.join(" "), patience.as_secs());
                told(format!("nodetool {command} did not end within {seconds} s"))
            })?
            .map_err(|error| told(format!("nodetool cannot be run: {error}")))?;
        if status.success() {
            return Ok(stdout);
        }
        Err(EngineError::Refused(complaint(&stdout, &stderr)))
    }
}

/// All that a program prints, each line handed out as it comes.
async fn read(
    from: Option<impl AsyncRead + Unpin + Send>,
    line: impl Fn(&str) + Send,
) -> std::io::Result<String> {
    let mut text = String::new();
    let Some(from) = from else {
        return Ok(text);
    };
    let mut lines = BufReader::new(from).split(b'\n');
    while let Some(bytes) = lines.next_segment().await? {
        let words = String::from_utf8_lossy(&bytes);
        line(&words);
        text.push_str(&words);
        text.push('\n');
    }
    Ok(text)
}

#[async_trait]
impl LocalNode for Cassandra {
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

    /// Full, not incremental: it relies on no earlier one, and mixes with none. Keyspace after keyspace, those of users
    /// first.
    async fn repair(
        &self,
        ranges: Ranges,
        progress: &(dyn Fn(String) + Send + Sync),
    ) -> Result<(), EngineError> {
        let told = self.nodetool(&["describecluster"], PATIENCE).await?;
        for keyspace in copied(&told)? {
            progress(format!("keyspace {keyspace} begins"));
            let line = |line: &str| {
                if let Some(percent) = percent(line) {
                    progress(format!("keyspace {keyspace}, {percent} %"));
                }
            };
            let args: &[&str] = match ranges {
                Ranges::Primary => &["repair", "--full", "--partitioner-range", &keyspace],
                Ranges::All => &["repair", "--full", &keyspace],
            };
            let done = self.watched(args, LONGEST_REPAIR, line).await;
            done.map_err(|error| why_not_repaired(&keyspace, error))?;
        }
        Ok(())
    }

    /// A snapshot that is there already was cut off: it is taken again. Removing one that is not there is no error.
    async fn upgrade(&self, step: &UpgradeStep) -> Result<(), EngineError> {
        match step {
            UpgradeStep::Snapshot(name) => {
                self.clear_snapshot(name).await?;
                let args = ["snapshot", "--tag", name];
                self.nodetool(&args, LONGEST_SNAPSHOT).await?;
            }
            // What has the current format already is left as it is.
            UpgradeStep::Rewrite => {
                self.nodetool(&["upgradesstables"], LONGEST_REWRITE).await?;
            }
            UpgradeStep::Release(name) => {
                self.clear_snapshot(name).await?;
                let told = self.nodetool(&["listsnapshots"], PATIENCE).await?;
                for left in snapshots_of_upgrades(&told) {
                    self.clear_snapshot(left).await?;
                }
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), EngineError> {
        self.nodetool(&["flush"], LONGEST_FLUSH).await.map(drop)
    }

    async fn drain(&self) -> Result<(), EngineError> {
        self.nodetool(&["drain"], LONGEST_DRAIN).await.map(drop)
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

/// The names in `nodetool listsnapshots`, one row for each table, that an upgrade has given.
fn snapshots_of_upgrades(text: &str) -> BTreeSet<&str> {
    let names = text.lines().filter_map(|row| row.split_whitespace().next());
    names.filter(|name| name.starts_with(SNAPSHOTS)).collect()
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
        .map_or("nodetool failed without a word", without_class)
        .to_owned()
}

/// What Java says of an exception, without thread and class: `Exception in thread "main" java.lang.X: the words`.
fn without_class(line: &str) -> &str {
    let line = line.trim();
    let thrown = line.strip_prefix("Exception in thread");
    let thrown = thrown.and_then(|rest| rest.split_once("\" "));
    let thrown = thrown.map_or(line, |(_, thrown)| thrown);
    let is_class = |class: &str| {
        let is_thrown = class.ends_with("Exception") || class.ends_with("Error");
        is_thrown && class.contains('.') && !class.contains(' ')
    };
    match thrown.split_once(": ") {
        Some((class, words)) if is_class(class) => words,
        Some(_) | None => thrown,
    }
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
        address: canonical(address),
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

/// The percent of `… finished (progress: 35%)`.
fn percent(line: &str) -> Option<&str> {
    let (_, rest) = line.rsplit_once("(progress: ")?;
    rest.trim_end().strip_suffix("%)")
}

/// Without the words that every failed repair has.
fn why_not_repaired(keyspace: &str, error: EngineError) -> EngineError {
    match error {
        EngineError::Refused(words) => {
            let words = words
                .strip_prefix("Repair job has failed with the error message:")
                .unwrap_or(&words);
            let words = words.split(". Check the logs on the repair").next();
            let words = words.unwrap_or_default().trim();
            EngineError::Refused(format!("keyspace {keyspace}: {words}"))
        }
        other @ (EngineError::Unreachable(_) | EngineError::Odd { .. }) => other,
    }
}

/// Keyspaces with more than one copy, those of users first. Traces of queries are left out: they are not worth a repair.
fn copied(describecluster: &str) -> Result<Vec<String>, EngineError> {
    let all = parts(describecluster)?.keyspaces;
    let copied = all.into_iter().filter(|k| k.replication_factor > 1);
    let mut names: Vec<_> = copied.map(|k| k.name).collect();
    names.retain(|name| name != "system_traces");
    names.sort_by_key(|name| name.starts_with("system"));
    Ok(names)
}

fn facts(text: &str) -> Result<Facts, EngineError> {
    let mut facts = parts(text)?;
    facts
        .keyspaces
        .retain(|k| !HISTORY.contains(&k.name.as_str()));
    Ok(facts)
}

/// Two parts of `nodetool describecluster`: `<version>: [addresses]` under `Schema versions:`, and
/// `name -> Replication class: Strategy {dc1=3}` under `Keyspaces:`, without those that are on one node only.
fn parts(text: &str) -> Result<Facts, EngineError> {
    let mut facts = Facts::default();
    let mut part = "";
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_suffix(':') {
            part = title;
        } else if part == "Schema versions"
            && let Some((version, nodes)) = line.split_once(": [")
        {
            let nodes = nodes.trim_end_matches(']').split(',').map(str::trim);
            let nodes = nodes.map(canonical).collect();
            facts.schema_versions.push(version.to_owned());
            facts.schema_nodes.insert(version.to_owned(), nodes);
        } else if part == "Keyspaces"
            && let Some((name, class)) = line.split_once(" -> ")
            && !class.contains("LocalStrategy")
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
mod tests;
