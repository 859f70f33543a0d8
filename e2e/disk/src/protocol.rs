//! Messages between the test and the guest: one JSON object per line, in both directions.

use serde::{Deserialize, Serialize};

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Comes back in the answer; each order of a boot has its own.
    pub id: u64,
    /// A shell command.
    pub run: String,
    /// How long it may take, in seconds; it is killed then.
    pub limit_s: u64,
}

/// What the guest says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It has come up and takes orders.
    Up,
    /// A command has ended.
    Ended(Ended),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The order's.
    pub id: u64,
    /// The exit status; 128 and more after a signal, as a shell has it.
    pub status: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}
