//! The agent's socket for snapshots: a unix socket in the state folder, one request and one answer a connection, each a
//! line of JSON.
//!
//! It is for programs of the same user on this node, which is root: nobody else may open it, and nobody else is
//! listened to. At most `MOST` at a time are, and each has to say what it wants within `PATIENCE`.

use std::{
    fs::{self, Permissions},
    io::{self, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    log::say,
    snapshot::{
        SnapshotId,
        wire::{Answer, Code, REQUEST_BYTES, Refusal, Request},
    },
};

/// Connections at a time; one more is refused.
const MOST: usize = 4;
/// How long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);

/// An answer, and what it obliges to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What is said.
    pub answer: Answer,
    /// The snapshot that was frozen for this answer: it is let go when nobody hears the answer.
    pub owed: Option<SnapshotId>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self { answer, owed: None }
    }
}

/// What answers.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request; may take long.
    fn answer(&self, request: Request) -> Reply;
    /// Nobody heard the answer that was owed.
    fn caller_gone(&self, id: SnapshotId);
}

/// Begins to listen. The caller holds the volume's claim, so that a socket that is there already is a dead agent's.
///
/// # Errors
/// When the folder cannot be used.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves until the process ends. Errors of single connections concern their callers only.
pub fn serve(listener: &UnixListener, handler: impl Handler) {
    let handler = Arc::new(handler);
    // One reference for each connection, besides ours.
    for stream in listener.incoming().flatten() {
        if Arc::strong_count(&handler) > MOST {
            let _ = write(&stream, &busy());
            continue;
        }
        let handler = Arc::clone(&handler);
        // Ends with its request, or with the process: what hangs in a disk cannot be ended otherwise.
        thread::spawn(move || {
            if let Err(error) = converse(&stream, &*handler) {
                say(&format!(
                    "a caller of the agent's socket was not answered: {error}"
                ));
            }
        });
    }
}

fn converse(stream: &UnixStream, handler: &impl Handler) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    if peer.uid != rustix::process::geteuid() {
        return Err(io::Error::other("it is another user's"));
    }
    let reply = match read(stream)? {
        Ok(request) => handler.answer(request),
        Err(why) => bad_request(&why).into(),
    };
    let written = write(stream, &reply.answer);
    if let (Err(_), Some(id)) = (&written, reply.owed) {
        handler.caller_gone(id);
    }
    written
}

/// One line, within the time and the length for it.
fn read(mut stream: &UnixStream) -> io::Result<Result<Request, String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    let mut buffer = [0; REQUEST_BYTES];
    while !line.contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(Err("the line has no end".to_owned()));
        }
        line.extend(&buffer[..count]);
        if line.len() > REQUEST_BYTES {
            return Ok(Err(format!("it is longer than {REQUEST_BYTES} bytes")));
        }
    }
    Ok(serde_json::from_slice(&line).map_err(|error| error.to_string()))
}

fn write(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Another request is being carried out.
#[must_use]
pub(super) fn busy() -> Answer {
    Answer::Refused(Refusal::new(
        Code::Busy,
        "The agent is carrying out another request",
        "Ask again in some seconds; `superdisk snapshot status` says which snapshot is under way",
    ))
}

fn bad_request(why: &str) -> Answer {
    Answer::Refused(Refusal::new(
        Code::BadRequest,
        format!("The agent does not understand the request: {why}"),
        "Use the `superdisk` of the agent's own container",
    ))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        path::PathBuf,
        sync::mpsc,
    };

    use tempfile::TempDir;

    use super::*;
    use crate::snapshot::wire::{Open, socket_path};

    /// Answers a begin when it is told to, and says who was gone.
    struct Slow {
        go_on: std::sync::Mutex<mpsc::Receiver<()>>,
        gone: mpsc::Sender<SnapshotId>,
    }

    fn begun(id: SnapshotId) -> Answer {
        Answer::Begun(Open {
            id,
            generation: 7,
            left_millis: 1,
        })
    }

    impl Handler for Slow {
        fn answer(&self, request: Request) -> Reply {
            match request {
                Request::Begin { id } => {
                    self.go_on.lock().unwrap().recv().unwrap();
                    Reply {
                        answer: begun(id.clone()),
                        owed: Some(id),
                    }
                }
                Request::End { .. } | Request::Status => busy().into(),
            }
        }

        fn caller_gone(&self, id: SnapshotId) {
            self.gone.send(id).unwrap();
        }
    }

    struct Agent {
        _folder: TempDir,
        path: PathBuf,
        go_on: mpsc::Sender<()>,
        gone: mpsc::Receiver<SnapshotId>,
    }

    fn agent() -> Agent {
        let folder = TempDir::new().unwrap();
        let path = socket_path(folder.path(), "vol");
        let listener = listen(&path).unwrap();
        let (go_on, receiver) = mpsc::channel();
        let (sender, gone) = mpsc::channel();
        let slow = Slow {
            go_on: receiver.into(),
            gone: sender,
        };
        // Ends with the tests' process.
        thread::spawn(move || serve(&listener, slow));
        Agent {
            _folder: folder,
            path,
            go_on,
            gone,
        }
    }

    fn say_to(agent: &Agent, text: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&agent.path).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn heard(stream: UnixStream) -> Answer {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn code(answer: &Answer) -> Code {
        match answer {
            Answer::Refused(refusal) => refusal.code,
            other => panic!("{other:?}"),
        }
    }

    const BEGIN: &str = "{\"request\":\"begin\",\"id\":\"s\"}\n";

    #[test]
    fn only_its_user_may_open_it_and_a_dead_agents_socket_is_replaced() {
        let folder = TempDir::new().unwrap();
        let path = socket_path(folder.path(), "vol");
        for _ in 0..2 {
            drop(listen(&path).unwrap());
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn one_line_is_answered_with_one_line() {
        let agent = agent();
        agent.go_on.send(()).unwrap();
        let answer = heard(say_to(&agent, BEGIN));
        assert_eq!(answer, begun("s".parse().unwrap()));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let agent = agent();
        let long = format!("{}\n", "x".repeat(REQUEST_BYTES));
        for text in ["mend it\n", "{\"request\":\"mend\"}\n", &long] {
            let answer = heard(say_to(&agent, text));
            assert_eq!(code(&answer), Code::BadRequest, "{text}");
        }
        let stream = say_to(&agent, "{");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(code(&heard(stream)), Code::BadRequest);
    }

    #[test]
    fn a_caller_that_says_nothing_is_hung_up_on() {
        let agent = agent();
        let mut silent = say_to(&agent, "{");
        let began = Instant::now();
        assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
        assert!(began.elapsed() < 10 * PATIENCE);
    }

    #[test]
    fn more_callers_than_can_be_listened_to_are_refused() {
        let agent = agent();
        let waiting: Vec<UnixStream> = (0..MOST).map(|_| say_to(&agent, BEGIN)).collect();
        // Before it has said anything.
        let one_more = UnixStream::connect(&agent.path).unwrap();
        assert_eq!(code(&heard(one_more)), Code::Busy);
        for _ in &waiting {
            agent.go_on.send(()).unwrap();
        }
        for stream in waiting {
            assert!(matches!(heard(stream), Answer::Begun(_)));
        }
    }

    #[test]
    fn a_caller_that_is_gone_before_its_answer_is_told_of() {
        let agent = agent();
        drop(say_to(&agent, BEGIN));
        agent.go_on.send(()).unwrap();
        let gone = agent.gone.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(gone.as_str(), "s");
    }
}
