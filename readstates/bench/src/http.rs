//! Operations as HTTP/1.1 requests, one by one or as batch frames.
//!
//! Written by hand: the generator shares the machine with what it measures, and a general client takes
//! several times the instructions per request. What is read is checked: the status, that the body is as
//! long as announced, and that it says what an answer to this request says.

use std::io::Write;

use memchr::memmem;
use readstates_api::{batch, rows};

use crate::{
    answer::{Answer, Failure},
    frame,
    operation::{Kind, Operation},
    protocol::{Protocol, Read, Unreadable},
    secure::Head,
};

/// More headers than a member or a proxy sends.
const MOST_HEADERS: usize = 64;

/// Bodies are written behind heads that announce their length: with this many digits.
const LENGTH_DIGITS: usize = 10;

/// Requests to one host.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    head: Head,
    batch: bool,
    rows: bool,
}

impl Http {
    /// Requests to one host, with these lines in every head; all operations of a request in one batch frame, or
    /// each request of one operation.
    #[must_use]
    pub(crate) fn new(head: Head, batch: bool) -> Self {
        Self {
            head,
            batch,
            rows: false,
        }
    }

    /// The same, with states in binary where this says so.
    #[must_use]
    pub(crate) fn with_rows(self, rows: bool) -> Self {
        Self { rows, ..self }
    }

    fn post(&self, path: std::fmt::Arguments<'_>, kind: &str, output: &mut Vec<u8>) -> usize {
        let head = &self.head;
        // Into a vector, which takes everything.
        let _ = write!(
            output,
            "POST {path} HTTP/1.1\r\n{head}content-type: {kind}\r\ncontent-length: "
        );
        let length_at = output.len();
        output.extend_from_slice(&[b'0'; LENGTH_DIGITS]);
        output.extend_from_slice(b"\r\n\r\n");
        length_at
    }

    fn write_one(&self, operation: &Operation, output: &mut Vec<u8>) {
        let Operation {
            kind,
            user,
            channel,
            message,
        } = operation;
        const JSON: &str = "application/json";
        match kind {
            Kind::Ack => {
                let path = format_args!("/v1/users/{user}/read-states/{channel}/ack");
                let length_at = self.post(path, JSON, output);
                let _ = write!(output, "{{\"message_id\":\"{message}\"}}");
                fill_in_length(length_at, output);
            }
            Kind::Mention { amount } => {
                let length_at = self.post(format_args!("/v1/mentions"), JSON, output);
                let _ = write!(
                    output,
                    "{{\"channel_id\":\"{channel}\",\"message_id\":\"{message}\",\
                     \"user_ids\":[\"{user}\"],\"count\":{amount}}}"
                );
                fill_in_length(length_at, output);
            }
            Kind::Read => {
                let head = &self.head;
                let _ = write!(
                    output,
                    "GET /v1/users/{user}/read-states HTTP/1.1\r\n{head}"
                );
                if self.rows {
                    let _ = write!(output, "accept: {}\r\n", rows::MEDIA_TYPE);
                }
                output.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// A length may have leading zeros (RFC 9110, 8.6: `1*DIGIT`).
fn fill_in_length(length_at: usize, output: &mut [u8]) {
    let mut length = output.len() - (length_at + LENGTH_DIGITS + b"\r\n\r\n".len());
    for digit in output[length_at..length_at + LENGTH_DIGITS]
        .iter_mut()
        .rev()
    {
        *digit = b'0' + (length % 10) as u8;
        length /= 10;
    }
}

impl Protocol for Http {
    fn write(&self, operations: &[Operation], output: &mut Vec<u8>) {
        if self.batch {
            let length_at = self.post(format_args!("/v1/batch"), batch::MEDIA_TYPE, output);
            frame::encode(operations, output);
            fill_in_length(length_at, output);
        } else {
            for operation in operations {
                self.write_one(operation, output);
            }
        }
    }

    fn read(
        &self,
        operations: &[Operation],
        input: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<Read, Unreadable> {
        let Some(Response {
            status,
            head,
            length,
            last,
        }) = parse(input)?
        else {
            return Ok(Read::Incomplete);
        };
        let body = &input[head..head + length];
        if status != 200 {
            let failed = Answer::Failed(Failure::Status(status));
            answers.extend(operations.iter().map(|_| failed));
        } else if self.batch {
            frame::decode(body, operations.len(), answers)?;
        } else {
            for operation in operations {
                answers.push(match operation.kind {
                    Kind::Read if self.rows => read_rows(body)?,
                    Kind::Ack | Kind::Mention { .. } | Kind::Read => answer(operation, body)?,
                });
            }
        }
        Ok(Read::Whole {
            length: head + length,
            last,
        })
    }
}

/// What a whole response is made of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Bytes before the body.
    pub(crate) head: usize,
    /// Bytes of the body.
    pub(crate) length: usize,
    /// The server closes the connection after it.
    pub(crate) last: bool,
}

/// Reads the first response; `None` while it is not whole.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Response>, Unreadable> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(input) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Unreadable),
    };
    let status = response.code.ok_or(Unreadable)?;
    let mut length = None;
    let mut last = response.version == Some(0);
    for header in &*response.headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).map_err(|_| Unreadable)?;
            length = Some(text.trim().parse().map_err(|_| Unreadable)?);
        } else if header.name.eq_ignore_ascii_case("connection") {
            last |= header.value.eq_ignore_ascii_case(b"close");
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            // Members do not send chunks: a server that does is no member.
            return Err(Unreadable);
        }
    }
    let bodyless = status == 204 || status == 304;
    let length = match length {
        _ if bodyless => 0,
        Some(length) => length,
        None => return Err(Unreadable),
    };
    let whole = input.len() - head >= length;
    Ok(whole.then_some(Response {
        status,
        head,
        length,
        last,
    }))
}

