//! One read state as a line of text.

use std::{fmt, io::Write as _};

use jiff::Timestamp;
use readstates_api::{Id, Version};
use serde::Serialize;

use super::{ExportError, output::Output};
use crate::{block::State, config::RowFormat};

/// The names of the columns, in their order. `readstates import` reads them.
const HEAD: &[u8] =
    b"user_id,channel_id,last_message_id,mention_count,counted_through,flags,last_viewed,\
last_pin_timestamp,version\n";

/// A read state, with what JSON says of it in the API.
#[derive(Serialize)]
struct Exported {
    user_id: Option<Id>,
    channel_id: Option<Id>,
    last_message_id: Option<Id>,
    mention_count: u32,
    counted_through: Option<Id>,
    flags: u32,
    last_viewed: u16,
    last_pin_timestamp: Option<Timestamp>,
    version: Version,
}

#[derive(Debug)]
pub(super) struct RowWriter {
    format: RowFormat,
    line: Vec<u8>,
}

impl RowWriter {
    pub(super) fn new(format: RowFormat) -> Self {
        Self {
            format,
            line: Vec::new(),
        }
    }

    /// Writes what comes before the first row.
    pub(super) fn head(&self, output: &mut Output) -> Result<(), ExportError> {
        match self.format {
            RowFormat::Csv => output.write(HEAD),
            RowFormat::Ndjson => Ok(()),
        }
    }

    /// The line of a read state; `counted_through`: the newest message whose mention was counted.
    pub(super) fn row(&mut self, user: u64, state: &State, counted_through: Option<u64>) -> &[u8] {
        let State {
            channel,
            last_message,
            mention_count,
            flags,
            last_viewed,
            last_pin_millis,
            version,
        } = *state;
        let row = Exported {
            // Neither is ever 0.
            user_id: Id::new(user),
            channel_id: Id::new(channel),
            last_message_id: Id::new(last_message),
            mention_count,
            counted_through: counted_through.and_then(Id::new),
            flags,
            last_viewed,
            last_pin_timestamp: pin(last_pin_millis),
            version: Version(version),
        };
        self.line.clear();
        // Into a vector, which takes everything; and numbers and strings, which JSON can say.
        let _ = match self.format {
            RowFormat::Ndjson => serde_json::to_writer(&mut self.line, &row).map_err(drop),
            RowFormat::Csv => csv(&row, &mut self.line).map_err(drop),
        };
        self.line.push(b'\n');
        &self.line
    }
}

/// Nothing of it needs quotes.
fn csv(row: &Exported, line: &mut Vec<u8>) -> std::io::Result<()> {
    let Exported {
        user_id,
        channel_id,
        last_message_id,
        mention_count,
        counted_through,
        flags,
        last_viewed,
        last_pin_timestamp,
        version,
    } = row;
    let (user, channel) = (Cell(user_id), Cell(channel_id));
    let (message, counted) = (Cell(last_message_id), Cell(counted_through));
    let pin = Cell(last_pin_timestamp);
    write!(
        line,
        "{user},{channel},{message},{mention_count},{counted},{flags},{last_viewed},{pin},{version}"
    )
}

/// A value that may be absent, and is empty then.
struct Cell<'a, T>(&'a Option<T>);

impl<T: fmt::Display> fmt::Display for Cell<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(f))
    }
}

/// The time of a pin; none for 0.
fn pin(millis: u64) -> Option<Timestamp> {
    let seconds = i64::try_from(millis / 1000).ok()?;
    // Below a second. (`Timestamp::from_millisecond` does not take the last one of the calendar.)
    let nanoseconds = (millis % 1000) as i32 * 1_000_000;
    let pin = Timestamp::new(seconds, nanoseconds).ok();
    pin.filter(|_| millis > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: State = State {
        channel: 81_384_788_765_712_384,
        last_message: u64::MAX,
        mention_count: u32::MAX,
        flags: 6,
        last_viewed: 4112,
        last_pin_millis: 1_777_863_721_500,
        version: 57,
    };
    const EMPTY: State = State {
        channel: 2,
        last_message: 0,
        mention_count: 0,
        flags: 0,
        last_viewed: 0,
        last_pin_millis: 0,
        version: 1,
    };

    fn text(format: RowFormat, user: u64, state: &State, counted: Option<u64>) -> String {
        let mut writer = RowWriter::new(format);
        String::from_utf8(writer.row(user, state, counted).to_vec()).unwrap()
    }

    #[test]
    fn ids_are_strings_and_what_is_absent_is_null() {
        let full = text(RowFormat::Ndjson, 1, &FULL, Some(9));
        assert_eq!(
            full,
            "{\"user_id\":\"1\",\"channel_id\":\"81384788765712384\",\"last_message_id\":\"18446744073709551615\",\
             \"mention_count\":4294967295,\"counted_through\":\"9\",\"flags\":6,\"last_viewed\":4112,\
             \"last_pin_timestamp\":\"2026-05-04T03:02:01.5Z\",\"version\":\"57\"}\n"
        );
        let empty = text(RowFormat::Ndjson, 1, &EMPTY, None);
        assert!(empty.contains("\"last_message_id\":null,"), "{empty}");
        assert!(empty.contains("\"last_pin_timestamp\":null,"), "{empty}");
    }

    #[test]
    fn csv_has_the_columns_of_its_first_line() {
        let full = text(RowFormat::Csv, 1, &FULL, Some(9));
        assert_eq!(
            full,
            "1,81384788765712384,18446744073709551615,4294967295,9,6,4112,2026-05-04T03:02:01.5Z,57\n"
        );
        let empty = text(RowFormat::Csv, 1, &EMPTY, None);
        assert_eq!(empty, "1,2,,0,,0,0,,1\n");
        let commas = |line: &[u8]| line.iter().filter(|&&byte| byte == b',').count();
        assert_eq!(commas(HEAD), commas(full.as_bytes()));
    }

    #[test]
    fn the_last_pin_of_the_calendar_is_written() {
        assert!(pin(253_402_207_200_999).is_some());
        assert_eq!((pin(0), pin(u64::MAX)), (None, None));
    }
}
