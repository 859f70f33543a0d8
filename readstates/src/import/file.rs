//! Rows of a file or of standard input, read by a thread of its own.

use std::{io, path::PathBuf, thread};

use tokio::sync::mpsc;

use super::{
    ImportError, Progression,
    buffered::{Buffered, Excerpt},
    csv::{CsvReader, ReadError, Record},
    lines::{self, Named},
    values::{Texts, import_of},
    window::{BadRow, Position, Row, Window},
};
use crate::{
    config::FileFormat,
    rows::{Columns, FIELDS, Places},
};

/// Windows that are read ahead of the one that is sent.
const AHEAD: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct FileSource {
    /// `None`: standard input.
    pub(super) file: Option<PathBuf>,
    pub(super) format: FileFormat,
    pub(super) delimiter: u8,
    pub(super) no_header: bool,
    pub(super) columns: Columns,
}

/// A file that is open, at the place to go on from.
pub(super) struct FileReader {
    source: FileSource,
    input: Buffered,
    rows: Rows,
}

enum Rows {
    Csv {
        reader: Box<CsvReader>,
        /// Where the fields are, and how many columns there are; not known before the first record without a header.
        places: Option<(Places, usize)>,
    },
    Ndjson {
        line: Vec<u8>,
        named: Named,
    },
}

/// What one row was.
enum Parsed {
    Row(Row),
    Bad(BadRow),
}

impl FileSource {
    pub(super) fn name(&self) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => "standard input".to_owned(),
        }
    }

    fn failed(&self, source: ReadError) -> ImportError {
        ImportError::Read {
            name: self.name(),
            source,
        }
    }

    /// Opens the file and goes to the place where it was left. `known`: how the file of a checkpoint began.
    pub(super) fn open(
        self,
        known: Option<&Excerpt>,
        from: Option<&Position>,
    ) -> Result<(FileReader, Excerpt), ImportError> {
        let io_failed = |source: io::Error| self.failed(source.into());
        let opened = match &self.file {
            Some(file) => Buffered::of_file(file),
            None => Ok(Buffered::of_stdin()),
        };
        let mut input = opened.map_err(io_failed)?;
        let beginning = input.beginning(known).map_err(io_failed)?;
        if known.is_some_and(|known| *known != beginning) {
            return Err(ImportError::OtherInput { name: self.name() });
        }
        let mut rows = self.rows(&mut input)?;
        if let Some(Position::File {
            bytes,
            lines,
            before,
        }) = from
        {
            let skipped = input.skip_to(*bytes, *lines, before.as_ref());
            let is_same = skipped.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ImportError::Shorter {
                    name: self.name(),
                    bytes: *bytes,
                },
                _ => self.failed(error.into()),
            })?;
            if !is_same {
                return Err(ImportError::OtherInput { name: self.name() });
            }
            if let Rows::Csv { reader, .. } = &mut rows {
                reader.restart();
            }
        }
        let reader = FileReader {
            source: self,
            input,
            rows,
        };
        Ok((reader, beginning))
    }

    /// Reads what comes before the first row.
    fn rows(&self, input: &mut Buffered) -> Result<Rows, ImportError> {
        let reader = match self.format {
            FileFormat::Ndjson => {
                return Ok(Rows::Ndjson {
                    line: Vec::new(),
                    named: Named::of(&self.columns),
                });
            }
            FileFormat::Csv => CsvReader::new(self.delimiter),
            FileFormat::Tsv => CsvReader::of_tabs(),
        };
        let mut reader = Box::new(reader);
        let places = match self.no_header {
            true => None,
            false => {
                let header = reader.next(input).map_err(|error| self.failed(error))?;
                // A file without a line has no rows, and nothing to be wrong.
                header.map(|header| self.header(&header)).transpose()?
            }
        };
        Ok(Rows::Csv { reader, places })
    }

    fn header(&self, header: &Record<'_>) -> Result<(Places, usize), ImportError> {
        let names = (0..header.len()).map(|place| header.text(place).unwrap_or("\u{fffd}"));
        let names: Vec<&str> = names.collect();
        Ok((self.columns.among(&names)?, names.len()))
    }
}

