//! The shape of the old system's answer to a read: one description that reads its answers and writes ours.
//!
//! `whole` is the answer, with `{states}` in the place of the list; `each` is an entry of the list, with `{channel}`,
//! `{message}` and `{mentions}`. `{user}` may be in either. What has no placeholder is written as it is, and is not
//! compared.

use std::collections::BTreeMap;

use readstates_api::{Id, ReadStates};
use serde_json::{Map, Value};

/// A channel of a user, as far as the two systems are compared. The mentions are `None` where the old system has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) message: Option<Id>,
    pub(super) mentions: Option<u64>,
}

impl Position {
    /// Whether it says no more than that nothing is known of the channel.
    fn is_nothing(&self) -> bool {
        self.message.is_none() && self.mentions.unwrap_or(0) == 0
    }
}

/// The channels of a user: those of which something is known.
pub(super) type Positions = BTreeMap<Id, Position>;

/// Both templates, checked.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    whole: Value,
    each: Value,
    /// Where the list is in `whole`, and the values in `each`.
    states: Vec<PathStep>,
    channel: Vec<PathStep>,
    message: Vec<PathStep>,
    mentions: Option<Vec<PathStep>>,
}

/// A step down in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    Key(String),
    Index(usize),
}

impl Shape {
    pub(super) fn new(whole: Value, each: Value) -> Result<Self, String> {
        check("whole", &whole, &["states", "user"])?;
        check("each", &each, &["channel", "message", "mentions", "user"])?;
        let one = |template: &str, value: &Value, key: &str| {
            let mut found = places(value, key);
            match (found.pop(), found.len()) {
                (Some(place), 0) => Ok(Some(place)),
                (None, _) => Ok(None),
                (Some(_), _) => Err(format!("{template}: \"{{{key}}}\" is there twice")),
            }
        };
        let needed = |template: &str, value: &Value, key: &str| {
            one(template, value, key)?
                .ok_or_else(|| format!("{template}: \"{{{key}}}\" is missing"))
        };
        Ok(Self {
            states: needed("whole", &whole, "states")?,
            channel: needed("each", &each, "channel")?,
            message: needed("each", &each, "message")?,
            mentions: one("each", &each, "mentions")?,
            whole,
            each,
        })
    }

    /// The channels in an answer of this shape; `None`: it has another one.
    pub(super) fn read(&self, answer: &[u8]) -> Option<Positions> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let mut positions = Positions::new();
        for entry in find(&answer, &self.states)?.as_array()? {
            let channel = Id::new(number(find(entry, &self.channel)?)?)?;
            let position = Position {
                message: Id::new(optional(find(entry, &self.message))?),
                mentions: match &self.mentions {
                    Some(place) => Some(optional(find(entry, place))?),
                    None => None,
                },
            };
            if positions.insert(channel, position).is_some() {
                return None;
            }
        }
        positions.retain(|_, position| !position.is_nothing());
        Some(positions)
    }

    /// What the service has, as far as the old system has it, too.
    pub(super) fn of_ours(&self, states: &ReadStates) -> Positions {
        let positions = states.read_states.iter().map(|state| {
            let mentions = self.mentions.as_ref();
            let position = Position {
                message: state.last_message_id,
                mentions: mentions.map(|_| u64::from(state.mention_count)),
            };
            (state.channel_id, position)
        });
        positions
            .filter(|(_, position)| !position.is_nothing())
            .collect()
    }

    /// An answer of this shape.
    pub(super) fn render(&self, user: Id, positions: &Positions) -> Vec<u8> {
        let entries = positions.iter().map(|(&channel, position)| {
            fill(&self.each, &|key| match key {
                "user" => Some(Filling::Number(user.get())),
                "channel" => Some(Filling::Number(channel.get())),
                "message" => Some(
                    position
                        .message
                        .map_or(Filling::Null, |id| Filling::Number(id.get())),
                ),
                "mentions" => Some(Filling::Count(position.mentions.unwrap_or(0))),
                _ => None,
            })
        });
        let entries: Vec<Value> = entries.collect();
        let whole = fill(&self.whole, &|key| match key {
            "user" => Some(Filling::Number(user.get())),
            "states" => Some(Filling::List(entries.clone())),
            _ => None,
        });
        whole.to_string().into_bytes()
    }
}

/// What goes into a place.
enum Filling {
    /// An id: a string, or with `:number` a number.
    Number(u64),
    /// A count: a number, or with `:string` a string.
    Count(u64),
    List(Vec<Value>),
    Null,
}

