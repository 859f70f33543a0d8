//! The end of a check: reads every user that was written, and compares.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use readstates_api::ReadStates;

use crate::{
    check::CheckReport,
    config::Target,
    get::{GetError, get},
    run::Ran,
};

/// Longest that a user cannot be read: a member that was killed is back, or another has its users.
const PATIENCE: Duration = Duration::from_secs(120);
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// Why there is nothing to compare with.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The service does not answer.
    #[error("failed to read user {user} for {PATIENCE:?}")]
    Read {
        user: u64,
        /// What happened last.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is none.
    #[error("the states of user {user} are not what the API says")]
    Answer {
        user: u64,
        source: serde_json::Error,
    },
}

/// Reads what the ledgers of a run name, and compares.
pub(crate) fn check(ran: &Ran, targets: &[Target]) -> Result<CheckReport, SettleError> {
    let ledgers = || {
        ran.threads
            .iter()
            .filter_map(|thread| thread.source.ledger())
    };
    let users: BTreeSet<u64> = ledgers().flat_map(|ledger| ledger.users()).collect();
    let mut read = BTreeMap::new();
    for user in users {
        read.insert(user, read_user(user, targets)?);
    }
    let mut report = CheckReport::default();
    for ledger in ledgers() {
        report.merge(ledger.verify(&read));
    }
    report.users = read.len() as u64;
    Ok(report)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread of a tool, which tries again what failed; there is nothing to wait for"
)]
fn read_user(user: u64, targets: &[Target]) -> Result<ReadStates, SettleError> {
    let path = format!("/v1/users/{user}/read-states");
    let started = Instant::now();
    let mut failed: Option<GetError> = None;
    loop {
        for target in targets {
            for address in &target.addresses {
                match get(*address, target, &path, REQUEST_PATIENCE) {
                    Ok(body) => {
                        let states = serde_json::from_slice(&body);
                        return states.map_err(|source| SettleError::Answer { user, source });
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        if started.elapsed() > PATIENCE
            && let Some(error) = failed.take()
        {
            let source = Box::new(error);
            return Err(SettleError::Read { user, source });
        }
        thread::sleep(PAUSE);
    }
}
