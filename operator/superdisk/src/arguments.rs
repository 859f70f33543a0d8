//! Values of flags that several subcommands have.

use std::time::Duration;

use clap::ValueEnum;

/// Format of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

pub(crate) fn time(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}
