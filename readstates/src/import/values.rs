//! The texts of a foreign row as a read state. Pure: what makes no sense is refused with the column and the reason.

use std::borrow::Cow;

use crate::rows::{Columns, FIELDS, Field};
use jiff::{Timestamp, civil::Date, civil::date};
use readstates_api::{Id, batch::v3::Import};

/// The values of a row by field; `None`: it has none.
pub(super) type Texts<'a> = [Option<Cow<'a, str>>; FIELDS];

/// What databases write for no value in CSV.
const NULL: &str = "\\N";

/// The read state that a row says.
pub(super) fn import_of(texts: &Texts<'_>, columns: &Columns) -> Result<Import, String> {
    let row = Row { texts, columns };
    Ok(Import {
        user: row.id(Field::User)?,
        channel: row.id(Field::Channel)?,
        last_message_id: row.id_or_none(Field::Message)?,
        mention_count: row.number(Field::Mentions)?.unwrap_or(0),
        counted_through: row.id_or_none(Field::Counted)?,
        flags: row.number(Field::Flags)?,
        last_viewed: row.parsed(Field::Viewed, day)?.unwrap_or(0),
        last_pin_timestamp: row.parsed(Field::Pin, pin)?.flatten(),
    })
}

struct Row<'a> {
    texts: &'a Texts<'a>,
    columns: &'a Columns,
}

impl Row<'_> {
    fn text(&self, field: Field) -> Option<&str> {
        let text = self.texts[field.place()].as_deref();
        text.filter(|text| !text.is_empty() && *text != NULL)
    }

    fn parsed<T>(
        &self,
        field: Field,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(field) else {
            return Ok(None);
        };
        let parsed = parse(text).map_err(|why| {
            let name = self.columns.name(field);
            format!("{name} is {}: {why}", shown(text))
        });
        parsed.map(Some)
    }

    fn id(&self, field: Field) -> Result<Id, String> {
        let id = self.parsed(field, |text| {
            text.parse::<Id>().map_err(|error| error.to_string())
        })?;
        id.ok_or_else(|| format!("{} is missing", self.columns.name(field)))
    }

    /// 0 stands for none, too.
    fn id_or_none(&self, field: Field) -> Result<Option<Id>, String> {
        let id = self.parsed(field, |text| match text {
            "0" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                "a message id is a decimal number up to 18446744073709551615, without leading zeros"
                    .to_owned()
            }),
        })?;
        Ok(id.flatten())
    }

    fn number(&self, field: Field) -> Result<Option<u32>, String> {
        self.parsed(field, |text| {
            digits(text).ok_or_else(|| "give a whole number from 0 to 4294967295".to_owned())
        })
    }
}

/// A number of digits alone: no sign.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Days since 2015-01-01, or a date.
fn day(text: &str) -> Result<u16, String> {
    let why = || "give a date from 2015-01-01 on, or the number of days since then".to_owned();
    if let Some(days) = digits(text) {
        return Ok(days);
    }
    let day: Date = text.parse().map_err(|_| why())?;
    let since = day.since(date(2015, 1, 1)).map_err(|_| why())?;
    u16::try_from(since.get_days()).map_err(|_| why())
}

/// A time with its offset, or Unix milliseconds; 0 is none.
fn pin(text: &str) -> Result<Option<Timestamp>, String> {
    let why = || {
        "give a time from 1970 to 9999 with its offset, such as 2026-05-04T03:02:01Z, or Unix milliseconds"
            .to_owned()
    };
    let pin = match digits(text) {
        Some(0) => return Ok(None),
        Some(millis) => Timestamp::from_millisecond(millis).map_err(|_| why())?,
        None => text.parse().map_err(|_| why())?,
    };
    if pin.as_millisecond() <= 0 {
        return Err(why());
    }
    Ok(Some(pin))
}