/// What a 200 says of an operation. Only the words that differ are looked for: a parser of the whole would
/// take longer than the request.
fn answer(operation: &Operation, body: &[u8]) -> Result<Answer, Unreadable> {
    let says = |words: &str| memmem::find(body, words.as_bytes()).is_some();
    let either = |applied, ignored| match (says(applied), says(ignored)) {
        (true, false) => Ok(Answer::Applied),
        (false, true) => Ok(Answer::Ignored),
        (true, true) | (false, false) => Err(Unreadable),
    };
    match operation.kind {
        Kind::Ack => either("\"applied\":true", "\"applied\":false"),
        Kind::Mention { .. } if says("\"failed\":[]") => either("\"applied\":1", "\"ignored\":1"),
        // Failed for this user; the request may be sent again.
        Kind::Mention { .. } if says("/problems/outcome-unknown") => {
            Ok(Answer::Failed(Failure::OutcomeUnknown))
        }
        Kind::Mention { .. } if says("\"failed\":[{") => Ok(Answer::Failed(Failure::NotTaken)),
        Kind::Mention { .. } => Err(Unreadable),
        Kind::Read if says("\"read_states\":[") => {
            let states = memmem::find_iter(body, "\"channel_id\"").count();
            let states = u32::try_from(states).map_err(|_| Unreadable)?;
            Ok(Answer::Read { states })
        }
        Kind::Read => Err(Unreadable),
    }
}

