//! `readstates import` and `readstates export` as a person or a script runs them.

mod cassandra;
mod redis;
mod refusals;
mod runs;
mod services;

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
};

use readstates::store::EmbeddedStore;
use serde_json::Value;
use tempfile::TempDir;

use crate::tools::{Serving, serve};

/// What the program said.
struct Ran {
    status: i32,
    out: String,
    error: String,
}

/// Runs the program, with this on its standard input.
#[expect(
    clippy::disallowed_methods,
    reason = "the program itself is what is tested here"
)]
fn readstates_with(arguments: &[&str], input: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_readstates"));
    command.args(arguments).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // One that refuses its flags reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        status: output.status.code().unwrap(),
        out: text(output.stdout),
        error: text(output.stderr),
    }
}

/// The writer of a store that was dropped ends a moment later: what finds the folder in use is run again.
fn readstates(arguments: &[&str]) -> Ran {
    let mut ran = readstates_with(arguments, "");
    for _ in 0..50 {
        if !ran.error.contains("in use by another process") {
            break;
        }
        ran = readstates_with(arguments, "");
    }
    ran
}

impl Ran {
    #[track_caller]
    fn done(self) -> String {
        assert_eq!(self.status, 0, "{}{}", self.out, self.error);
        self.out
    }

    #[track_caller]
    fn failed(self, status: i32, words: &str) {
        assert_eq!(self.status, status, "{}{}", self.out, self.error);
        assert!(self.error.contains(words), "{}", self.error);
    }
}

/// A folder, and a member in a process of its own.
struct TransferWorld {
    folder: TempDir,
    member: Serving,
}

fn world() -> TransferWorld {
    TransferWorld {
        folder: tempfile::tempdir().unwrap(),
        member: serve(&[], &[]),
    }
}

impl TransferWorld {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.text(name)
    }

    fn import(&self, from: &str, more: &[&str]) -> Ran {
        let arguments = ["import", "--from", from, "--url", &self.member.url];
        readstates(&[&arguments[..], more].concat())
    }

    /// The read states of a user as the service has them, without versions.
    fn states(&self, user: u64) -> Vec<Value> {
        let user = user.to_string();
        let show = ["user", "show", &user, "--json", "--url", &self.member.url];
        let shown: Value = serde_json::from_str(&readstates(&show).done()).unwrap();
        let mut states = shown["read_states"].as_array().unwrap().clone();
        for state in &mut states {
            state.as_object_mut().unwrap().remove("version");
        }
        states
    }

    /// (channel, last message, mentions)
    fn numbers(&self, user: u64) -> Vec<(u64, u64, u64)> {
        let number = |value: &Value| value.as_str().map_or(0, |text| text.parse().unwrap());
        let of = |state: &Value| {
            let mentions = state["mention_count"].as_u64().unwrap();
            (
                number(&state["channel_id"]),
                number(&state["last_message_id"]),
                mentions,
            )
        };
        self.states(user).iter().map(of).collect()
    }
}

fn json(file: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn store(folder: &std::path::Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(folder, 0).unwrap())
}
