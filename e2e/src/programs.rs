//! Starts kubectl and helm: the only place of these tests that starts programs.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

/// Above every `--timeout` that the tests give to a program: 20 minutes.
const LIMIT: Duration = Duration::from_mins(25);

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    command: String,
    succeeded: bool,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// What it printed, when it succeeded.
    ///
    /// # Errors
    /// The command and what it said, when it did not.
    pub fn success(self) -> Result<String> {
        if !self.succeeded {
            bail!("`{}` failed: {}{}", self.command, self.stdout, self.stderr);
        }
        Ok(self.stdout)
    }

    /// Whether it failed because an API server of a busy machine ran out of time: the same may be asked again.
    #[must_use]
    pub fn ran_out_of_time(&self) -> bool {
        let words = "request did not complete within requested timeout";
        !self.succeeded && self.stderr.contains(words)
    }

    /// What it printed, however it ended.
    #[must_use]
    pub fn printed(self) -> String {
        self.stdout
    }

    /// What it complained about, when it failed as it should.
    ///
    /// # Errors
    /// When it succeeded.
    pub fn refusal(self) -> Result<String> {
        if self.succeeded {
            bail!(
                "`{}` succeeded and should have been refused: {}",
                self.command,
                self.stdout
            );
        }
        Ok(self.stderr)
    }
}

/// Runs a program against the cluster of `kubeconfig` and waits for its end.
pub(crate) async fn run(
    program: &Path,
    kubeconfig: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<Ran> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let command = format!("{name} {}", arguments.join(" "));
    println!("    $ {command}");
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("failed to start {}", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read closes its end: that is its right.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = timeout(LIMIT, child.wait_with_output())
        .await
        .with_context(|| format!("`{command}` did not end within {LIMIT:?}"))?
        .with_context(|| format!("failed to run `{command}`"))?;
    Ok(Ran {
        command,
        succeeded: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