/// A value in a message: not more than can be read.
fn shown(text: &str) -> String {
    const MOST: usize = 64;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &str = "user=u,channel=c,message=m,mentions=n";

    fn read(texts: [&str; FIELDS]) -> Result<Import, String> {
        let columns = COLUMNS.parse().unwrap();
        let texts = texts.map(|text| (text != "-").then_some(Cow::Borrowed(text)));
        import_of(&texts, &columns)
    }

    fn id(number: u64) -> Id {
        Id::new(number).unwrap()
    }

    const BIG: &str = "18446744073709551615";

    #[test]
    fn a_row_has_all_parts_at_their_extremes() {
        let most = "4294967295";
        let end = "9999-12-30T22:00:00Z";
        let import = read([BIG, BIG, BIG, most, BIG, most, "65535", end]).unwrap();
        let expected = Import {
            user: id(u64::MAX),
            channel: id(u64::MAX),
            last_message_id: Some(id(u64::MAX)),
            mention_count: u32::MAX,
            counted_through: Some(id(u64::MAX)),
            flags: Some(u32::MAX),
            last_viewed: u16::MAX,
            last_pin_timestamp: Some(end.parse().unwrap()),
        };
        assert_eq!(import, expected);
    }

    #[test]
    fn what_is_absent_empty_or_null_is_none() {
        let expected = Import {
            user: id(1),
            channel: id(2),
            last_message_id: None,
            mention_count: 0,
            counted_through: None,
            flags: None,
            last_viewed: 0,
            last_pin_timestamp: None,
        };
        for none in ["-", "", NULL] {
            let read = read(["1", "2", none, none, none, none, none, none]);
            assert_eq!(read, Ok(expected));
        }
        let zeros = read(["1", "2", "0", "0", "0", "0", "0", "0"]).unwrap();
        let flags = Some(0);
        assert_eq!(zeros, Import { flags, ..expected });
    }

    #[test]
    fn days_and_times_are_numbers_or_as_people_write_them() {
        let of = |viewed, pin| {
            let import = read(["1", "2", "3", "-", "-", "-", viewed, pin]).unwrap();
            let pin = import.last_pin_timestamp.map(|pin| pin.to_string());
            (import.last_viewed, pin.unwrap_or_default())
        };
        let time = "2026-05-04T03:02:01.5Z";
        assert_eq!(of("4112", time), (4112, time.to_owned()));
        assert_eq!(
            of("2026-04-05", "2026-05-04 05:02:01.5+02"),
            (4112, time.to_owned())
        );
        assert_eq!(of("2015-01-01", "1777863721500"), (0, time.to_owned()));
    }

    #[test]
    fn a_row_that_makes_no_sense_is_refused_with_the_column_and_the_reason() {
        let good = ["1", "2", "3", "4", "5", "6", "7", "8"];
        for (place, text, words) in [
            (0, "", "u is missing"),
            (0, "0", "u is \"0\": an id is a decimal number from 1"),
            (0, "01", "u is \"01\""),
            (1, "-", "c is missing"),
            (1, "-5", "c is \"-5\""),
            (1, "18446744073709551616", "c is \"18446744073709551616\""),
            (1, "general", "c is \"general\": an id is a decimal number"),
            (2, "1.5", "m is \"1.5\": a message id"),
            (2, "1e3", "m is \"1e3\""),
            (
                3,
                "-1",
                "n is \"-1\": give a whole number from 0 to 4294967295",
            ),
            (3, "4294967296", "n is \"4294967296\""),
            (4, "x", "counted_through is \"x\""),
            (5, "+1", "flags is \"+1\""),
            (6, "65536", "last_viewed is \"65536\": give a date"),
            (6, "2014-12-31", "last_viewed is \"2014-12-31\""),
            (7, "2026-05-04T03:02:01", "last_pin_timestamp is"),
            (7, "1969-12-31T00:00:00Z", "a time from 1970"),
            (7, "99999999999999999", "last_pin_timestamp is"),
        ] {
            let mut row = good;
            row[place] = text;
            let refusal = read(row).unwrap_err();
            assert!(refusal.contains(words), "{text}: {refusal}");
        }
        let long = "9".repeat(1000);
        let mut row = good;
        row[0] = &long;
        assert!(read(row).unwrap_err().len() < 300);
    }
}
