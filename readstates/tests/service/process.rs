//! Our program as a process of its own: run to its end, or serving.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};

use serde_json::Value;

/// Of a store that another process has open.
pub const IN_USE: &str = "in use by another process";

/// The program with these arguments and no environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the program itself is what is tested"
)]
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_readstates"));
    command.args(arguments).env_clear();
    command
}

/// Runs the program: (status, standard output, standard error).
pub fn readstates(arguments: &[&str]) -> (i32, String, String) {
    let output = program(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The same; what finds a store in use is run again, for the writer of a store that was dropped ends a moment later.
pub fn readstates_when_free(arguments: &[&str]) -> (i32, String, String) {
    let mut ran = readstates(arguments);
    for _ in 0..50 {
        if !ran.2.contains(IN_USE) {
            break;
        }
        ran = readstates(arguments);
    }
    ran
}

/// What a member that serves has logged since.
pub struct Log(JoinHandle<Vec<String>>);

impl Log {
    /// All lines, once the process has ended.
    pub fn lines(self) -> Vec<String> {
        self.0.join().unwrap()
    }
}

/// Starts a member by `command`, and waits until it serves: the process, the event in which it says where, its log.
///
/// The log is read for as long as the process lives: one that finds its standard error full would stop.
pub fn start(command: &mut Command) -> (Child, Value, Log) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let serving = loop {
        let mut line = String::new();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it serves");
        let event: Value = serde_json::from_str(&line).expect("a log that is no terminal is JSON");
        if event["message"] == "serving" {
            break event;
        }
    };
    let lines = || log.lines().map(Result::unwrap).collect();
    (child, serving, Log(thread::spawn(lines)))
}