impl FileReader {
    /// Reads windows of so many rows until the end of the file or of the import.
    pub(super) fn start(mut self, most: usize) -> mpsc::Receiver<Progression> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        // Not joined: it may wait for standard input for ever, and the end of the process ends it.
        thread::spawn(move || {
            loop {
                let window = self.window(most);
                let last = !matches!(window, Ok(Some(_)));
                if sender.blocking_send(window).is_err() || last {
                    return;
                }
            }
        });
        receiver
    }

    /// The next rows; `None` at the end.
    pub(super) fn window(&mut self, most: usize) -> Result<Option<Window>, ImportError> {
        let begun = self.input.offset;
        let (mut rows, mut bad) = (Vec::new(), Vec::new());
        while rows.len() + bad.len() < most {
            match self.next()? {
                Some(Parsed::Row(row)) => rows.push(row),
                Some(Parsed::Bad(row)) => bad.push(row),
                None => break,
            }
        }
        if rows.is_empty() && bad.is_empty() {
            return Ok(None);
        }
        if let Rows::Ndjson { named, .. } = &mut self.rows {
            named.are_there(&self.source.columns)?;
        }
        let Buffered { offset, lines, .. } = self.input;
        Ok(Some(Window {
            rows,
            bad,
            bytes: offset - begun,
            position: Position::File {
                bytes: offset,
                lines,
                before: Some(self.input.before()),
            },
        }))
    }

    fn next(&mut self) -> Result<Option<Parsed>, ImportError> {
        let Self {
            source,
            input,
            rows,
        } = self;
        match rows {
            Rows::Csv { reader, places } => {
                let record = reader.next(input).map_err(|error| source.failed(error))?;
                let Some(record) = record else {
                    return Ok(None);
                };
                let (places, count) = match *places {
                    Some(known) => known,
                    None => {
                        let count = record.len();
                        *places.insert((source.columns.by_number(count)?, count))
                    }
                };
                let parsed = of_record(&record, &places, count, &source.columns);
                Ok(Some(parsed))
            }
            Rows::Ndjson { line, named } => {
                let found = lines::next(input, line).map_err(|error| source.failed(error))?;
                let of = |(number, whole)| of_line((number, line, whole), &source.columns, named);
                Ok(found.map(of))
            }
        }
    }
}

fn of_record(record: &Record<'_>, places: &Places, count: usize, columns: &Columns) -> Parsed {
    let line = Some(record.line);
    let bad = |reason| Parsed::Bad(BadRow::new(line, reason, &record.shown()));
    if record.len() != count {
        let found = record.len();
        return bad(format!("{found} values in {count} columns"));
    }
    let mut texts: Texts<'_> = [const { None }; FIELDS];
    for (text, place) in texts.iter_mut().zip(places) {
        if let Some(place) = *place {
            let Some(found) = record.text(place) else {
                return bad(format!("value {} is not UTF-8", place + 1));
            };
            *text = Some(found.into());
        }
    }
    match import_of(&texts, columns) {
        Ok(import) => Parsed::Row(Row { line, import }),
        Err(reason) => bad(reason),
    }
}

fn of_line(
    (number, line, whole): (u64, &[u8], bool),
    columns: &Columns,
    named: &mut Named,
) -> Parsed {
    let mut read = || {
        if !whole {
            return Err("the line is longer than 1 MiB".to_owned());
        }
        let object = lines::object(line)?;
        named.look(&object, columns);
        import_of(&lines::texts(&object, columns)?, columns)
    };
    let number = Some(number);
    match read() {
        Ok(import) => Parsed::Row(Row {
            line: number,
            import,
        }),
        Err(reason) => {
            let text = String::from_utf8_lossy(line);
            Parsed::Bad(BadRow::new(number, reason, text.trim_end()))
        }
    }
}
