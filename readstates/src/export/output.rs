//! Where rows go: standard output, or a file that has its name only when it is complete.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use super::ExportError;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 1 << 20;

/// Rows on their way out.
pub(super) struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    /// The file and the name that it has until it is complete.
    file: Option<(PathBuf, PathBuf, File)>,
    name: String,
}

impl Output {
    /// Opens `-` for standard output, or a file.
    pub(super) fn open(to: &Path) -> Result<Self, ExportError> {
        if to == Path::new("-") {
            return Ok(Self::on(
                Box::new(io::stdout()),
                None,
                "standard output".into(),
            ));
        }
        let name = to.display().to_string();
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let opened = File::create(&partial).and_then(|file| Ok((file.try_clone()?, file)));
        let (writer, file) = opened.map_err(|source| ExportError::Output {
            name: partial.display().to_string(),
            source,
        })?;
        let file = Some((to.to_owned(), partial, file));
        Ok(Self::on(Box::new(writer), file, name))
    }

    fn on(
        writer: Box<dyn Write + Send>,
        file: Option<(PathBuf, PathBuf, File)>,
        name: String,
    ) -> Self {
        Self {
            writer: BufWriter::with_capacity(GATHERED, writer),
            file,
            name,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        let written = self.writer.write_all(bytes);
        written.map_err(|source| self.failed(source))
    }

    /// Everything is written: a file gets its name.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        let finished = self.writer.flush().and_then(|()| match &self.file {
            Some((to, partial, file)) => {
                file.sync_all()?;
                fs::rename(partial, to)
            }
            None => Ok(()),
        });
        finished.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> ExportError {
        let name = self.name.clone();
        ExportError::Output { name, source }
    }
}
