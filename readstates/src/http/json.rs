//! Answers about read states, written straight from the block: no values in between, no allocation
//! but the answer's own. What is written is what the types of [`readstates_api`] say; a test holds it
//! to that.

use jiff::Timestamp;

use crate::block::{BlockRef, Outcome, REMEMBERED_DELETIONS, Since, State};

/// A JSON text in the making.
#[derive(Debug)]
pub(super) struct Json(Vec<u8>);

/// What one state takes at most, with its comma, and what surrounds the states; a test holds them to it.
const STATE_BYTES: usize = 224;
const FRAME_BYTES: usize = 128;
/// What one deleted channel takes at most.
const DELETED_BYTES: usize = 24;

/// What [`read_states`] takes at most when it shows so many states.
pub(super) const fn most_bytes(states: usize) -> usize {
    FRAME_BYTES + states * STATE_BYTES + REMEMBERED_DELETIONS * DELETED_BYTES
}

/// How many states [`read_states`] shows.
pub(super) fn shown(block: BlockRef<'_>, since: Option<u64>) -> usize {
    match since.map(|version| block.since(version)) {
        Some(Since::Changes { states, .. }) => states.count(),
        Some(Since::Everything(_)) | None => block.len(),
    }
}

impl Json {
    fn with_room(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    /// A number as a string.
    fn id(&mut self, number: u64) -> &mut Self {
        self.raw("\"").number(number).raw("\"")
    }

    fn id_or_null(&mut self, number: u64) -> &mut Self {
        match number {
            0 => self.raw("null"),
            number => self.id(number),
        }
    }

    fn boolean(&mut self, value: bool) -> &mut Self {
        self.raw(if value { "true" } else { "false" })
    }

    /// The items, with commas between them, in brackets.
    fn list<T>(&mut self, items: impl Iterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        self.raw("[");
        for (index, value) in items.enumerate() {
            if index > 0 {
                self.raw(",");
            }
            item(self, value);
        }
        self.raw("]");
    }

    fn state(&mut self, state: &State) {
        let State {
            channel,
            last_message,
            mention_count,
            flags,
            last_viewed,
            last_pin_millis,
            version,
        } = *state;
        self.raw("{\"channel_id\":").id(channel);
        self.raw(",\"last_message_id\":").id_or_null(last_message);
        self.raw(",\"mention_count\":").number(mention_count.into());
        self.raw(",\"flags\":").number(flags.into());
        self.raw(",\"last_viewed\":").number(last_viewed.into());
        self.raw(",\"last_pin_timestamp\":").pin(last_pin_millis);
        self.raw(",\"version\":").id(version).raw("}");
    }

    fn pin(&mut self, millis: u64) -> &mut Self {
        let pin = i64::try_from(millis)
            .ok()
            .filter(|&millis| millis > 0)
            .and_then(|millis| Timestamp::from_millisecond(millis).ok());
        match pin {
            Some(pin) => self.raw("\"").raw(&pin.to_string()).raw("\""),
            None => self.raw("null"),
        }
    }
}

pub(super) fn read_state(state: &State) -> Vec<u8> {
    let mut json = Json::with_room(STATE_BYTES);
    json.state(state);
    json.0
}

/// All read states, or those that changed since a version where that can be told: `shown` of them.
pub(super) fn read_states(
    user: u64,
    block: BlockRef<'_>,
    since: Option<u64>,
    shown: usize,
) -> Vec<u8> {
    let answer = match since {
        Some(version) => block.since(version),
        None => Since::Everything(block.states()),
    };
    let mut json = Json::with_room(FRAME_BYTES + shown * STATE_BYTES);
    json.raw("{\"user_id\":").id(user);
    json.raw(",\"version\":").id(block.version());
    match answer {
        Since::Everything(states) => {
            json.raw(",\"partial\":false,\"read_states\":");
            json.list(states, |json, state| json.state(&state));
        }
        Since::Changes { states, deleted } => {
            json.raw(",\"partial\":true,\"read_states\":");
            json.list(states, |json, state| json.state(&state));
            json.raw(",\"deleted\":");
            json.list(deleted.into_iter(), |json, channel| {
                json.id(channel);
            });
        }
    }
    json.raw("}");
    json.0
}

/// A page of read states of a user at this version, and the channel after which the next one begins.
pub(super) fn page(user: u64, version: u64, states: &[State], next: Option<u64>) -> Vec<u8> {
    let mut json = Json::with_room(most_bytes(states.len()));
    json.raw("{\"user_id\":").id(user);
    json.raw(",\"version\":").id(version);
    json.raw(",\"partial\":false,\"read_states\":");
    json.list(states.iter(), |json, state| json.state(state));
    if let Some(next) = next {
        json.raw(",\"next\":").id(next);
    }
    json.raw("}");
    json.0
}

/// What an acknowledgement came to, and the state that it leaves.
pub(super) fn ack_answer(applied: bool, version: u64, state: &State) -> Vec<u8> {
    let mut json = Json::with_room(STATE_BYTES + FRAME_BYTES);
    json.raw("{\"applied\":").boolean(applied);
    json.raw(",\"version\":").id(version);
    json.raw(",\"read_state\":").state(state);
    json.raw("}");
    json.0
}

/// What became of each item of a bulk.
pub(super) fn ack_bulk_answer(
    version: u64,
    results: impl ExactSizeIterator<Item = (u64, Outcome)>,
) -> Vec<u8> {
    let mut json = Json::with_room(FRAME_BYTES + results.len() * 64);
    json.raw("{\"version\":").id(version).raw(",\"results\":");
    json.list(results, |json, (channel, outcome)| {
        json.raw("{\"channel_id\":").id(channel);
        json.raw(",\"applied\":")
            .boolean(outcome == Outcome::Applied)
            .raw("}");
    });
    json.raw("}");
    json.0
}

/// What a deletion came to.
pub(super) fn delete_answer(applied: bool, version: u64) -> Vec<u8> {
    let mut json = Json::with_room(FRAME_BYTES);
    json.raw("{\"applied\":").boolean(applied);
    json.raw(",\"version\":").id(version).raw("}");
    json.0
}

/// The totals of a user.
pub(super) fn summary(user: u64, block: BlockRef<'_>) -> Vec<u8> {
    let (mention_count, channels) = block.mentions();
    let mut json = Json::with_room(2 * FRAME_BYTES);
    json.raw("{\"user_id\":").id(user);
    json.raw(",\"version\":").id(block.version());
    json.raw(",\"mention_count\":").number(mention_count);
    json.raw(",\"channels_with_mentions\":")
        .number(channels.into())
        .raw("}");
    json.0
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use readstates_api::{
        AckAnswer, AckBulkAnswer, AckBulkResult, DeleteAnswer, Id, ReadState, ReadStates, Summary,
        Version,
    };
    use serde::{Serialize, de::DeserializeOwned};

    use super::*;
    use crate::block::{EMPTY, Operation, Visit, apply};

    fn block(operations: &[Operation]) -> Vec<u8> {
        let mut block = EMPTY.to_vec();
        for operation in operations {
            apply(&mut block, operation, 0).unwrap();
        }
        block
    }

    fn everything() -> Vec<u8> {
        let visit = Visit {
            flags: Some(u32::MAX),
            last_viewed: Some(4112),
        };
        let mention = |message, count| Operation::Mention {
            channel: 20,
            message,
            count,
        };
        block(&[
            Operation::Ack {
                channel: 10,
                message: u64::MAX,
                visit,
            },
            mention(7, 3),
            mention(8, u32::MAX),
            Operation::AckPins {
                channel: 30,
                millis: 1_450_000_000_123,
            },
            Operation::Delete { channel: 10 },
            Operation::Ack {
                channel: u64::MAX,
                message: 1,
                visit: Visit::default(),
            },
        ])
    }

    /// The type of the API reads what was written, and writes the same.
    fn typed<T: Serialize + DeserializeOwned + Debug>(json: &[u8]) -> T {
        let value: T = serde_json::from_slice(json).unwrap();
        let text = std::str::from_utf8(json).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        value
    }

    fn read_states(user: u64, block: BlockRef<'_>, since: Option<u64>) -> Vec<u8> {
        super::read_states(user, block, since, shown(block, since))
    }

    #[test]
    fn no_answer_is_longer_than_it_may_be() {
        let of = |version: u64| State {
            channel: u64::MAX,
            last_message: u64::MAX,
            mention_count: u32::MAX,
            flags: u32::MAX,
            last_viewed: u16::MAX,
            last_pin_millis: 253_402_207_200_999,
            version,
        };
        assert!(read_state(&of(u64::MAX)).len() < STATE_BYTES);
        let frame = "{\"user_id\":\"\",\"version\":\"\",\"partial\":false,\"read_states\":[],\"deleted\":[]}";
        assert!(frame.len() + 2 * 20 <= FRAME_BYTES);
        assert!(",\"\"".len() + 20 <= DELETED_BYTES);
        // One after the other, with the newest deletions.
        let channels = 1..=200_u64;
        let acks = channels.map(|channel| Operation::Ack {
            channel: u64::MAX - channel,
            message: u64::MAX,
            visit: Visit::default(),
        });
        let deletions = (1..=100).map(|channel| Operation::Delete {
            channel: u64::MAX - channel,
        });
        let block = block(&acks.chain(deletions).collect::<Vec<_>>());
        let block = BlockRef::trusted(&block);
        for since in [None, Some(1), Some(150), Some(block.version())] {
            let shown = shown(block, since);
            assert!(read_states(u64::MAX, block, since).len() <= most_bytes(shown));
        }
    }

    #[test]
    fn states_are_written_as_the_api_has_them() {
        let block = everything();
        let block = BlockRef::trusted(&block);
        let all: ReadStates = typed(&read_states(81, block, None));
        assert_eq!((all.user_id.get(), all.partial), (81, false));
        assert_eq!(all.version, Version(block.version()));
        let states: Vec<ReadState> = [20, 30, u64::MAX]
            .map(|channel| typed(&read_state(block.state(channel).as_ref().unwrap())))
            .into();
        assert_eq!(all.read_states, states);
        assert_eq!(states[0].mention_count, u32::MAX);
        assert_eq!(states[0].last_message_id, None);
        let pin = states[1].last_pin_timestamp.unwrap();
        assert_eq!(pin.as_millisecond(), 1_450_000_000_123);
        assert_eq!(states[2].channel_id, Id::new(u64::MAX).unwrap());
    }

    #[test]
    fn changes_are_written_with_what_was_deleted() {
        let block = everything();
        let block = BlockRef::trusted(&block);
        let changes: ReadStates = typed(&read_states(81, block, Some(block.version() - 2)));
        assert!(changes.partial);
        assert_eq!(changes.read_states.len(), 1);
        assert_eq!(changes.deleted, Some(vec![Id::new(10).unwrap()]));
        let nothing: ReadStates = typed(&read_states(81, block, Some(block.version())));
        assert_eq!(nothing.deleted, Some(vec![]));
        let empty: ReadStates = typed(&read_states(1, BlockRef::trusted(&EMPTY), None));
        assert_eq!(empty.version, Version(0));
    }

    #[test]
    fn what_became_of_operations_is_written_as_the_api_has_it() {
        let block = everything();
        let block = BlockRef::trusted(&block);
        let state = block.state(20).unwrap();
        let ack: AckAnswer = typed(&ack_answer(true, 57, &state));
        assert_eq!((ack.applied, ack.version), (true, Version(57)));
        assert_eq!(ack.read_state.channel_id, Id::new(20).unwrap());
        let results = [(1, Outcome::Applied), (2, Outcome::Ignored)];
        let bulk: AckBulkAnswer = typed(&ack_bulk_answer(58, results.into_iter()));
        let result = |channel, applied| AckBulkResult {
            channel_id: Id::new(channel).unwrap(),
            applied,
        };
        assert_eq!(bulk.results, [result(1, true), result(2, false)]);
        let deleted: DeleteAnswer = typed(&delete_answer(false, 3));
        assert_eq!((deleted.applied, deleted.version), (false, Version(3)));
        let summary: Summary = typed(&summary(9, block));
        assert_eq!(summary.mention_count, u64::from(u32::MAX));
        assert_eq!(summary.channels_with_mentions, 1);
    }
}
