use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use proptest::prelude::*;
use readstates_api::Id;

use super::frame::{encode, encode_answer, encode_request, parse, take_answer};
use crate::{
    http::{
        reply::{self, Body},
        selection::Selection,
        target::Target,
    },
    operation::Operation,
};

fn target(user: u64, channel: u64) -> Target {
    Target {
        user: Id::new(user).unwrap(),
        channel: Id::new(channel),
        selection: Selection::All,
    }
}

#[test]
fn a_frame_is_read_as_it_was_written() {
    let mut headers = HeaderMap::new();
    for value in ["\"1\"", "\"2\""] {
        headers.append(header::IF_MATCH, HeaderValue::from_static(value));
    }
    let body = br#"{"message_id": 1}"#;
    let ack = encode_request(Operation::Ack, target(u64::MAX, 7), &headers, body).unwrap();
    let none = HeaderMap::new();
    let summary = encode_request(Operation::Summary, target(1, 0), &none, b"").unwrap();
    let frame = encode(
        [
            (Duration::from_millis(1500), &ack),
            (Duration::ZERO, &summary),
        ]
        .into_iter(),
    );
    let read = parse(frame).unwrap();
    assert_eq!(read[0].operation, Operation::Ack);
    assert_eq!(read[0].target.user.get(), u64::MAX);
    assert_eq!(read[0].target.channel, Id::new(7));
    assert_eq!(read[0].timeout, Duration::from_millis(1500));
    assert_eq!(read[0].headers, headers);
    assert_eq!(&read[0].body[..], body);
    assert_eq!(read[1].operation, Operation::Summary);
    assert_eq!(read[1].target.channel, None);
    assert_eq!(read[1].timeout, Duration::from_millis(1), "0 is no time");
    assert!(read[1].headers.is_empty() && read[1].body.is_empty());
}

#[test]
fn what_is_long_or_unusual_has_no_place_in_a_frame() {
    let none = HeaderMap::new();
    let of = |operation, headers: &HeaderMap, body: &[u8]| {
        encode_request(operation, target(1, 7), headers, body).is_some()
    };
    assert!(of(Operation::Ack, &none, &[b' '; 4000]));
    assert!(!of(Operation::Ack, &none, &[b' '; 5000]));
    assert!(!of(Operation::Ack, &none, &[b' '; 70_000]));
    for operation in [Operation::List, Operation::AckBulk, Operation::DeleteUser] {
        assert!(!of(operation, &none, b""));
    }
    let unusual = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("1"))]);
    assert!(!of(Operation::Get, &unusual, b""));
}

#[test]
fn answers_are_taken_from_the_stream_as_they_come() {
    let mut first = reply::json(b"{}".to_vec());
    let headers = first.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_static("\"5\""));
    // Not a part of what is forwarded.
    headers.insert(header::HOST, HeaderValue::from_static("chat-1"));
    let first = encode_answer(3, &first.into_parts().0, b"{}", 9);
    let second = reply::empty(http::StatusCode::NOT_FOUND).into_parts().0;
    let stream = [first, encode_answer(511, &second, b"", 10)].concat();
    let (mut came, mut answers) = (BytesMut::new(), Vec::new());
    for byte in stream {
        came.extend_from_slice(&[byte]);
        answers.extend(take_answer(&mut came).unwrap());
    }
    assert!(came.is_empty());
    let [first, second] = answers.try_into().unwrap();
    assert_eq!(
        (first.place, first.ring, first.response.status().as_u16()),
        (3, 9, 200)
    );
    let headers = first.response.headers();
    assert_eq!(headers.len(), 2);
    assert_eq!(headers[header::ETAG], "\"5\"");
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    assert!(matches!(first.response.body(), Body::Whole(Some(body)) if &body[..] == b"{}"));
    assert_eq!((second.place, second.ring), (511, 10));
    assert!(matches!(second.response.body(), Body::Whole(None)));
}

#[test]
fn a_header_that_is_not_known_is_left_out_of_an_answer_and_refused_in_a_request() {
    let mut ok = reply::empty(http::StatusCode::OK);
    let etag = HeaderValue::from_static("\"5\"");
    ok.headers_mut().insert(header::ETAG, etag.clone());
    let mut answer = encode_answer(0, &ok.into_parts().0, b"{}", 9);
    // Length, place, status, ring and count come before its number.
    answer[17] = 200;
    let read = take_answer(&mut BytesMut::from(&answer[..])).unwrap();
    let read = read.unwrap().response;
    assert!(read.headers().is_empty());
    assert!(matches!(read.body(), Body::Whole(Some(body)) if &body[..] == b"{}"));
    let headers = HeaderMap::from_iter([(header::IF_MATCH, etag)]);
    let request = encode_request(Operation::Delete, target(1, 7), &headers, b"").unwrap();
    let mut frame = encode([(Duration::from_secs(1), &request)].into_iter()).to_vec();
    assert!(parse(frame.clone().into()).is_ok());
    frame[28] = 200;
    assert!(parse(frame.into()).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0_u8..4) {
        let mut bytes = bytes;
        if bytes.len() > 4 {
            bytes[..4].copy_from_slice(&[count, 0, 0, 0]);
        }
        if let Ok(requests) = parse(Bytes::from(bytes.clone())) {
            prop_assert_eq!(requests.len(), usize::from(count));
        }
        let mut stream = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = take_answer(&mut stream) {}
    }
}
