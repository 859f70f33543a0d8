//! The same operations on a Redis server: a hash per user and a Lua script, called by its digest (EVALSHA).
//!
//! Commands are written and answers read by hand, as those of HTTP are: both services are then driven by the
//! same loop at the same cost, and a client library's own queues and tasks do not stand between.

mod fill;

use std::{
    fmt::Write as _,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

pub use fill::Fill;

use crate::{
    answer::{Answer, Failure},
    operation::{Kind, Operation},
    protocol::{Protocol, Read, Unreadable},
};

/// What `ack` and `mention` mean, in Lua.
pub const SCRIPT: &str = include_str!("read_state.lua");

const PATIENCE: Duration = Duration::from_secs(5);

/// Commands to a server that knows the script.
#[derive(Debug, Clone)]
pub struct Resp {
    digest: String,
    /// The changes of a request are followed by one WAIT, and done when a replica has them.
    waits: bool,
}

/// Milliseconds that a replica may take.
const REPLICA_PATIENCE: &str = "5000";

impl Resp {
    /// Has the server load the script.
    ///
    /// # Errors
    /// When it does not.
    pub fn load(address: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut output = Vec::new();
        command(&["SCRIPT", "LOAD", SCRIPT], &mut output);
        stream.write_all(&output)?;
        // A bulk string of 40 hexadecimal digits: $40 CRLF, digits, CRLF.
        let mut answer = [0; 47];
        stream.read_exact(&mut answer)?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        match text
            .strip_prefix("$40\r\n")
            .and_then(|it| it.strip_suffix("\r\n"))
        {
            Some(digest) => Ok(Self {
                digest: digest.to_owned(),
                waits: false,
            }),
            None => Err(io::Error::other(format!(
                "SCRIPT LOAD was answered with {text:?}"
            ))),
        }
    }

    /// Whether changes count as done only when a replica has them, too.
    #[must_use]
    pub fn with_replica(self, waits: bool) -> Self {
        Self { waits, ..self }
    }

    /// Whether a request ends with a WAIT: a read rests on nothing that is waited for.
    fn waits_for(&self, operations: &[Operation]) -> bool {
        self.waits && operations.iter().any(is_change)
    }

    fn write_one(&self, operation: &Operation, output: &mut Vec<u8>) {
        let Operation {
            kind,
            user,
            channel,
            message,
        } = operation;
        let mut numbers = Numbers::default();
        let [user, channel, message] = numbers.texts([*user, *channel, *message]);
        let script = |kind, amount, output: &mut Vec<u8>| {
            let words = [
                "EVALSHA",
                &self.digest,
                "1",
                user,
                kind,
                channel,
                message,
                amount,
            ];
            command(&words, output);
        };
        match kind {
            Kind::Ack => script("ack", "0", output),
            Kind::Mention { amount } => script("mention", &amount.to_string(), output),
            Kind::Read => command(&["HGETALL", user], output),
        }
    }
}

/// Three numbers as text, without a string of its own for each.
#[derive(Default)]
struct Numbers(String);

impl Numbers {
    fn texts(&mut self, numbers: [u64; 3]) -> [&str; 3] {
        let mut ends = [0; 3];
        for (number, end) in numbers.iter().zip(&mut ends) {
            // Into a string, which takes everything.
            let _ = write!(self.0, "{number}");
            *end = self.0.len();
        }
        let text = &self.0;
        [
            &text[..ends[0]],
            &text[ends[0]..ends[1]],
            &text[ends[1]..ends[2]],
        ]
    }
}

fn command(words: &[&str], output: &mut Vec<u8>) {
    // Into a vector, which takes everything.
    let _ = write!(output, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(output, "${}\r\n{word}\r\n", word.len());
    }
}

impl Protocol for Resp {
    fn write(&self, operations: &[Operation], output: &mut Vec<u8>) {
        for operation in operations {
            self.write_one(operation, output);
        }
        if self.waits_for(operations) {
            command(&["WAIT", "1", REPLICA_PATIENCE], output);
        }
    }

    fn read(
        &self,
        operations: &[Operation],
        input: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<Read, Unreadable> {
        let mut length = 0;
        let before = answers.len();
        for operation in operations {
            let Some((answer, more)) = answer(operation, &input[length..])? else {
                answers.truncate(before);
                return Ok(Read::Incomplete);
            };
            answers.push(answer);
            length += more;
        }
        if self.waits_for(operations) {
            let Some((replicas, more)) = replicas(&input[length..])? else {
                answers.truncate(before);
                return Ok(Read::Incomplete);
            };
            length += more;
            let changes = operations.iter().zip(&mut answers[before..]);
            for (_, answer) in changes.filter(|(operation, _)| is_change(operation)) {
                if replicas == 0 {
                    *answer = Answer::Failed(Failure::Redis);
                }
            }
        }
        Ok(Read::Whole {
            length,
            last: false,
        })
    }
}

fn is_change(operation: &Operation) -> bool {
    operation.kind != Kind::Read
}

/// How many replicas a WAIT found, and the length of its answer; `None` while that is not whole.
fn replicas(input: &[u8]) -> Result<Option<(u32, usize)>, Unreadable> {
    match line(input)? {
        None => Ok(None),
        Some((b':', count, length)) => {
            let count = count.parse().map_err(|_| Unreadable)?;
            Ok(Some((count, length)))
        }
        Some(_) => Err(Unreadable),
    }
}

/// The first answer of the input and its length; `None` while it is not whole.
fn answer(operation: &Operation, input: &[u8]) -> Result<Option<(Answer, usize)>, Unreadable> {
    let Some((kind, text, mut length)) = line(input)? else {
        return Ok(None);
    };
    let answer = match (kind, text) {
        (b'-', _) => Answer::Failed(Failure::Redis),
        (b':', "1") if operation.kind != Kind::Read => Answer::Applied,
        (b':', "0") if operation.kind != Kind::Read => Answer::Ignored,
        (b'*', count) if operation.kind == Kind::Read => {
            let count: u32 = count.parse().map_err(|_| Unreadable)?;
            for _ in 0..count {
                match bulk(&input[length..])? {
                    Some(more) => length += more,
                    None => return Ok(None),
                }
            }
            // Fields and values, and the user's version is no state.
            let states = (count / 2).saturating_sub(1);
            Answer::Read { states }
        }
        _ => return Err(Unreadable),
    };
    Ok(Some((answer, length)))
}

/// The type of an answer, the rest of its line, and the length of the line.
fn line(input: &[u8]) -> Result<Option<(u8, &str, usize)>, Unreadable> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return Ok(None);
    };
    let (kind, text) = input[..end].split_first().ok_or(Unreadable)?;
    let text = text.strip_suffix(b"\r").ok_or(Unreadable)?;
    let text = std::str::from_utf8(text).map_err(|_| Unreadable)?;
    Ok(Some((*kind, text, end + 1)))
}

