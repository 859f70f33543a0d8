//! The targets. Each says whether the bytes were taken for what they claim to be.

use readstates_api::{
    AckBulkRequest, AckRequest, MentionsRequest, PinsAckRequest, admin,
    batch::{AnyRequest, BatchEncoder, BatchRequest, MAX_RECORDS, RecordOperation, v2, v3},
    rows,
};
use readstates_identity::{Identity, Pems, details};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    access_file::{AccessFile, MAX_BYTES, MAX_CALLERS},
    authorization::{MAX_TOKEN, bearer},
    block::{BlockRef, Import, Operation, Since, State, Visit, apply, take_over},
    codec::{LAST_VERSION, decode, encode},
    frame::{Message, PartEncoder, digest_after, hint},
    journal,
};

/// Records of a journal, and a file of them: see [`journal::holds`].
pub fn journal(data: &[u8]) -> bool {
    journal::holds(data)
}

/// A cell, its length in the first two bytes, and what is done to it when it is one.
///
/// Whatever decodes packs to the same bytes, can be read, and stays a block under any operations.
pub fn block(data: &[u8]) -> bool {
    let Some((length, rest)) = data.split_first_chunk() else {
        return false;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (cell, operations) = rest.split_at(length);
    let Ok(decoded) = decode(cell) else {
        return false;
    };
    assert_eq!(encode(decoded.block, decoded.writer), cell);
    read_all(decoded.block);
    // Operations alone never reach the last version; only a cell that claims it does.
    if decoded.block.version() > LAST_VERSION / 2 {
        return true;
    }
    let mut room = decoded.block.bytes().to_vec();
    for step in operations.as_chunks::<6>().0 {
        let before = BlockRef::trusted(&room).version();
        do_step(&mut room, step);
        let after = BlockRef::trusted(&room);
        assert!(after.version() >= before, "the version went back");
        let packed = encode(after, decoded.writer);
        let again = decode(&packed).expect("what operations leave is a block");
        assert_eq!(encode(again.block, again.writer), packed);
        read_all(after);
    }
    true
}

/// Six bytes: what to do, the channel, the message, what else.
fn do_step(room: &mut Vec<u8>, step: &[u8; 6]) {
    let [kind, channel, message, low, high, more] = *step;
    let amount = u32::from(u16::from_le_bytes([low, high])) << (more & 16);
    let existing = BlockRef::trusted(room)
        .states()
        .nth(usize::from(channel & 0x7f));
    let channel = match existing {
        Some(state) if channel >= 0x80 => state.channel,
        _ => u64::from(channel) + 1,
    };
    let message = match existing {
        Some(State { last_message, .. }) if more & 4 != 0 => {
            last_message.saturating_add(u64::from(message))
        }
        _ => u64::from(message),
    };
    let visit = Visit {
        flags: (more & 1 != 0).then_some(amount),
        last_viewed: (more & 2 != 0).then_some(u16::from_le_bytes([low, high])),
    };
    let operation = match kind % 8 {
        0 | 1 => Operation::Ack {
            channel,
            message,
            visit,
        },
        2 => Operation::Manual {
            channel,
            message,
            mention_count: amount,
            visit,
        },
        3 => Operation::AckPins {
            channel,
            millis: message + 1,
        },
        4 => Operation::Import {
            channel,
            import: Import {
                message,
                mention_count: amount,
                counted_through: message.saturating_add(u64::from(low)),
                flags: visit.flags,
                last_viewed: u16::from(high),
                last_pin_millis: u64::from(more),
            },
        },
        5 => Operation::Mention {
            channel,
            message: message.max(1),
            count: amount.max(1),
        },
        6 => Operation::Delete { channel },
        _ if more & 8 == 0 => return take_over(room),
        _ => Operation::DeleteUser,
    };
    let first_version = u64::from(more) << 43;
    apply(room, &operation, first_version).expect("far from the most states");
}

fn read_all(block: BlockRef<'_>) {
    let states: Vec<State> = block.states().collect();
    assert_eq!(states.len(), block.len());
    let sum: u64 = states
        .iter()
        .map(|state| u64::from(state.mention_count))
        .sum();
    assert_eq!(block.mentions().0, sum);
    for state in &states {
        assert_eq!(block.state(state.channel), Some(*state));
        assert!(state.version <= block.version());
        let mentions = block.counted(state.channel);
        assert!(
            mentions
                .mentions()
                .is_sorted_by_key(|mention| mention.message)
        );
    }
    for version in [0, block.version() / 2, block.version(), u64::MAX] {
        match block.since(version) {
            Since::Everything(all) => assert_eq!(all.count(), states.len()),
            Since::Changes { states, deleted } => {
                assert!(states.into_iter().all(|state| state.version > version));
                assert!(deleted.is_sorted());
            }
        }
    }
}

/// A batch frame of any version, an answer of version 2 or 3, or read states as rows: what is one holds as many records as
/// it says, and good ones pack to the same bytes.
pub fn batch(data: &[u8]) -> bool {
    match AnyRequest::parse(data) {
        Ok(AnyRequest::V1(request)) => first_version(data, request),
        Ok(AnyRequest::V2(request)) => second_version(data, request),
        Ok(AnyRequest::V3(request)) => third_version(data, request),
        Err(_) => return answer(data),
    }
    true
}

fn first_version(data: &[u8], request: BatchRequest<'_>) {
    let records = request.records();
    assert!((1..=MAX_RECORDS).contains(&records.len()));
    let mut encoder = BatchEncoder::with_capacity(records.len());
    for (record, raw) in records.zip(request.raw()) {
        let Ok(record) = record else {
            encoder.push_raw(raw);
            continue;
        };
        match record.operation {
            RecordOperation::Ack | RecordOperation::Manual { .. } => {}
            RecordOperation::Mention { count } => assert!(count > 0),
        }
        assert_eq!(record.to_bytes(), *raw);
        encoder.push(&record);
    }
    assert_eq!(encoder.finish(), data);
}

fn second_version(data: &[u8], request: v2::Request<'_>) {
    let entries = request.records();
    assert!((1..=MAX_RECORDS).contains(&entries.len()));
    let again = entries.zip(request.raw()).map(|(entry, raw)| {
        let written = entry.map_or(*raw, |entry| entry.to_bytes());
        assert_eq!(written, *raw);
        written
    });
    assert_eq!(v2::encode_request(again), data);
}

fn third_version(data: &[u8], request: v3::Request<'_>) {
    let records = request.records();
    assert!((1..=MAX_RECORDS).contains(&records.len()));
    let again = records.zip(request.raw()).map(|(record, raw)| {
        let written = record.map_or(*raw, |record| record.to_bytes());
        assert_eq!(written, *raw);
        written
    });
    assert_eq!(v3::encode_request(again), data);
}

fn answer(data: &[u8]) -> bool {
    if let Ok(outcomes) = v3::parse_answer(data) {
        assert_eq!(v3::encode_answer(&outcomes), data);
        return true;
    }
    let Ok(rows) = v2::parse_answer(data) else {
        return states(data);
    };
    assert!((1..=MAX_RECORDS).contains(&rows.len()));
    assert_eq!(v2::encode_answer(&rows), data);
    true
}

fn states(data: &[u8]) -> bool {
    let Ok(states) = rows::parse(data) else {
        return false;
    };
    assert!(states.partial || states.deleted.is_none());
    assert!(!states.partial || states.next.is_none());
    assert_eq!(rows::encode(&states), data);
    true
}

/// A JSON body, after a byte that says which: what is read is within the documented ranges, and reads
/// the same once it is written.
pub fn bodies(data: &[u8]) -> bool {
    let Some((kind, body)) = data.split_first() else {
        return false;
    };
    match kind % 5 {
        0 => round_trip::<AckRequest>(body),
        1 => round_trip::<AckBulkRequest>(body),
        2 => round_trip::<MentionsRequest>(body),
        3 => round_trip::<PinsAckRequest>(body),
        _ => round_trip::<admin::Capacity>(body),
    }
}

/// Ids are not 0 and numbers fit by their types, so what is left to see is that nothing is read as
/// something else.
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(body: &[u8]) -> bool {
    let read: T = match serde_json::from_slice(body) {
        Ok(read) => read,
        Err(_) => return false,
    };
    let written = serde_json::to_vec(&read).expect("what was read can be written");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(read, again);
    let text = std::str::from_utf8(&written).expect("JSON is UTF-8");
    for id in ["channel_id", "message_id"] {
        assert!(!text.contains(&format!("\"{id}\":\"0\"")), "an id is 0");
    }
    true
}

/// An access file: what is one names each caller once, gives it something to do, and says its hashes again as they
/// were written.
pub fn access(data: &[u8]) -> bool {
    let Ok(file) = AccessFile::parse(data) else {
        return false;
    };
    assert!(data.len() <= MAX_BYTES && file.callers.len() <= MAX_CALLERS);
    let text = String::from_utf8_lossy(data).to_ascii_lowercase();
    for (index, caller) in file.callers.iter().enumerate() {
        let before = &file.callers[..index];
        assert!(before.iter().all(|other| other.name != caller.name));
        assert_ne!(caller.verbs, Default::default());
        let proofs = [
            caller.tokens.len(),
            caller.service_accounts.len(),
            caller.certificates.len(),
        ];
        assert!(
            proofs.iter().sum::<usize>() > 0,
            "nobody can be this caller"
        );
        assert_ne!(caller.max_concurrent, Some(0));
        for token in &caller.tokens {
            assert!(before.iter().all(|other| !other.tokens.contains(token)));
            // An escape may stand for a digit; where there is none, the hash is there.
            let hash = token.to_string();
            assert!(text.contains('\\') || text.contains('\n') || text.contains(&hash));
        }
    }
    true
}

/// The value of an `Authorization` header: a token is part of it, and nothing that a header could be split by.
pub fn authorization(data: &[u8]) -> bool {
    let Ok(token) = bearer(data) else {
        return false;
    };
    assert!((1..=MAX_TOKEN).contains(&token.len()));
    assert!(token.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(
        data.windows(token.len())
            .any(|part| part == token.as_bytes())
    );
    assert!(data[..6].eq_ignore_ascii_case(b"bearer"));
    true
}

/// A message about slots, behind the handshake. What is taken means the same when it is sent again.
pub fn frame(data: &[u8]) -> bool {
    let Ok(message) = Message::decode(data) else {
        return false;
    };
    let again = match &message {
        Message::Offer(offer) => offer.encode(),
        Message::Hint(number) => hint(*number),
        Message::Part {
            header,
            blocks,
            digest: _,
            last,
        } => {
            let mut part = PartEncoder::new();
            for block in blocks {
                part.push(block);
            }
            assert_eq!(part.count() as usize, blocks.len());
            assert!(part.bytes() <= data.len());
            part.finish(*header, 0, last.is_some()).0
        }
    };
    let heard = Message::decode(&again).expect("what was sent is a message");
    match (message, heard) {
        (
            Message::Part {
                header,
                blocks,
                digest,
                last,
            },
            Message::Part {
                header: same_header,
                blocks: same_blocks,
                digest: of_same,
                last: of_all,
            },
        ) => {
            assert_eq!((header, blocks), (same_header, same_blocks));
            // Bits that mean nothing, an age of what is not dirty, are not sent again.
            assert!(again != data || digest == of_same);
            assert_eq!(last.is_some(), of_all.is_some());
            assert!(of_all.is_none_or(|all| all == digest_after(0, of_same)));
        }
        (one, other) => assert_eq!(one, other),
    }
    true
}

/// The three files of an identity, with a zero byte between them. Taken: the CAs can be read.
pub fn certificates(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let mut files = text.splitn(3, '\0').map(str::to_owned);
    let mut next = || files.next().unwrap_or_default();
    let pems = Pems {
        ca: next(),
        certificate: next(),
        key: next(),
    };
    let read = details(&pems.ca);
    let secret = pems.key.clone();
    if let Err(refusal) = Identity::new(pems) {
        let words = format!("{refusal} {refusal:?}");
        assert!(
            secret.len() < 40 || !words.contains(&secret),
            "the key is shown"
        );
    }
    read.is_ok()
}
