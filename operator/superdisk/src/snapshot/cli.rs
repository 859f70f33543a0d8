//! `superdisk snapshot`: asks the agent of a volume on this node, and says what it answers.

use std::{
    error::Error,
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use super::{
    BadSnapshotId, SnapshotId,
    wire::{Answer, Code, Open, Past, Request},
};
use crate::{
    agent::{cli::Output, socket},
    identify::Disk,
    spec::{BadVolumeUid, VolumeUid},
};

/// How long an answer may take: what is in memory is written to the network disk first.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest answer that is read: two snapshots and some sentences.
const ANSWER_BYTES: u64 = 8 << 10;
const EXIT_REFUSED: u8 = 3;

/// Flags of `superdisk snapshot`.
#[derive(Debug, clap::Args)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Freeze the filesystem at a moment whose header names the snapshot, for at most 10 s. Make the snapshot of the
    /// network disk then.
    Begin(Named),
    /// Thaw it once the snapshot was cut. Exit status 1 if it did not stay frozen until now: make another snapshot then.
    End(Named),
    /// Show which snapshot holds the filesystem, and whether the one before is proven.
    Status(Of),
}

#[derive(Debug, clap::Args)]
struct Named {
    /// Name of the snapshot, for this moment and no other: the UID of a VolumeSnapshot, for example.
    #[arg(long, value_name = "ID", value_parser = id)]
    id: SnapshotId,

    #[command(flatten)]
    of: Of,
}

#[derive(Debug, clap::Args)]
struct Of {
    /// UID of the volume.
    #[arg(long, value_name = "UID", value_parser = volume, required_unless_present = "disk")]
    volume_uid: Option<VolumeUid>,

    /// File that `superdisk identify` wrote; replaces --volume-uid.
    #[arg(long, value_name = "FILE", conflicts_with = "volume_uid")]
    disk: Option<PathBuf>,

    /// Folder of the agent's socket.
    #[arg(long, value_name = "PATH", default_value = "/run/superdisk")]
    state_dir: PathBuf,

    /// Format of standard output.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

fn id(text: &str) -> Result<SnapshotId, BadSnapshotId> {
    text.parse()
}

fn volume(text: &str) -> Result<VolumeUid, BadVolumeUid> {
    text.parse()
}

/// The agent was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
#[error("failed to ask the agent of {volume} at {path}; it has to run in this pod")]
struct AskError {
    volume: VolumeUid,
    path: PathBuf,
    source: io::Error,
}

impl SnapshotArgs {
    /// Asks, and says what was answered.
    ///
    /// # Errors
    /// When the agent cannot be asked.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let (of, request) = match &self.what {
            What::Begin(Named { id, of }) => (of, Request::Begin { id: id.clone() }),
            What::End(Named { id, of }) => (of, Request::End { id: id.clone() }),
            What::Status(of) => (of, Request::Status),
        };
        let Of {
            volume_uid,
            disk,
            state_dir,
            output,
        } = of;
        let volume = match volume_uid {
            Some(volume) => volume.clone(),
            None => Disk::read(disk.as_deref().unwrap_or(Path::new("")))?.volume,
        };
        let path = socket::path(state_dir, volume.as_str());
        let answer = ask(&path, &request).map_err(|source| AskError {
            volume,
            path,
            source,
        })?;
        let Said {
            stdout,
            stderr,
            status,
        } = said(&answer);
        match output {
            Output::Human => print!("{stdout}"),
            Output::Json => println!("{}", serde_json::to_string(&answer)?),
        }
        eprint!("{stderr}");
        Ok(ExitCode::from(status))
    }
}

fn ask(path: &Path, request: &Request) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    // An agent that listens to enough others has answered and hung up already.
    let asked = stream.write_all(&line);
    let mut answer = String::new();
    let read = BufReader::new(stream.take(ANSWER_BYTES)).read_line(&mut answer);
    if answer.is_empty() {
        asked?;
        read?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}

/// What a caller sees.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    stdout: String,
    stderr: String,
    status: u8,
}

