//! Orders to the guest and its answers, over the socket behind the virtual serial port.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::protocol::{Ended, Order, Word};

/// A command that has ended by its limit has answered by then.
const GRACE: Duration = Duration::from_secs(15);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub command: String,
    /// Its exit status.
    pub status: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Answer {
    /// What it printed, when it succeeded.
    ///
    /// # Errors
    /// The command and what it said, when it did not.
    pub fn success(self) -> Result<String> {
        if self.status != 0 {
            bail!("{self}");
        }
        Ok(self.stdout)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            command,
            status,
            stdout,
            stderr,
        } = self;
        write!(f, "`{command}` ended with {status}: {stdout}{stderr}")
    }
}

type Waiting = Arc<Mutex<HashMap<u64, Sender<Ended>>>>;

#[derive(Debug)]
pub(crate) struct Orders {
    stream: Mutex<UnixStream>,
    next: AtomicU64,
    waiting: Waiting,
}

/// An order whose answer is still to come.
#[derive(Debug)]
pub struct Pending {
    command: String,
    limit: Duration,
    answer: Receiver<Ended>,
}

impl Orders {
    /// Waits until the guest is up.
    pub(crate) fn connected(stream: UnixStream, limit: Duration) -> Result<Self> {
        let waiting = Waiting::default();
        let (up, is_up) = mpsc::channel();
        let lines = BufReader::new(stream.try_clone()?);
        let answered = waiting.clone();
        // Ends with the socket, that is with the machine.
        thread::spawn(move || listen(lines, &up, &answered));
        is_up
            .recv_timeout(limit)
            .with_context(|| format!("the guest did not come up within {limit:?}"))?;
        Ok(Self {
            stream: Mutex::new(stream),
            next: AtomicU64::new(1),
            waiting,
        })
    }

    pub(crate) fn give(&self, command: &str, limit: Duration) -> Result<Pending> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = mpsc::channel();
        unpoisoned(&self.waiting).insert(id, answered);
        let order = Order {
            id,
            run: command.to_owned(),
            limit_s: limit.as_secs().max(1),
        };
        let line = serde_json::to_string(&order)? + "\n";
        unpoisoned(&self.stream)
            .write_all(line.as_bytes())
            .with_context(|| format!("the machine is gone: failed to order `{command}`"))?;
        Ok(Pending {
            command: command.to_owned(),
            limit,
            answer,
        })
    }
}

impl Pending {
    /// Waits for the command's end.
    ///
    /// # Errors
    /// When the machine went away, or hangs: the command's limit is long over.
    pub fn wait(self) -> Result<Answer> {
        let Self {
            command,
            limit,
            answer,
        } = self;
        let ended = answer
            .recv_timeout(limit + GRACE)
            .with_context(|| format!("no answer to `{command}` (limit {limit:?})"))?;
        Ok(Answer {
            command,
            status: ended.status,
            stdout: ended.stdout,
            stderr: ended.stderr,
        })
    }
}

fn listen(lines: BufReader<UnixStream>, up: &Sender<()>, waiting: &Waiting) {
    for line in lines.lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            // Only the first `Up` is waited for: a machine does not reboot.
            Ok(Word::Up) => drop(up.send(())),
            Ok(Word::Ended(ended)) => {
                if let Some(answered) = unpoisoned(waiting).remove(&ended.id) {
                    // The test may have given up on it.
                    let _ = answered.send(ended);
                }
            }
            Err(error) => eprintln!("the guest talks nonsense: {error}: {line}"),
        }
    }
    // Drops the senders, so that waiting callers learn that no answer will come.
    unpoisoned(waiting).clear();
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