/// The key of a placeholder, and what stands behind its colon.
fn placeholder(text: &str) -> Option<(&str, Option<&str>)> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    Some(match inner.split_once(':') {
        Some((key, kind)) => (key, Some(kind)),
        None => (inner, None),
    })
}

/// Every placeholder is one of these keys.
fn check(template: &str, value: &Value, keys: &[&str]) -> Result<(), String> {
    match value {
        Value::String(text) => {
            let Some((key, kind)) = placeholder(text) else {
                if text.contains(['{', '}']) {
                    return Err(format!(
                        "{template}: {text:?}: a placeholder is a whole string"
                    ));
                }
                return Ok(());
            };
            if !keys.contains(&key) {
                let keys = keys.join("}, {");
                return Err(format!(
                    "{template}: {{{key}}} is no placeholder; they are {{{keys}}}"
                ));
            }
            match kind {
                None => Ok(()),
                Some("number" | "string") if key != "states" => Ok(()),
                Some(kind) => Err(format!(
                    "{template}: {{{key}:{kind}}}: after the colon goes `number` or `string`"
                )),
            }
        }
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| check(template, value, keys)),
        Value::Object(members) => members
            .values()
            .try_for_each(|value| check(template, value, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// All places of a key.
fn places(value: &Value, key: &str) -> Vec<Vec<PathStep>> {
    let below = |step: PathStep, value: &Value| {
        let inner = places(value, key).into_iter();
        inner.map(move |mut place| {
            place.insert(0, step.clone());
            place
        })
    };
    match value {
        Value::String(text) if placeholder(text).is_some_and(|(found, _)| found == key) => {
            vec![vec![]]
        }
        Value::Array(values) => {
            let values = values.iter().enumerate();
            values
                .flat_map(|(index, value)| below(PathStep::Index(index), value))
                .collect()
        }
        Value::Object(members) => {
            let members = members.iter();
            members
                .flat_map(|(name, value)| below(PathStep::Key(name.clone()), value))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![],
    }
}

fn find<'v>(value: &'v Value, place: &[PathStep]) -> Option<&'v Value> {
    place.iter().try_fold(value, |value, step| match step {
        PathStep::Key(name) => value.get(name),
        PathStep::Index(index) => value.get(index),
    })
}

/// Systems that write numbers as strings do so with some of them.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// 0 for what is absent, null or an empty text.
fn optional(value: Option<&Value>) -> Option<u64> {
    match value {
        None | Some(Value::Null) => Some(0),
        Some(Value::String(text)) if text.is_empty() => Some(0),
        Some(value) => number(value),
    }
}

fn fill(template: &Value, with: &dyn Fn(&str) -> Option<Filling>) -> Value {
    match template {
        Value::String(text) => {
            let filled = placeholder(text).and_then(|(key, kind)| Some((with(key)?, kind)));
            match filled {
                Some((Filling::Number(number), Some("number"))) => number.into(),
                Some((Filling::Number(number), _)) => number.to_string().into(),
                Some((Filling::Count(count), Some("string"))) => count.to_string().into(),
                Some((Filling::Count(count), _)) => count.into(),
                Some((Filling::List(list), _)) => Value::Array(list),
                Some((Filling::Null, _)) => Value::Null,
                None => template.clone(),
            }
        }
        Value::Array(values) => values.iter().map(|value| fill(value, with)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let filled = members.map(|(name, value)| (name.clone(), fill(value, with)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use readstates_api::{ReadState, Version};
    use serde_json::json;

    use super::*;

    fn shape(whole: Value, each: Value) -> Shape {
        Shape::new(whole, each).unwrap()
    }

    fn discord() -> Shape {
        shape(
            json!({"user": "{user}", "v": 2, "data": {"read_states": "{states}"}}),
            json!({"id": "{channel}", "last_message_id": "{message}", "mention_count": "{mentions}"}),
        )
    }

    fn id(number: u64) -> Id {
        Id::new(number).unwrap()
    }

    fn position(message: u64, mentions: u64) -> Position {
        Position {
            message: Id::new(message),
            mentions: Some(mentions),
        }
    }

    #[test]
    fn an_answer_of_the_old_system_is_read_by_channel() {
        let answer = json!({"data": {"read_states": [
            {"id": "10", "last_message_id": "100", "mention_count": 2, "flags": 1},
            {"id": 11, "last_message_id": null, "mention_count": "3"},
            {"id": "12", "last_message_id": "0"},
        ]}, "more": []});
        let read = discord().read(answer.to_string().as_bytes()).unwrap();
        assert_eq!(
            read,
            Positions::from([(id(10), position(100, 2)), (id(11), position(0, 3))])
        );
        let of = |entry: Value| {
            let answer = json!({"data": {"read_states": [entry]}});
            discord().read(answer.to_string().as_bytes())
        };
        assert_eq!(of(json!({"id": "x"})), None);
        assert_eq!(of(json!({"id": "10", "last_message_id": "x"})), None);
        assert_eq!(of(json!({"id": "10", "mention_count": -1})), None);
        assert_eq!(discord().read(b"{}"), None);
        let twice = json!({"data": {"read_states": [{"id": 10}, {"id": "10"}]}});
        assert_eq!(discord().read(twice.to_string().as_bytes()), None);
    }

    #[test]
    fn ours_is_written_in_the_old_shape() {
        let positions = Positions::from([(id(10), position(100, 2)), (id(11), position(0, 3))]);
        let json: Value = serde_json::from_slice(&discord().render(id(42), &positions)).unwrap();
        let expected = json!({"user": "42", "v": 2, "data": {"read_states": [
            {"id": "10", "last_message_id": "100", "mention_count": 2},
            {"id": "11", "last_message_id": null, "mention_count": 3},
        ]}});
        assert_eq!(json, expected);
        let numbers = shape(
            json!("{states}"),
            json!(["{channel:number}", "{message:number}", "{mentions:string}"]),
        );
        let json: Value = serde_json::from_slice(&numbers.render(id(42), &positions)).unwrap();
        assert_eq!(json, json!([[10, 100, "2"], [11, null, "3"]]));
    }

    #[test]
    fn what_the_old_system_does_not_count_is_not_compared() {
        let shape = shape(
            json!("{states}"),
            json!({"c": "{channel}", "m": "{message}"}),
        );
        let state = |channel, message, mention_count| ReadState {
            channel_id: id(channel),
            last_message_id: Id::new(message),
            mention_count,
            flags: 0,
            last_viewed: 0,
            last_pin_timestamp: None,
            version: Version(1),
        };
        let states = ReadStates {
            user_id: id(42),
            version: Version(1),
            partial: false,
            read_states: vec![state(10, 100, 7), state(11, 0, 3)],
            deleted: None,
            next: None,
        };
        let old = shape.read(br#"[{"c": "10", "m": "100"}]"#).unwrap();
        assert_eq!(shape.of_ours(&states), old);
    }

    #[test]
    fn templates_that_make_no_sense_are_refused() {
        let each = || json!({"c": "{channel}", "m": "{message}"});
        for (whole, each, words) in [
            (json!({}), each(), "whole: \"{states}\" is missing"),
            (
                json!(["{states}", "{states}"]),
                each(),
                "whole: \"{states}\" is there twice",
            ),
            (
                json!("{state}"),
                each(),
                "whole: {state} is no placeholder; they are {states}, {user}",
            ),
            (
                json!("{states}"),
                json!("{channel}"),
                "each: \"{message}\" is missing",
            ),
            (
                json!("{states}"),
                json!(["{channel}", "m{message}"]),
                "each: \"m{message}\"",
            ),
            (
                json!("{states}"),
                json!(["{channel:id}", "{message}"]),
                "`number` or `string`",
            ),
        ] {
            let refusal = Shape::new(whole, each).unwrap_err();
            assert!(refusal.contains(words), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(
            given in prop::collection::btree_map(1_u64..=u64::MAX, (0_u64..=u64::MAX, 0_u64..=u64::from(u32::MAX)), 0..20),
            kinds in prop::array::uniform3(prop::bool::ANY),
            counts in prop::bool::ANY,
        ) {
            let kind = |key: &str, other: bool, name: &str| match other {
                true => format!("{{{key}:{name}}}"),
                false => format!("{{{key}}}"),
            };
            let mut each = json!({
                "nested": [{"channel": kind("channel", kinds[0], "number")}],
                "message": kind("message", kinds[1], "number"),
            });
            if counts {
                each["mentions"] = kind("mentions", kinds[2], "string").into();
            }
            let shape = shape(json!({"user": "{user:number}", "list": [null, "{states}"]}), each);
            let positions: Positions = given.into_iter().filter_map(|(channel, (message, mentions))| {
                let position = Position {
                    message: Id::new(message),
                    mentions: counts.then_some(mentions),
                };
                (!position.is_nothing()).then(|| Some((Id::new(channel)?, position)))?
            }).collect();
            let read = shape.read(&shape.render(id(42), &positions));
            prop_assert_eq!(read, Some(positions));
        }
    }
}