fn said(answer: &Answer) -> Said {
    let good = |text: &dyn fmt::Display| Said {
        stdout: format!("{text}\n"),
        stderr: String::new(),
        status: 0,
    };
    let bad = |status, text: &dyn fmt::Display| Said {
        stdout: String::new(),
        stderr: format!("{text}\n"),
        status,
    };
    match answer {
        Answer::Begun(Open {
            id,
            generation,
            left_millis,
        }) => good(&format!(
            "the snapshot {id} is begun: generation {generation}, frozen for {} at most\n\
             make the snapshot of the network disk now, then run `superdisk snapshot end --id {id}`",
            seconds(*left_millis)
        )),
        Answer::Ended(Past {
            id,
            generation,
            lost: None,
        }) => good(&format!(
            "the snapshot {id} is proven: it was frozen until its end, at generation {generation}"
        )),
        Answer::Ended(Past {
            id,
            generation: _,
            lost: Some(loss),
        }) => bad(
            1,
            &format!(
                "{} The snapshot {id} was not frozen until its end: {loss}. Delete it, and begin one with another ID.",
                Code::NotProven.as_str()
            ),
        ),
        Answer::Status {
            open,
            under_way,
            last,
        } => good(&status(open.as_ref(), under_way.as_ref(), last.as_ref())),
        Answer::Refused(refusal) => bad(EXIT_REFUSED, refusal),
        Answer::Failed { id, why } => bad(
            1,
            &format!(
                "{} The snapshot {id} could not be begun: {why}. The filesystem takes writes as before. Ask again; if it \
                 fails again, `superdisk status` says what is wrong with the disks.",
                Code::Failed.as_str()
            ),
        ),
    }
}

fn status(open: Option<&Open>, under_way: Option<&SnapshotId>, last: Option<&Past>) -> String {
    let now = match (open, under_way) {
        (Some(open), _) => format!(
            "the snapshot {} holds the filesystem for {} more, at generation {}",
            open.id,
            seconds(open.left_millis),
            open.generation
        ),
        (None, Some(id)) => format!("the snapshot {id} is being begun or ended"),
        (None, None) => "no snapshot holds the filesystem".to_owned(),
    };
    match last {
        None => now,
        Some(Past {
            id,
            generation,
            lost: None,
        }) => format!("{now}\nthe last one, {id} of generation {generation}, is proven"),
        Some(Past {
            id,
            generation,
            lost: Some(loss),
        }) => {
            format!("{now}\nthe last one, {id} of generation {generation}, is not proven: {loss}")
        }
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::{super::wire::Refusal, *};
    use crate::snapshot::wire::Loss;

    fn past(lost: Option<Loss>) -> Past {
        Past {
            id: "s".parse().unwrap(),
            generation: 7,
            lost,
        }
    }

    #[test]
    fn what_is_held_and_what_is_proven_exits_0() {
        let open = Open {
            id: "s".parse().unwrap(),
            generation: 7,
            left_millis: 9_870,
        };
        let begun = said(&Answer::Begun(open));
        assert_eq!((begun.status, &*begun.stderr), (0, ""));
        assert!(begun.stdout.contains("generation 7, frozen for 9.8 s"));
        let ended = said(&Answer::Ended(past(None)));
        assert_eq!((ended.status, &*ended.stderr), (0, ""));
    }

    #[test]
    fn what_is_not_proven_exits_1_and_says_what_to_do() {
        let said = said(&Answer::Ended(past(Some(Loss::TimeOver))));
        assert_eq!((said.status, &*said.stdout), (1, ""));
        assert_eq!(
            said.stderr,
            "E_SNAPSHOT_NOT_PROVEN The snapshot s was not frozen until its end: its end came more than 10 s after its \
             begin, and the agent had thawed by then. Delete it, and begin one with another ID.\n"
        );
    }

    #[test]
    fn a_refusal_exits_3_with_its_code_first() {
        let refusal = Refusal::new(Code::Busy, "Another one is held", "End it first");
        let said = said(&Answer::Refused(refusal));
        assert_eq!(
            (said.status, &*said.stderr),
            (3, "E_SNAPSHOT_BUSY Another one is held. End it first.\n")
        );
    }

    #[test]
    fn status_is_a_line_about_now_and_one_about_the_last() {
        assert_eq!(status(None, None, None), "no snapshot holds the filesystem");
        let id = "t".parse().unwrap();
        assert_eq!(
            status(None, Some(&id), Some(&past(Some(Loss::Thawed)))),
            "the snapshot t is being begun or ended\n\
             the last one, s of generation 7, is not proven: something else thawed the filesystem before its end"
        );
    }

    #[test]
    fn without_an_agent_the_error_names_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let args = SnapshotArgs {
            what: What::Status(Of {
                volume_uid: Some("vol".parse().unwrap()),
                disk: None,
                state_dir: folder.path().to_owned(),
                output: Output::Human,
            }),
        };
        let error = args.run().unwrap_err().to_string();
        let path = folder.path().join("vol.sock");
        assert_eq!(
            error,
            format!(
                "failed to ask the agent of vol at {}; it has to run in this pod",
                path.display()
            )
        );
    }
}