/// The header of rows, and their length; who asked for rows and got JSON measures something else.
fn read_rows(body: &[u8]) -> Result<Answer, Unreadable> {
    let states = body.get(8..12).and_then(|count| count.try_into().ok());
    let states = u32::from_le_bytes(states.ok_or(Unreadable)?);
    let length = rows::HEADER_BYTES + rows::ROW_BYTES * states as usize;
    let whole = body.starts_with(b"RSL1") && body.len() == length;
    whole.then_some(Answer::Read { states }).ok_or(Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> Http {
        Http::new(Head::new("host:1", None), false)
    }

    fn operation(kind: Kind) -> Operation {
        Operation {
            kind,
            user: 1,
            channel: 2,
            message: 3,
        }
    }

    fn response(status: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    }

    fn read(kind: Kind, input: &[u8]) -> Result<(Read, Vec<Answer>), Unreadable> {
        let mut answers = Vec::new();
        let read = http().read(&[operation(kind)], input, &mut answers)?;
        Ok((read, answers))
    }

    #[test]
    fn requests_are_as_the_api_has_them() {
        let text = |kind| {
            let mut output = Vec::new();
            http().write(&[operation(kind)], &mut output);
            String::from_utf8(output).unwrap()
        };
        assert_eq!(
            text(Kind::Ack),
            "POST /v1/users/1/read-states/2/ack HTTP/1.1\r\nhost: host:1\r\n\
             content-type: application/json\r\ncontent-length: 0000000018\r\n\r\n\
             {\"message_id\":\"3\"}"
        );
        let mention = text(Kind::Mention { amount: 4 });
        let (head, body) = mention.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {:010}", body.len())));
        let body: readstates_api::MentionsRequest = serde_json::from_str(body).unwrap();
        assert_eq!((body.user_ids[0].get(), body.count), (1, Some(4)));
        assert!(text(Kind::Read).starts_with("GET /v1/users/1/read-states HTTP/1.1\r\n"));
    }

    #[test]
    fn an_answer_counts_when_it_is_whole_and_not_before() {
        let whole = response("200 OK", r#"{"applied":true,"version":"1"}"#);
        for cut in 0..whole.len() {
            assert_eq!(
                read(Kind::Ack, &whole[..cut]),
                Ok((Read::Incomplete, vec![]))
            );
        }
        let expected = Read::Whole {
            length: whole.len(),
            last: false,
        };
        let more = [&whole[..], b"HTTP/1.1 200"].concat();
        assert_eq!(
            read(Kind::Ack, &more),
            Ok((expected, vec![Answer::Applied]))
        );
    }

    #[test]
    fn an_answer_is_taken_for_what_it_says() {
        let mention = Kind::Mention { amount: 1 };
        let failed = |name| {
            format!(r#"{{"applied":0,"ignored":0,"failed":[{{"type":"/problems/{name}"}}]}}"#)
        };
        for (kind, body, expected) in [
            (
                Kind::Ack,
                r#"{"applied":false}"#.to_owned(),
                Answer::Ignored,
            ),
            (
                mention,
                r#"{"applied":1,"ignored":0,"failed":[]}"#.into(),
                Answer::Applied,
            ),
            (
                mention,
                r#"{"applied":0,"ignored":1,"failed":[]}"#.into(),
                Answer::Ignored,
            ),
            (
                mention,
                failed("outcome-unknown"),
                Answer::Failed(Failure::OutcomeUnknown),
            ),
            (
                mention,
                failed("overloaded"),
                Answer::Failed(Failure::NotTaken),
            ),
            (
                Kind::Read,
                r#"{"read_states":[{"channel_id":"1"},{"channel_id":"2"}]}"#.into(),
                Answer::Read { states: 2 },
            ),
        ] {
            let (_, answers) = read(kind, &response("200 OK", &body)).unwrap();
            assert_eq!(answers, [expected], "{body}");
        }
    }

    #[test]
    fn rows_are_asked_for_and_nothing_else_is_taken_for_them() {
        let http = http().with_rows(true);
        let mut output = Vec::new();
        http.write(&[operation(Kind::Read)], &mut output);
        let request = String::from_utf8(output).unwrap();
        assert!(request.ends_with("accept: application/vnd.readstates.rows\r\n\r\n"));
        let state = r#"{"channel_id":"2","last_message_id":"3","mention_count":0,"flags":0,"last_viewed":0,"last_pin_timestamp":null,"version":"1"}"#;
        let json = format!(
            r#"{{"user_id":"1","version":"1","partial":false,"read_states":[{state},{}]}}"#,
            state.replacen('2', "4", 1)
        );
        let states = rows::encode(&serde_json::from_str(&json).unwrap());
        let whole = |body: &[u8]| {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            [head.as_bytes(), body].concat()
        };
        let read = |body: &[u8]| {
            let mut answers = Vec::new();
            let read = http.read(&[operation(Kind::Read)], &whole(body), &mut answers);
            read.map(|_| answers)
        };
        assert_eq!(read(&states), Ok(vec![Answer::Read { states: 2 }]));
        for wrong in [json.as_bytes(), &states[..states.len() - 1], b""] {
            assert_eq!(read(wrong), Err(Unreadable));
        }
    }

    #[test]
    fn a_refusal_is_its_status() {
        let input = response("503 Service Unavailable", "{}");
        let (_, answers) = read(Kind::Ack, &input).unwrap();
        assert_eq!(answers, [Answer::Failed(Failure::Status(503))]);
    }

    #[test]
    fn what_is_no_answer_of_a_member_is_unreadable() {
        let wrong = [
            response("200 OK", "<html>"),
            b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n".to_vec(),
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
        ];
        for input in wrong {
            let text = String::from_utf8_lossy(&input).into_owned();
            assert_eq!(read(Kind::Ack, &input), Err(Unreadable), "{text}");
        }
    }

    #[test]
    fn the_last_answer_of_a_connection_says_so() {
        let input =
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 16\r\n\r\n{\"applied\":true}";
        let (read, _) = read(Kind::Ack, input).unwrap();
        assert_eq!(
            read,
            Read::Whole {
                length: input.len(),
                last: true
            }
        );
    }
}
