//! Lines of NDJSON, each a row.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{buffered::Buffered, csv::ReadError, values::Texts};
use crate::rows::{Columns, FIELDS, Field};

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

/// The values of an object by field.
pub(super) fn texts<'a>(
    object: &'a Map<String, Value>,
    columns: &Columns,
) -> Result<Texts<'a>, String> {
    let mut texts = [const { None }; FIELDS];
    for field in Field::ALL {
        let name = columns.name(field);
        texts[field.place()] = match object.get(name) {
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
        let row =
            br#"{"u": 18446744073709551615, "channel_id": "2", "flags": null, "more": {"a": []}}"#;
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
    }
}
