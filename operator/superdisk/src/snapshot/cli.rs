//! `superdisk snapshot`: asks the agent of a volume on this node, and says what it answers.

mod words;

use std::{
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use words::{Said, said};

use super::{
    BadSnapshotId, SnapshotId,
    wire::{Answer, Request, socket_path},
};
use crate::{
    arguments::Output,
    identify::Disk,
    spec::{BadVolumeUid, VolumeUid},
};

/// How long an answer may take: what is in memory is written to the network disk first.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest answer that is read: two snapshots and some sentences.
const ANSWER_BYTES: u64 = 8 << 10;

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
        let path = socket_path(state_dir, volume.as_str());
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

#[cfg(test)]
mod tests {
    use super::*;

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
