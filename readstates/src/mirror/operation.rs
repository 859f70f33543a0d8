//! What a request of the old system means to the service. Pure: a request and its route come in, an operation goes out.

use std::collections::BTreeSet;

use readstates_api::{AckRequest, Id, MAX_MENTIONED_USERS, MentionsRequest};
use serde_json::Value;

use super::field::{Seen, Source, Twice};

/// What the requests of a route do, and where their values are.
#[derive(Debug)]
pub(super) enum Does {
    Ack {
        user: Source,
        channel: Source,
        message: Source,
        manual: Manual,
        mentions: Option<Source>,
    },
    Mention {
        users: Users,
        channel: Source,
        message: Source,
    },
    /// Without a channel: everything of the user.
    Delete {
        user: Source,
        channel: Option<Source>,
    },
    /// `open`: whoever reaches the old system may read.
    Read { user: Source, open: bool },
}

/// Whether an acknowledgement may move back.
#[derive(Debug)]
pub(super) enum Manual {
    Never,
    Always,
    /// If the value there is `true`.
    If(Source),
}

impl Manual {
    fn source(&self) -> Option<&Source> {
        match self {
            Self::Never | Self::Always => None,
            Self::If(source) => Some(source),
        }
    }
}

/// Who is mentioned.
#[derive(Debug)]
pub(super) enum Users {
    One(Source),
    Listed(Source),
}

/// A write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Ack {
        user: Id,
        channel: Id,
        ack: AckRequest,
    },
    Mention(MentionsRequest),
    Delete {
        user: Id,
        channel: Option<Id>,
    },
}

/// A value of a request is missing, is there twice or is no id; the name of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

impl Does {
    pub(super) fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    /// Whether the body of a request is needed.
    pub(super) fn needs_body(&self) -> bool {
        self.sources().into_iter().any(Source::is_body)
    }

    fn sources(&self) -> Vec<&Source> {
        match self {
            Self::Ack {
                user,
                channel,
                message,
                manual,
                mentions,
            } => {
                let needed = [user, channel, message].into_iter();
                needed.chain(manual.source()).chain(mentions).collect()
            }
            Self::Mention {
                users: Users::One(source) | Users::Listed(source),
                channel,
                message,
            } => vec![source, channel, message],
            Self::Delete { user, channel } => [user].into_iter().chain(channel).collect(),
            Self::Read { user, open: _ } => vec![user],
        }
    }

    /// The user of a read.
    pub(super) fn reader(&self, seen: &Seen<'_>) -> Option<Id> {
        match self {
            Self::Read { user, .. } => id("user", user, seen).ok(),
            Self::Ack { .. } | Self::Mention { .. } | Self::Delete { .. } => None,
        }
    }

    /// The write that a request is; `None`: it is a read.
    pub(super) fn write(&self, seen: &Seen<'_>) -> Result<Option<Operation>, Unreadable> {
        Ok(Some(match self {
            Self::Ack {
                user,
                channel,
                message,
                manual,
                mentions,
            } => {
                let manual = match manual {
                    Manual::Never => false,
                    Manual::Always => true,
                    Manual::If(source) => source.value(seen) == Some(&Value::Bool(true)),
                };
                let mentions = mentions.as_ref().filter(|_| manual);
                let mentions = mentions.map(|source| text("mentions", source, seen));
                let mentions = mentions.transpose()?.flatten();
                let mentions =
                    mentions.map(|text| text.parse::<u32>().map_err(|_| Unreadable("mentions")));
                Operation::Ack {
                    user: id("user", user, seen)?,
                    channel: id("channel", channel, seen)?,
                    ack: AckRequest {
                        message_id: id("message", message, seen)?,
                        manual,
                        mention_count: mentions.transpose()?,
                        flags: None,
                        last_viewed: None,
                    },
                }
            }
            Self::Mention {
                users,
                channel,
                message,
            } => {
                let user_ids = match users {
                    Users::One(user) => vec![id("user", user, seen)?],
                    Users::Listed(source) => listed(source, seen)?,
                };
                if user_ids.is_empty() {
                    return Ok(None);
                }
                Operation::Mention(MentionsRequest {
                    channel_id: id("channel", channel, seen)?,
                    message_id: id("message", message, seen)?,
                    user_ids,
                    count: None,
                })
            }
            Self::Delete { user, channel } => Operation::Delete {
                user: id("user", user, seen)?,
                channel: channel
                    .as_ref()
                    .map(|channel| id("channel", channel, seen))
                    .transpose()?,
            },
            Self::Read { .. } => return Ok(None),
        }))
    }
}

impl Operation {
    /// Whom it changes something for.
    pub(super) fn users(&self) -> &[Id] {
        match self {
            Self::Ack { user, .. } | Self::Delete { user, .. } => std::slice::from_ref(user),
            Self::Mention(mention) => &mention.user_ids,
        }
    }

    /// The same for these users, who are some of its own.
    pub(super) fn of(&self, users: Vec<Id>) -> Self {
        match self {
            Self::Ack { .. } | Self::Delete { .. } => self.clone(),
            Self::Mention(mention) => Self::Mention(MentionsRequest {
                channel_id: mention.channel_id,
                message_id: mention.message_id,
                user_ids: users,
                count: mention.count,
            }),
        }
    }
}

