//! Lines of the log, which is standard error; and of what a command does, which is standard output.

/// Writes a line to the log.
pub fn say(line: &str) {
    eprintln!("{line}");
}

/// Writes a line about what a command does. Standard error is left to its refusal, whose code is the first word there.
pub fn show(line: &str) {
    println!("{line}");
}
