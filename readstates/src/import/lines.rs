//! Lines of NDJSON, each a row.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{buffered::Buffered, csv::ReadError, values::Texts};
use crate::rows::{Columns, FIELDS, Field, NoColumn};

/// The longest line. Read states take a few hundred bytes.
const LONGEST: usize = 1 << 20;

/// Reads the next line that is not empty into `line`, without its end. Returns its number, and whether all of it is in
/// `line`; `None` at the end.
pub(super) fn next(
    input: &mut Buffered,
    line: &mut Vec<u8>,
) -> Result<Option<(u64, bool)>, ReadError> {
    loop {
        line.clear();
        let number = input.lines + 1;
        let (mut whole, mut ended) = (true, false);
        while !ended && input.fill()? {
            let data = input.data();
            let end = memchr::memchr(b'\n', data);
            let part = &data[..end.unwrap_or(data.len())];
            let room = LONGEST.saturating_sub(line.len());
            whole &= part.len() <= room;
            line.extend_from_slice(&part[..part.len().min(room)]);
            ended = end.is_some();
            input.consume(end.map_or(data.len(), |end| end + 1));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some((number, whole)));
        }
        if !ended {
            return Ok(None);
        }
    }
}

/// A line as an object.
pub(super) fn object(line: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => Err(format!("it is no JSON object: {error}")),
    }
}

/// Columns that were named and that no object has had yet: at the beginning that is a slip of the one who named them.
#[derive(Debug)]
pub(super) struct Named {
    unseen: Vec<Field>,
    /// The keys of the first object; `None`: there was none yet.
    there: Option<Vec<String>>,
}

impl Named {
    pub(super) fn of(columns: &Columns) -> Self {
        let named = |field: &Field| columns.given(*field).is_some();
        Self {
            unseen: Field::ALL.into_iter().filter(named).collect(),
            there: None,
        }
    }

    pub(super) fn look(&mut self, object: &Map<String, Value>, columns: &Columns) {
        self.unseen
            .retain(|field| !object.contains_key(columns.name(*field)));
        self.there
            .get_or_insert_with(|| object.keys().cloned().collect());
    }

    /// After the first objects: whether each was in one of them. Not asked again.
    pub(super) fn are_there(&mut self, columns: &Columns) -> Result<(), NoColumn> {
        let Some(there) = &self.there else {
            return Ok(());
        };
        let unseen = std::mem::take(&mut self.unseen);
        let Some(field) = unseen.first() else {
            return Ok(());
        };
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        Err(columns.missing(*field, &there))
    }
}

/// The values of an object by field.
pub(super) fn texts<'a>(
    object: &'a Map<String, Value>,
    columns: &Columns,
) -> Result<Texts<'a>, String> {
    let mut texts = [const { None }; FIELDS];
    for field in Field::ALL {
        let name = columns.name(field);
        texts[field.place()] = match object.get(name) {
            None if field == Field::Message => {
                return Err(format!(
                    "{name} is missing: name its column with --columns message=NAME; null stands for a channel that was \
                     never read"
                ));
            }
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(Cow::Borrowed(text.as_str())),
            Some(Value::Number(number)) => Some(Cow::Owned(number.to_string())),
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(format!("{name} is neither a text nor a number"));
            }
        };
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_numbers_and_empty_ones_are_none() {
        let mut input = Buffered::of_bytes(b"{}\n\n \r\n{ }\r\n[1]");
        let mut line = Vec::new();
        let mut found = Vec::new();
        while let Some((number, whole)) = next(&mut input, &mut line).unwrap() {
            found.push((number, whole, String::from_utf8(line.clone()).unwrap()));
        }
        let expected = [(1, "{}"), (4, "{ }\r"), (5, "[1]")];
        let expected = expected.map(|(number, text)| (number, true, text.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(input.offset, 15);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_one_is_read() {
        let long = "x".repeat(3 << 20);
        let text = format!("{long}\n{{}}\n");
        let mut input = Buffered::of_bytes(text.as_bytes());
        let mut line = Vec::new();
        assert_eq!(next(&mut input, &mut line).unwrap(), Some((1, false)));
        assert_eq!(line.len(), LONGEST);
        assert_eq!(next(&mut input, &mut line).unwrap(), Some((2, true)));
        assert_eq!(next(&mut input, &mut line).unwrap(), None);
    }

    #[test]
    fn values_are_texts_or_numbers_of_any_size() {
        let columns: Columns = "user=u".parse().unwrap();
        let row = br#"{"u": 18446744073709551615, "channel_id": "2", "last_message_id": null, "flags": null,
            "more": {"a": []}}"#;
        let object = object(row).unwrap();
        let texts = texts(&object, &columns).unwrap();
        assert_eq!(texts[0].as_deref(), Some("18446744073709551615"));
        assert_eq!(texts[1].as_deref(), Some("2"));
        assert!(texts[2..].iter().all(Option::is_none));
    }

    #[test]
    fn what_is_no_object_or_has_other_values_is_refused() {
        for bad in ["", "[]", "{", "{} {}", "\"a\"", "{\"u\": \"\u{0}\"}"] {
            assert!(object(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(object(b"{\"u\": \"\xff\"}").is_err());
        let row = object(b"{\"user_id\": [1]}").unwrap();
        let refusal = texts(&row, &Columns::default()).unwrap_err();
        assert_eq!(refusal, "user_id is neither a text nor a number");
        // It would be a channel that was never read.
        let row = object(br#"{"user_id": 1, "channel_id": 2, "lastMessageId": "99"}"#).unwrap();
        let refusal = texts(&row, &Columns::default()).unwrap_err();
        assert!(
            refusal.starts_with("last_message_id is missing: name its column"),
            "{refusal}"
        );
        let columns = "message=lastMessageId".parse().unwrap();
        let texts = texts(&row, &columns).unwrap();
        assert_eq!(texts[Field::Message.place()].as_deref(), Some("99"));
    }

    #[test]
    fn a_column_that_was_named_must_be_in_one_of_the_first_objects() {
        let columns: Columns = "mentions=ping,flags=f".parse().unwrap();
        let see = |rows: &[&str]| {
            let mut named = Named::of(&columns);
            for row in rows {
                named.look(&object(row.as_bytes()).unwrap(), &columns);
            }
            named.are_there(&columns).map_err(|error| error.to_string())
        };
        assert_eq!(see(&[]), Ok(()));
        assert_eq!(see(&[r#"{"ping": 1}"#, r#"{"f": null}"#]), Ok(()));
        let refusal = see(&[r#"{"pings": 1, "f": 1}"#]).unwrap_err();
        assert!(
            refusal.contains("\"ping\" for the mentions")
                && refusal.contains("there are: f, pings"),
            "{refusal}"
        );
    }
}