fn id(name: &'static str, source: &Source, seen: &Seen<'_>) -> Result<Id, Unreadable> {
    let text = text(name, source, seen)?.ok_or(Unreadable(name))?;
    text.parse().map_err(|_| Unreadable(name))
}

fn text(
    name: &'static str,
    source: &Source,
    seen: &Seen<'_>,
) -> Result<Option<String>, Unreadable> {
    source.text(seen).map_err(|Twice| Unreadable(name))
}

/// Ids of users in a list, each once.
fn listed(source: &Source, seen: &Seen<'_>) -> Result<Vec<Id>, Unreadable> {
    let unreadable = Unreadable("users");
    let list = source
        .value(seen)
        .and_then(Value::as_array)
        .ok_or(unreadable)?;
    let ids = list.iter().map(|value| match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => Id::new(number.as_u64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    });
    let ids: Option<BTreeSet<Id>> = ids.collect();
    let ids = ids.filter(|ids| ids.len() <= MAX_MENTIONED_USERS);
    Ok(ids.ok_or(unreadable)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::json;

    use super::*;

    fn body(pointer: &str) -> Source {
        Source::Body(pointer.to_owned())
    }

    fn write(does: &Does, body: &Value) -> Result<Option<Operation>, Unreadable> {
        does.write(&Seen {
            path: "/users/42/channels/10",
            query: None,
            headers: &HeaderMap::new(),
            body: Some(body),
        })
    }

    fn id(number: u64) -> Id {
        Id::new(number).unwrap()
    }

    #[test]
    fn an_acknowledgement_is_manual_where_its_body_says_so() {
        let does = Does::Ack {
            user: Source::Path(1),
            channel: Source::Path(3),
            message: body("/id"),
            manual: Manual::If(body("/manual")),
            mentions: Some(body("/mentions")),
        };
        assert!(does.needs_body() && !does.is_read());
        let ack = |manual, mention_count| {
            Ok(Some(Operation::Ack {
                user: id(42),
                channel: id(10),
                ack: AckRequest {
                    message_id: id(100),
                    manual,
                    mention_count,
                    flags: None,
                    last_viewed: None,
                },
            }))
        };
        assert_eq!(
            write(&does, &json!({"id": "100", "mentions": 3})),
            ack(false, None)
        );
        let manual = json!({"id": 100, "manual": true, "mentions": 3});
        assert_eq!(write(&does, &manual), ack(true, Some(3)));
        assert_eq!(
            write(&does, &json!({"id": "100", "manual": true})),
            ack(true, None)
        );
        assert_eq!(write(&does, &json!({})), Err(Unreadable("message")));
        let negative = json!({"id": 100, "manual": true, "mentions": -3});
        assert_eq!(write(&does, &negative), Err(Unreadable("mentions")));
    }

    #[test]
    fn a_value_that_is_there_twice_makes_no_operation() {
        let query = |name: &str| Source::Query(name.to_owned());
        let does = Does::Ack {
            user: query("user"),
            channel: Source::Path(3),
            message: query("id"),
            manual: Manual::Always,
            mentions: Some(query("count")),
        };
        let write = |query| {
            does.write(&Seen {
                path: "/users/42/channels/10",
                query: Some(query),
                headers: &HeaderMap::new(),
                body: None,
            })
        };
        assert!(write("user=42&id=100&count=1").is_ok());
        for (query, name) in [
            ("user=42&id=100&count=1&user=43", "user"),
            ("user=42&id=100&count=1&id=100", "message"),
            ("user=42&id=100&count=1&count=2", "mentions"),
        ] {
            assert_eq!(write(query), Err(Unreadable(name)), "{query}");
        }
    }

    #[test]
    fn users_are_mentioned_once_and_in_parts() {
        let does = Does::Mention {
            users: Users::Listed(body("/users")),
            channel: Source::Path(3),
            message: body("/id"),
        };
        let mention = write(&does, &json!({"id": "100", "users": ["7", 8, "7"]}));
        let mention = mention.unwrap().unwrap();
        assert_eq!(mention.users(), [id(7), id(8)]);
        assert_eq!(mention.of(vec![id(8)]).users(), [id(8)]);
        assert_eq!(write(&does, &json!({"id": "100", "users": []})), Ok(None));
        for users in [json!(["x"]), json!("7"), json!([0]), json!(null)] {
            let refused = write(&does, &json!({"id": "100", "users": users}));
            assert_eq!(refused, Err(Unreadable("users")));
        }
    }

    #[test]
    fn a_deletion_is_of_a_channel_or_of_a_user() {
        let delete = |channel| Does::Delete {
            user: Source::Path(1),
            channel,
        };
        for (source, channel) in [(None, None), (Some(Source::Path(3)), Some(id(10)))] {
            let expected = Operation::Delete {
                user: id(42),
                channel,
            };
            assert_eq!(write(&delete(source), &json!(null)), Ok(Some(expected)));
        }
    }
}
