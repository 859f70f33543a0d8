//! The file of bad rows: an object with line and reason each.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{ImportError, window::BadRow};

/// Bad rows on their way to a file, if there is one.
#[derive(Debug)]
pub(super) struct BadRows {
    to: Option<(PathBuf, BufWriter<File>)>,
    bytes: u64,
}

impl BadRows {
    /// Opens the file; what is in it after so many bytes was written by an import that went no further, and goes.
    pub(super) fn open(file: Option<&Path>, kept: u64) -> Result<Self, ImportError> {
        let Some(file) = file else {
            return Ok(Self {
                to: None,
                bytes: kept,
            });
        };
        let opened = open(file, kept).map_err(|source| ImportError::BadRowsFile {
            file: file.to_owned(),
            source,
        })?;
        Ok(Self {
            to: Some((file.to_owned(), BufWriter::new(opened))),
            bytes: kept,
        })
    }

    pub(super) fn write(&mut self, rows: &[BadRow]) -> Result<(), ImportError> {
        let Some((file, writer)) = &mut self.to else {
            return Ok(());
        };
        let mut written = 0;
        let mut all = || -> io::Result<()> {
            for row in rows {
                let mut line = serde_json::to_vec(row)?;
                line.push(b'\n');
                writer.write_all(&line)?;
                written += line.len() as u64;
            }
            writer.flush()
        };
        all().map_err(|source| ImportError::BadRowsFile {
            file: file.clone(),
            source,
        })?;
        self.bytes += written;
        Ok(())
    }

    /// Has the disk keep what was written; returns how long the file is.
    pub(super) fn keep(&mut self) -> Result<u64, ImportError> {
        if let Some((file, writer)) = &mut self.to {
            let synced = writer.get_ref().sync_data();
            synced.map_err(|source| ImportError::BadRowsFile {
                file: file.clone(),
                source,
            })?;
        }
        Ok(self.bytes)
    }
}

fn open(file: &Path, kept: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut opened = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(file)?;
    let metadata = opened.metadata()?;
    // /dev/stderr and the like keep nothing.
    if metadata.is_file() {
        opened.set_len(kept.min(metadata.len()))?;
        opened.seek(SeekFrom::End(0))?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn row(line: u64) -> BadRow {
        BadRow::new(Some(line), "why".to_owned(), "a,b")
    }

    #[test]
    fn an_import_that_goes_on_writes_each_bad_row_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad");
        let mut bad = BadRows::open(Some(&path), 0).unwrap();
        bad.write(&[row(1)]).unwrap();
        let kept = bad.keep().unwrap();
        bad.write(&[row(2)]).unwrap();
        drop(bad);
        let mut bad = BadRows::open(Some(&path), kept).unwrap();
        bad.write(&[row(2)]).unwrap();
        assert_eq!(bad.keep().unwrap(), fs::metadata(&path).unwrap().len());
        let lines: Vec<serde_json::Value> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[1],
            serde_json::json!({"line": 2, "reason": "why", "row": "a,b"})
        );
        // A new import begins a new file.
        BadRows::open(Some(&path), 0).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}
