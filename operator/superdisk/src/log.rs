//! Lines of the log, which is standard error.

/// Writes a line to the log.
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}
