//! Records of CSV (RFC 4180) and of TSV: of any line ends, in CSV with quotes, and never more than one in memory.

use std::io;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::buffered::Buffered;

/// The longest record. Read states take a few dozen bytes: one this long is a quote that is not closed.
const LONGEST: usize = 1 << 20;
const MOST_FIELDS: usize = 4096;

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or standard input failed.
    #[error("failed to read")]
    Io(#[from] io::Error),
    /// A record does not end, or not where records do.
    #[error(
        "the record that begins in line {line} does not end within 1 MiB, {MOST_FIELDS} values and the file: is a quote \
         not closed, or is it another format?"
    )]
    Endless { line: u64 },
}

/// Reads records one after the other.
pub(super) struct CsvReader {
    core: Reader,
    delimiter: u8,
    fields: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The line in which it begins, from 1.
    pub(super) line: u64,
    delimiter: u8,
    fields: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Record<'a> {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The value at a place, which there is; `None`: it is not UTF-8.
    pub(super) fn text(&self, place: usize) -> Option<&'a str> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        std::str::from_utf8(&self.fields[start..self.ends[place]]).ok()
    }

    /// All of it as a person reads it: without quotes.
    pub(super) fn shown(&self) -> String {
        let mut shown = String::new();
        let mut start = 0;
        for (place, &end) in self.ends.iter().enumerate() {
            if place > 0 {
                shown.push(char::from(self.delimiter));
            }
            shown += &String::from_utf8_lossy(&self.fields[start..end]);
            start = end;
        }
        shown
    }
}

impl CsvReader {
    /// Of CSV.
    pub(super) fn new(delimiter: u8) -> Self {
        Self::with(delimiter, true)
    }

    /// Of TSV, as PostgreSQL's text format and `mysql --batch` write it: a quote is a character like any other.
    pub(super) fn of_tabs() -> Self {
        Self::with(b'\t', false)
    }

