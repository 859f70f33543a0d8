//! Bodies about one user's read states.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Id, Version, whole};

/// Maximum number of items in one bulk acknowledgement.
pub const MAX_BULK_ITEMS: usize = 1000;

/// Maximum number of read states in one page.
pub const MAX_PAGE: u16 = 1000;

/// What one user has read of one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"channel_id": "81384788765712384", "last_message_id": "1175928847299117063", "mention_count": 2, "flags": 0, "last_viewed": 4112, "last_pin_timestamp": null, "version": "57"}))]
pub struct ReadState {
    /// The channel.
    pub channel_id: Id,
    /// The last message read; `null` when the channel has mentions or pins but was never read.
    #[schema(required)]
    pub last_message_id: Option<Id>,
    /// Number of mentions newer than `last_message_id`; saturates at 4294967295.
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub mention_count: u32,
    /// Bits for the clients' own use; the service only stores them.
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub flags: u32,
    /// The day of the last visit, in days since 2015-01-01; never decreases.
    #[schema(maximum = 65535)]
    pub last_viewed: u16,
    /// The newest pin seen, to the millisecond; never moves back.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    pub last_pin_timestamp: Option<Timestamp>,
    /// The user's version when this state last changed.
    pub version: Version,
}

/// All read states of a user, or those changed since a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "53908232506183680", "version": "57", "partial": false, "read_states": [{"channel_id": "81384788765712384", "last_message_id": "1175928847299117063", "mention_count": 2, "flags": 0, "last_viewed": 4112, "last_pin_timestamp": null, "version": "57"}]}))]
pub struct ReadStates {
    /// The user.
    pub user_id: Id,
    /// The user's version; also the `ETag`.
    pub version: Version,
    /// Whether this answer has only what changed since the requested version.
    pub partial: bool,
    /// The read states, by channel id.
    pub read_states: Vec<ReadState>,
    /// The channels whose states were deleted since the requested version; only in a partial answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Vec<Id>>,
    /// With a `limit`, if there are more: the value of `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Id>,
}

/// Totals of a user, for a badge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "53908232506183680", "version": "57", "mention_count": 2, "channels_with_mentions": 1}))]
pub struct Summary {
    /// The user.
    pub user_id: Id,
    /// The user's version.
    pub version: Version,
    /// The sum of the mention counts of all channels.
    pub mention_count: u64,
    /// Number of channels with a mention count above 0.
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub channels_with_mentions: u32,
}

/// Body of `POST …/read-states/{channel}/ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"message_id": "1175928847299117063"}))]
pub struct AckRequest {
    /// The message read. Without `manual`, a message at or before the last one read changes nothing.
    pub message_id: Id,
    /// Set the position to `message_id` in either direction ("mark as unread").
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    /// With `manual`: the new mention count (0 when absent).
    #[serde(
        default,
        deserialize_with = "whole::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub mention_count: Option<u32>,
    /// New value of the state's flags; absent: unchanged.
    #[serde(
        default,
        deserialize_with = "whole::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub flags: Option<u32>,
    /// The day of this visit, in days since 2015-01-01; a day before the stored one is ignored.
    #[serde(
        default,
        deserialize_with = "whole::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(maximum = 65535)]
    pub last_viewed: Option<u16>,
}

/// Body of `POST …/read-states/{channel}/pins/ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"last_pin_timestamp": "2023-11-19T17:30:00.123Z"}))]
pub struct PinsAckRequest {
    /// When the newest pin seen was created: after 1970-01-01T00:00:00Z; stored to the millisecond.
    #[schema(value_type = String, format = DateTime)]
    pub last_pin_timestamp: Timestamp,
}

/// Answer to an acknowledgement of messages or pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"applied": true, "version": "57", "read_state": {"channel_id": "81384788765712384", "last_message_id": "1175928847299117063", "mention_count": 2, "flags": 0, "last_viewed": 4112, "last_pin_timestamp": null, "version": "57"}}))]
pub struct AckAnswer {
    /// Whether anything changed; `false` if it was already known.
    pub applied: bool,
    /// The user's version.
    pub version: Version,
    /// The state after the operation.
    pub read_state: ReadState,
}

/// Body of `POST …/read-states/ack-bulk`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"read_states": [{"channel_id": "81384788765712384", "message_id": "1175928847299117063"}]}))]
pub struct AckBulkRequest {
    /// 1 to 1000 acknowledgements, applied in order.
    #[schema(min_items = 1, max_items = 1000)]
    pub read_states: Vec<AckBulkItem>,
}

/// One acknowledgement of a bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckBulkItem {
    /// The channel.
    pub channel_id: Id,
    /// The message read.
    pub message_id: Id,
}

/// Answer to a bulk acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"version": "57", "results": [{"channel_id": "81384788765712384", "applied": true}]}))]
pub struct AckBulkAnswer {
    /// The user's version.
    pub version: Version,
    /// The result of each item, in order.
    pub results: Vec<AckBulkResult>,
}

/// The result of one item of a bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AckBulkResult {
    /// The channel.
    pub channel_id: Id,
    /// Whether anything changed.
    pub applied: bool,
}

/// Answer to the deletion of one read state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"applied": true, "version": "58"}))]
pub struct DeleteAnswer {
    /// Whether there was a state to delete.
    pub applied: bool,
    /// The user's version.
    pub version: Version,
}

/// Answer to the deletion of a user that is not yet in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"version": "58"}))]
pub struct UserDeleted {
    /// The user's version.
    pub version: Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_state_looks_as_documented() {
        let state = ReadState {
            channel_id: Id::new(81_384_788_765_712_384).unwrap(),
            last_message_id: Id::new(1_175_928_847_299_117_063),
            mention_count: 2,
            flags: 0,
            last_viewed: 4112,
            last_pin_timestamp: None,
            version: Version(57),
        };
        let json = r#"{"channel_id":"81384788765712384","last_message_id":"1175928847299117063","mention_count":2,"flags":0,"last_viewed":4112,"last_pin_timestamp":null,"version":"57"}"#;
        assert_eq!(serde_json::to_string(&state).unwrap(), json);
        assert_eq!(serde_json::from_str::<ReadState>(json).unwrap(), state);
    }

    #[test]
    fn unknown_members_of_a_request_are_refused_by_name() {
        let refusal =
            |result: Result<AckRequest, serde_json::Error>| result.unwrap_err().to_string();
        let typo = serde_json::from_str(r#"{"message_id": "1", "manaul": true}"#);
        assert!(refusal(typo).contains("unknown field `manaul`"));
        let item = serde_json::from_str::<AckBulkRequest>(
            r#"{"read_states": [{"channel_id": 1, "message_id": 2, "manual": true}]}"#,
        );
        assert!(
            item.unwrap_err()
                .to_string()
                .contains("unknown field `manual`")
        );
    }
}
