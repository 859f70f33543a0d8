//! Bodies of `POST /v1/mentions`: one message, many users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Id, ProblemType, whole};

/// Maximum number of users that one request may mention.
pub const MAX_MENTIONED_USERS: usize = 100_000;

/// Body of `POST /v1/mentions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"channel_id": "81384788765712384", "message_id": "1175928847299117063", "user_ids": ["53908232506183680", "80351110224678912"]}))]
pub struct MentionsRequest {
    /// The channel of the message.
    pub channel_id: Id,
    /// The message that contains the mention.
    pub message_id: Id,
    /// 1 to 100000 users; a user that is listed twice is mentioned once.
    #[schema(min_items = 1, max_items = 100_000)]
    pub user_ids: Vec<Id>,
    /// How much the message adds to each user's mention count.
    #[serde(
        default,
        deserialize_with = "whole::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, default = 1, format = Int64, maximum = 4_294_967_295_u64)]
    pub count: Option<u32>,
}

/// Answer to `POST /v1/mentions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"applied": 2, "ignored": 0, "failed": []}))]
pub struct MentionsAnswer {
    /// Users whose count increased.
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub applied: u32,
    /// Users who had already read the message, or for whom it was already counted.
    #[schema(format = Int64, maximum = 4_294_967_295_u64)]
    pub ignored: u32,
    /// Users to send again: either nothing was done for them, or the outcome is unknown.
    pub failed: Vec<FailedUser>,
}

/// A user for whom a mention was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedUser {
    /// The user.
    pub user_id: Id,
    /// The reason, as the type of the problem that a request for this user alone would have received.
    #[serde(rename = "type")]
    pub problem: ProblemType,
}
