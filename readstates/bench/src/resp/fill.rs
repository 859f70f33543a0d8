//! Writes every state of a user in one command, as the script leaves them after an acknowledgement in each channel:
//! ten million states are there in seconds, not minutes.

use super::{command, line};
use crate::{
    answer::{Answer, Failure},
    operation::Operation,
    protocol::{Protocol, Read, Unreadable},
};

/// Each request holds all acknowledgements of one user, who has no other states.
#[derive(Debug, Clone, Copy)]
pub struct Fill;

impl Protocol for Fill {
    fn write(&self, operations: &[Operation], output: &mut Vec<u8>) {
        let Some(first) = operations.first() else {
            return;
        };
        let version = operations.len();
        let mut words = vec!["HSET".to_owned(), first.user.to_string()];
        words.extend(["v".to_owned(), version.to_string()]);
        for (version, operation) in (1..).zip(operations) {
            words.push(operation.channel.to_string());
            words.push(format!("{} 0 {version}", operation.message));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        command(&words, output);
    }

    fn read(
        &self,
        operations: &[Operation],
        input: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<Read, Unreadable> {
        let Some((kind, _, length)) = line(input)? else {
            return Ok(Read::Incomplete);
        };
        let answer = match kind {
            // So many fields are new.
            b':' => Answer::Applied,
            b'-' => Answer::Failed(Failure::Redis),
            _ => return Err(Unreadable),
        };
        answers.extend(operations.iter().map(|_| answer));
        Ok(Read::Whole {
            length,
            last: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Kind;

    fn acks() -> [Operation; 2] {
        [20, 21].map(|channel| Operation {
            kind: Kind::Ack,
            user: 7,
            channel,
            message: 300 + channel,
        })
    }

    #[test]
    fn a_user_is_one_command_with_versions_as_the_script_counts_them() {
        let mut output = Vec::new();
        Fill.write(&acks(), &mut output);
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "*8\r\n$4\r\nHSET\r\n$1\r\n7\r\n$1\r\nv\r\n$1\r\n2\r\n$2\r\n20\r\n$7\r\n320 0 1\r\n$2\r\n21\r\n\
             $7\r\n321 0 2\r\n"
        );
    }

    #[test]
    fn one_answer_is_for_all_of_them() {
        for (input, expected) in [
            (&b":3\r\n"[..], Answer::Applied),
            (b"-OOM no memory\r\n", Answer::Failed(Failure::Redis)),
        ] {
            let mut answers = Vec::new();
            for cut in 0..input.len() {
                let read = Fill.read(&acks(), &input[..cut], &mut answers);
                assert_eq!((read, answers.len()), (Ok(Read::Incomplete), 0));
            }
            let whole = Read::Whole {
                length: input.len(),
                last: false,
            };
            assert_eq!(Fill.read(&acks(), input, &mut answers), Ok(whole));
            assert_eq!(answers, vec![expected; 2]);
        }
        assert_eq!(
            Fill.read(&acks(), b"+OK\r\n", &mut Vec::new()),
            Err(Unreadable)
        );
    }
}