/// The length of a bulk string.
fn bulk(input: &[u8]) -> Result<Option<usize>, Unreadable> {
    match line(input)? {
        None => Ok(None),
        Some((b'$', length, head)) => {
            let length: usize = length.parse().map_err(|_| Unreadable)?;
            let whole = head + length + 2;
            Ok((input.len() >= whole).then_some(whole))
        }
        Some(_) => Err(Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resp() -> Resp {
        Resp {
            digest: "abc".into(),
            waits: false,
        }
    }

    fn operation(kind: Kind) -> Operation {
        Operation {
            kind,
            user: 10,
            channel: 200,
            message: 3000,
        }
    }

    fn read(kind: Kind, input: &[u8]) -> Result<(Read, Vec<Answer>), Unreadable> {
        let mut answers = Vec::new();
        let read = resp().read(&[operation(kind)], input, &mut answers)?;
        Ok((read, answers))
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut output = Vec::new();
        resp().write(&[operation(Kind::Mention { amount: 4 })], &mut output);
        let text = String::from_utf8(output).unwrap();
        assert_eq!(
            text,
            "*8\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$2\r\n10\r\n$7\r\nmention\r\n$3\r\n200\r\n\
             $4\r\n3000\r\n$1\r\n4\r\n"
        );
    }

    #[test]
    fn answers_count_when_they_are_whole_and_for_what_they_say() {
        let states =
            b"*6\r\n$1\r\nv\r\n$1\r\n2\r\n$1\r\n5\r\n$5\r\n7 0 1\r\n$1\r\n6\r\n$5\r\n8 0 2\r\n";
        for (kind, input, expected) in [
            (Kind::Ack, &b":1\r\n"[..], Answer::Applied),
            (Kind::Ack, b":0\r\n", Answer::Ignored),
            (
                Kind::Ack,
                b"-NOSCRIPT No matching script.\r\n",
                Answer::Failed(Failure::Redis),
            ),
            (Kind::Read, states, Answer::Read { states: 2 }),
            (Kind::Read, b"*0\r\n", Answer::Read { states: 0 }),
        ] {
            for cut in 0..input.len() {
                assert_eq!(read(kind, &input[..cut]), Ok((Read::Incomplete, vec![])));
            }
            let whole = Read::Whole {
                length: input.len(),
                last: false,
            };
            assert_eq!(read(kind, input), Ok((whole, vec![expected])));
        }
    }

    #[test]
    fn with_a_replica_a_change_is_done_when_that_one_has_it() {
        let resp = resp().with_replica(true);
        let mut output = Vec::new();
        resp.write(&[operation(Kind::Ack)], &mut output);
        let text = String::from_utf8(output).unwrap();
        assert!(
            text.ends_with("*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n5000\r\n"),
            "{text}"
        );
        let read = |kinds: &[Kind], input: &[u8]| -> Result<(Read, Vec<Answer>), Unreadable> {
            let mut answers = Vec::new();
            let operations: Vec<_> = kinds.iter().map(|&kind| operation(kind)).collect();
            let read = resp.read(&operations, input, &mut answers)?;
            Ok((read, answers))
        };
        let failed = Answer::Failed(Failure::Redis);
        let two = [Kind::Ack, Kind::Ack];
        let told = [Kind::Read, Kind::Ack];
        let nothing = Answer::Read { states: 0 };
        for (kinds, input, expected) in [
            (&two[..1], &b":1\r\n:1\r\n"[..], &[Answer::Applied][..]),
            (&two[..1], b":0\r\n:1\r\n", &[Answer::Ignored]),
            (&two[..1], b":1\r\n:0\r\n", &[failed]),
            (
                &two,
                b":1\r\n:0\r\n:1\r\n",
                &[Answer::Applied, Answer::Ignored],
            ),
            (&two, b":1\r\n:0\r\n:0\r\n", &[failed, failed]),
            (&told, b"*0\r\n:1\r\n:0\r\n", &[nothing, failed]),
            // A read rests on nothing that is waited for.
            (&told[..1], b"*0\r\n", &[nothing]),
        ] {
            for cut in 0..input.len() {
                let cut = read(kinds, &input[..cut]);
                assert_eq!(cut, Ok((Read::Incomplete, vec![])));
            }
            let whole = Read::Whole {
                length: input.len(),
                last: false,
            };
            assert_eq!(read(kinds, input), Ok((whole, expected.to_vec())));
        }
        assert_eq!(read(&two[..1], b":1\r\n+OK\r\n"), Err(Unreadable));
    }

    #[test]
    fn what_is_no_answer_to_the_command_is_unreadable() {
        for input in [
            &b"hello\n"[..],
            b":2\r\n",
            b"+OK\r\n",
            b"*1\r\n:1\r\n",
            b"\n",
        ] {
            assert_eq!(read(Kind::Ack, input), Err(Unreadable));
        }
    }
}