    fn with(delimiter: u8, has_quotes: bool) -> Self {
        let mut core = ReaderBuilder::new();
        Self {
            core: core.delimiter(delimiter).quoting(has_quotes).build(),
            delimiter,
            fields: vec![0; 1024],
            ends: vec![0; 32],
        }
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self, input: &mut Buffered) -> Result<Option<Record<'_>>, ReadError> {
        // Line ends that belong to no record, so that the next one begins where the line is counted.
        loop {
            if !input.fill()? {
                return Ok(None);
            }
            match input.data().first() {
                Some(b'\r' | b'\n') => input.consume(1),
                Some(_) | None => break,
            }
        }
        let line = input.lines + 1;
        let (mut length, mut count) = (0, 0);
        loop {
            let is_over = !input.fill()?;
            // The last line may lack its end. It gets one, which only a quote that is open takes for a part of the value.
            let data: &[u8] = if is_over { b"\n" } else { input.data() };
            let (fields, ends) = (&mut self.fields[length..], &mut self.ends[count..]);
            let (result, read, wrote, ended) = self.core.read_record(data, fields, ends);
            if !is_over {
                input.consume(read);
            }
            (length, count) = (length + wrote, count + ended);
            match result {
                ReadRecordResult::InputEmpty if is_over && wrote > 0 => {
                    return Err(ReadError::Endless { line });
                }
                ReadRecordResult::InputEmpty if is_over => return Ok(None),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.fields.len() < LONGEST => {
                    self.fields.resize(2 * self.fields.len(), 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < MOST_FIELDS => {
                    self.ends.resize(2 * self.ends.len(), 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(ReadError::Endless { line });
                }
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(None),
            }
        }
        Ok(Some(Record {
            line,
            delimiter: self.delimiter,
            fields: &self.fields[..length],
            ends: &self.ends[..count],
        }))
    }

    /// Forgets what was read of a record, where the input goes on elsewhere.
    pub(super) fn restart(&mut self) {
        self.core.reset();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Line and values of each record.
    fn records(text: &[u8], delimiter: u8) -> Vec<(u64, Vec<String>)> {
        let (mut input, mut reader) = (Buffered::of_bytes(text), CsvReader::new(delimiter));
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut input).unwrap() {
            let values = (0..record.len()).map(|place| record.text(place).unwrap().to_owned());
            records.push((record.line, values.collect()));
        }
        assert_eq!(input.offset, text.len() as u64);
        records
    }

    fn owned(records: &[(u64, &[&str])]) -> Vec<(u64, Vec<String>)> {
        let values = |values: &[&str]| values.iter().map(ToString::to_string).collect();
        let all = records.iter().map(|(line, all)| (*line, values(all)));
        all.collect()
    }

    #[test]
    fn records_have_their_lines_whatever_ends_a_line() {
        let expected = owned(&[(1, &["a", "b"]), (2, &["1", "2"]), (4, &["3", ""])]);
        assert_eq!(records(b"a,b\n1,2\n\n3,", b','), expected);
        assert_eq!(records(b"a,b\r\n1,2\r\n\r\n3,\r\n", b','), expected);
        let quoted = owned(&[(1, &["a", "x\n,\"y\""]), (3, &["b", "c"])]);
        assert_eq!(records(b"a;\"x\n,\"\"y\"\"\"\nb;c\n", b';'), quoted);
        assert!(records(b"", b',').is_empty());
        assert!(records(b"\n\n", b',').is_empty());
    }

    #[test]
    fn a_record_that_does_not_end_is_refused_with_its_line() {
        let text = [b"a,b\n1,\"".as_slice(), &[b'x'; 3 << 20]].concat();
        let (mut input, mut reader) = (Buffered::of_bytes(&text), CsvReader::new(b','));
        reader.next(&mut input).unwrap();
        let error = reader.next(&mut input).unwrap_err();
        assert!(matches!(error, ReadError::Endless { line: 2 }), "{error}");
        for rows in ["1,\"2\n3,4\n5,6\n", "1,\"", "1,\"2\"\"", "\"", "\"1\n"] {
            let text = format!("a,b\n{rows}");
            let (mut input, mut reader) =
                (Buffered::of_bytes(text.as_bytes()), CsvReader::new(b','));
            reader.next(&mut input).unwrap();
            let error = reader.next(&mut input).unwrap_err();
            let is_it = matches!(error, ReadError::Endless { line: 2 });
            assert!(is_it, "{text:?}: {error}");
        }
        let text = b",".repeat(10_000);
        let (mut input, mut reader) = (Buffered::of_bytes(&text), CsvReader::new(b','));
        let error = reader.next(&mut input).unwrap_err();
        assert!(matches!(error, ReadError::Endless { line: 1 }), "{error}");
    }

    #[test]
    fn the_last_line_may_end_with_its_last_value() {
        let expected = owned(&[(1, &["a", "b"]), (2, &["1", "2"])]);
        for text in [
            "a,b\n1,2",
            "a,b\n1,\"2\"",
            "a,b\r\n1,2\r",
            "a,b\n1,2\n\r\n\n",
        ] {
            assert_eq!(records(text.as_bytes(), b','), expected, "{text:?}");
        }
        let empty = owned(&[(1, &["a", "b"]), (2, &["1", ""])]);
        assert_eq!(records(b"a,b\n1,\"\"", b','), empty);
        // As long as the memory for it, before that has grown.
        let long = "x".repeat(1024);
        let expected = owned(&[(1, &[&long])]);
        assert_eq!(records(long.as_bytes(), b','), expected);
    }

    #[test]
    fn a_quote_has_no_meaning_between_tabs() {
        let text = b"user\tname\n1\t\"a\n2\t\"b\"\n\"\t\"";
        let (mut input, mut reader) = (Buffered::of_bytes(text), CsvReader::of_tabs());
        let mut shown = Vec::new();
        while let Some(record) = reader.next(&mut input).unwrap() {
            assert_eq!(record.len(), 2);
            shown.push(record.shown());
        }
        assert_eq!(shown, ["user\tname", "1\t\"a", "2\t\"b\"", "\"\t\""]);
    }

    #[test]
    fn a_record_is_shown_without_its_quotes() {
        let (mut input, mut reader) = (Buffered::of_bytes(b",\"b\xff\",c\n"), CsvReader::new(b','));
        let record = reader.next(&mut input).unwrap().unwrap();
        assert_eq!(record.shown(), ",b\u{fffd},c");
        assert_eq!((record.text(0), record.text(1)), (Some(""), None));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_every_place_is_one_to_go_on_from(
            rows in prop::collection::vec(prop::collection::vec("[a-z0-9,\"\n]{0,6}", 2..4), 0..12),
            end in prop_oneof![Just("\n"), Just("\r\n")],
        ) {
            let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + end;
            let text: String = rows.iter().map(line).collect();
            let (mut input, mut reader) = (Buffered::of_bytes(text.as_bytes()), CsvReader::new(b','));
            for row in &rows {
                let (offset, lines) = (input.offset, input.lines);
                let mut again = Buffered::of_bytes(text.as_bytes());
                assert!(again.skip_to(offset, lines, None).unwrap());
                let mut other = CsvReader::new(b',');
                let (found, same) = (reader.next(&mut input).unwrap(), other.next(&mut again).unwrap());
                prop_assert_eq!(found, same);
                let found = found.unwrap();
                let values: Vec<&str> = (0..found.len()).map(|place| found.text(place).unwrap()).collect();
                prop_assert_eq!(&values, row);
            }
            prop_assert!(reader.next(&mut input).unwrap().is_none());
        }
    }
}
