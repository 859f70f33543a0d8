//! Before the database's container is stopped: has the engine write what is in memory and say goodbye, while clients learn
//! that they should no longer connect. Run by the kubelet in the database's container; it needs no shell there.

use std::{future::Future, time::Duration};

use tokio::time::sleep;

use crate::{
    args::DrainArgs,
    engine::{Access, EngineError, Profile},
};

/// Drains, and waits at least as long as asked to, whatever came of it: endpoints are taken away meanwhile.
///
/// # Errors
/// When the engine does not drain. The kubelet reports that as an event and stops the container all the same.
pub(super) async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let DrainArgs {
        engine,
        nodetool,
        admin,
        linger_seconds,
    } = args;
    let linger = Duration::from_secs(linger_seconds);
    let access = Access {
        admin,
        nodetool,
        address: None,
    };
    let node = (Profile::of(engine).reach)(access)?;
    Ok(both(node.drain(), linger).await?)
}

async fn both(
    drain: impl Future<Output = Result<(), EngineError>>,
    linger: Duration,
) -> Result<(), EngineError> {
    let (drained, ()) = tokio::join!(drain, sleep(linger));
    drained
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, path::Path};

    use clap::Parser;

    use super::*;
    use crate::args::AgentCommand;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: AgentCommand,
    }

    fn args(folder: &Path, script: &str) -> DrainArgs {
        let nodetool = folder.join("nodetool");
        std::fs::write(&nodetool, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&nodetool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let line = [
            "agent",
            "drain",
            "--engine",
            "cassandra",
            "--admin",
            "127.0.0.1:7199",
            "--linger-seconds",
            "0",
            "--nodetool",
            nodetool.to_str().unwrap(),
        ];
        match Line::parse_from(line).command {
            AgentCommand::Drain(args) => args,
            other @ (AgentCommand::Prepare(_) | AgentCommand::Serve(_)) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn cassandra_is_drained_by_its_nodetool_and_a_failure_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let script = format!("echo \"$@\" > {}", told.display());
        drain(args(folder.path(), &script)).await.unwrap();
        assert_eq!(std::fs::read_to_string(told).unwrap(), "drain\n");
        let script = "echo 'error: refused' >&2; exit 1";
        let failed = drain(args(folder.path(), script)).await;
        assert_eq!(failed.unwrap_err().to_string(), "refused");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_have_their_time_even_if_the_drain_is_quick_or_fails() {
        let linger = Duration::from_secs(5);
        for drained in [Ok(()), Err(EngineError::Refused("no".to_owned()))] {
            let begun = tokio::time::Instant::now();
            let is_ok = drained.is_ok();
            assert_eq!(both(async { drained }, linger).await.is_ok(), is_ok);
            assert_eq!(begun.elapsed(), linger);
        }
    }
}
