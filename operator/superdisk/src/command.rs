//! The only place that starts programs: by absolute path, with a cleared environment, a time to end in, and
//! nothing to read. What they say is kept for people and never parsed.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Where programs are looked for.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// How long a program that was killed may take to go: it may hang in the kernel, on a disk that does.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// The programs that a super-disk is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Makes, starts, changes and stops arrays.
    Mdadm,
    /// Removes signatures.
    Wipefs,
    /// Makes an xfs.
    MkfsXfs,
    /// Makes an ext4.
    MkfsExt4,
    /// Grows an xfs.
    XfsGrowfs,
    /// Grows an ext4.
    Resize2fs,
    /// Stops and lets go on the writes to a filesystem.
    Fsfreeze,
}

impl Program {
    /// Its file name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mdadm => "mdadm",
            Self::Wipefs => "wipefs",
            Self::MkfsXfs => "mkfs.xfs",
            Self::MkfsExt4 => "mkfs.ext4",
            Self::XfsGrowfs => "xfs_growfs",
            Self::Resize2fs => "resize2fs",
            Self::Fsfreeze => "fsfreeze",
        }
    }

    /// How long it may take. Making a filesystem writes to the network disk; stopping an array waits for it.
    fn time(self) -> Duration {
        match self {
            // Freezing writes everything that is in memory first, and hangs when that does.
            Self::Wipefs | Self::Fsfreeze => Duration::from_secs(60),
            Self::Mdadm => Duration::from_secs(180),
            Self::MkfsXfs | Self::MkfsExt4 | Self::XfsGrowfs | Self::Resize2fs => {
                Duration::from_secs(900)
            }
        }
    }
}

/// A program and its arguments: what is done, and what is shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub program: Program,
    pub arguments: Vec<String>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program.name())?;
        for argument in &self.arguments {
            write!(f, " {argument}")?;
        }
        Ok(())
    }
}

/// A program did not do what it was started for.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It is in none of the folders.
    #[error("{} is in none of {}", .0.name(), FOLDERS.join(", "))]
    NotFound(Program),
    /// It could not be started or waited for.
    #[error("failed to run {line}")]
    Start {
        /// Which command.
        line: Line,
        source: io::Error,
    },
    /// It ended with an error.
    #[error("{line} ended with {status} and said: {said}")]
    Failed {
        /// Which command.
        line: Line,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote, on one line.
        said: String,
    },
    /// It took too long, and was killed.
    #[error("{line} did not end within {} s and was killed", .time.as_secs())]
    TimedOut {
        /// Which command.
        line: Line,
        time: Duration,
    },
}

/// Starts programs.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    _private: (),
}

impl Commands {
    /// Programs of this system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a program to its end; gives what it wrote, for the log.
    pub fn run(&self, line: &Line) -> Result<String, CommandError> {
        self.run_within(line, line.program.time())
    }

    /// The same, within a time of the caller's.
    pub fn run_within(&self, line: &Line, time: Duration) -> Result<String, CommandError> {
        let path = find(line.program).ok_or(CommandError::NotFound(line.program))?;
        self.run_at(&path, line, time)
    }

    fn run_at(&self, path: &Path, line: &Line, time: Duration) -> Result<String, CommandError> {
        let start = |source| CommandError::Start {
            line: line.clone(),
            source,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that starts programs"
        )]
        let mut command = Command::new(path);
        let child = command
            .args(&line.arguments)
            .env_clear()
            .env("LC_ALL", "C")
            // mdadm then makes device nodes itself instead of waiting for a udev that a container has not.
            .env("MDADM_NO_UDEV", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        let pid = rustix::process::Pid::from_child(&child);
        let (sender, receiver) = mpsc::sync_channel(1);
        // Ends with the child; a child that cannot even be killed keeps it, and is reported.
        thread::spawn(move || sender.send(child.wait_with_output()));
        let output = match receiver.recv_timeout(time) {
            Ok(output) => output.map_err(start)?,
            Err(mpsc::RecvTimeoutError::Timeout | mpsc::RecvTimeoutError::Disconnected) => {
                // It may have ended just now, or hang in the kernel: both are told as a time-out.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                let _ = receiver.recv_timeout(KILL_GRACE);
                return Err(CommandError::TimedOut {
                    line: line.clone(),
                    time,
                });
            }
        };
        let said = one_line(&output.stdout, &output.stderr);
        if output.status.success() {
            return Ok(said);
        }
        Err(CommandError::Failed {
            line: line.clone(),
            status: output.status,
            said,
        })
    }
}

fn find(program: Program) -> Option<PathBuf> {
    let mut paths = FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join(program.name()));
    paths.find(|path| path.exists())
}

fn one_line(stdout: &[u8], stderr: &[u8]) -> String {
    let text = [stderr, stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let lines: Vec<&str> = text
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Line {
        Line {
            program: Program::Mdadm,
            arguments: vec!["-c".to_owned(), script.to_owned()],
        }
    }

    fn run(script: &str, time: Duration) -> Result<String, CommandError> {
        Commands::new().run_at(Path::new("/bin/sh"), &sh(script), time)
    }

    #[test]
    fn a_program_sees_nothing_of_our_environment() {
        let said = run("echo $HOME-$CARGO-$MDADM_NO_UDEV", Duration::from_secs(10)).unwrap();
        assert_eq!(said, "--1");
    }

    #[test]
    fn what_a_failing_program_says_is_kept() {
        let error = run(
            "echo first; echo second >&2; exit 4",
            Duration::from_secs(10),
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("exit status: 4 and said: second; first"),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let error = run("exec sleep 60", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
    }
}
