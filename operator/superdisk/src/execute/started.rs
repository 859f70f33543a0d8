//! What became of an array whose `mdadm --assemble` was ended by a signal.
//!
//! mdadm 4.4, which Debian 13 has, uses memory that it has freed when it has started an array whose devices have different
//! event counts (its pull request 207): it crashes after everything is done, and its exit status is lost. sysfs tells what
//! was done.

use std::{os::unix::process::ExitStatusExt, path::Path};

use crate::{command::CommandError, md::ArrayState, sysfs::read};

/// The outcome of starting an array, whose folder in `/sys/block` this is.
pub(super) fn outcome(
    folder: &Path,
    ended: Result<String, CommandError>,
) -> Result<String, CommandError> {
    match ended {
        Err(CommandError::Failed {
            line: _,
            status,
            said,
        }) if status.signal().is_some() && runs(folder) => {
            Ok(format!("it runs, and mdadm ended with {status}: {said}"))
        }
        ended => ended,
    }
}

fn runs(folder: &Path) -> bool {
    let state = read(&folder.join("md/array_state"));
    state.is_ok_and(|state| ArrayState::from_word(&state).is_running())
}

#[cfg(test)]
mod tests {
    use std::{fs, process::ExitStatus};

    use super::*;
    use crate::command::{Line, Program};

    const SIGSEGV: i32 = 11;
    const FAILED: i32 = 1 << 8;

    fn ended(status: i32) -> Result<String, CommandError> {
        Err(CommandError::Failed {
            line: Line {
                program: Program::Mdadm,
                arguments: vec!["--assemble".to_owned()],
            },
            status: ExitStatus::from_raw(status),
            said: "started with 2 drives".to_owned(),
        })
    }

    #[test]
    fn an_array_that_runs_is_started_whatever_signal_has_ended_mdadm() {
        let folder = tempfile::tempdir().unwrap();
        let is_started = |status| outcome(folder.path(), ended(status)).is_ok();
        assert!(!is_started(SIGSEGV), "there is no array");
        fs::create_dir(folder.path().join("md")).unwrap();
        for (state, runs) in [
            ("clear", false),
            ("inactive", false),
            ("broken", false),
            ("clean", true),
            ("active", true),
            ("read-auto", true),
        ] {
            fs::write(folder.path().join("md/array_state"), format!("{state}\n")).unwrap();
            assert_eq!(is_started(SIGSEGV), runs, "{state}");
            assert!(!is_started(FAILED), "mdadm says that it failed: {state}");
        }
    }
}
