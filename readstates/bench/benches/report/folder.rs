//! The folder of a report: files that are there or not.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use readstates_bench::{report::Report, summary::Named};
use serde::de::DeserializeOwned;

/// Where everything is.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// `None` for a file that is not there.
    pub(crate) fn text(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.0.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One run of the generator.
    pub(crate) fn report(&self, name: &str) -> Result<Option<Report>, Box<dyn Error>> {
        let text = self.text(name)?;
        Ok(text.as_deref().map(serde_json::from_str).transpose()?)
    }

    /// What the JSON files that begin so hold, in the order of their names.
    pub(crate) fn json<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<T>, Box<dyn Error>> {
        let files = self.files(prefix)?;
        files.iter().map(|(_, file)| parse(file)).collect()
    }

    /// The runs of a part, `PART-NUMBER-NAME.json`, in the order of their numbers.
    pub(crate) fn runs(&self, part: &str) -> Result<Vec<Named>, Box<dyn Error>> {
        let mut runs = Vec::new();
        for (rest, file) in self.files(&format!("{part}-"))? {
            let numbered = rest.split_once('-');
            let Some((_, name)) = numbered.filter(|(number, _)| number.parse::<u32>().is_ok())
            else {
                continue;
            };
            runs.push(Named {
                name: name.to_owned(),
                report: parse(&file)?,
            });
        }
        Ok(runs)
    }

    /// By what is between the prefix and `.json`.
    fn files(&self, prefix: &str) -> io::Result<Vec<(String, PathBuf)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let rest = name.and_then(|name| name.strip_prefix(prefix)?.strip_suffix(".json"));
            if let Some(rest) = rest.map(str::to_owned) {
                files.push((rest, path));
            }
        }
        files.sort();
        Ok(files)
    }
}

fn parse<T: DeserializeOwned>(file: &Path) -> Result<T, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()).into())
}
