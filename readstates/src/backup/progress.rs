//! Says how far the work is: on a terminal in one line that changes, otherwise in a line every few seconds.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// What was done so far.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    /// What is counted, such as users.
    what: &'static str,
    begun: Instant,
    state: Mutex<ProgressState>,
}

#[derive(Debug)]
struct ProgressState {
    users: u64,
    bytes: u64,
    said: Instant,
}

impl Progress {
    pub(super) fn start() -> Self {
        Self::of("users")
    }

    /// Counts something else.
    pub(crate) fn of(what: &'static str) -> Self {
        let now = Instant::now();
        Self {
            terminal: std::io::stderr().is_terminal(),
            what,
            begun: now,
            state: Mutex::new(ProgressState {
                users: 0,
                bytes: 0,
                said: now,
            }),
        }
    }

    /// Counts what was done; `of`: how many users there are, where that is known.
    pub(crate) fn add(&self, users: u64, bytes: u64, of: Option<u64>) {
        let mut state = self.state.lock();
        state.users += users;
        state.bytes += bytes;
        let every = if self.terminal {
            ON_TERMINAL
        } else {
            ELSEWHERE
        };
        if state.said.elapsed() < every {
            return;
        }
        state.said = Instant::now();
        let seconds = self.begun.elapsed().as_secs_f64();
        let line = line((state.users, self.what), state.bytes, of, seconds);
        // The terminal may be gone.
        let _ = match self.terminal {
            true => write!(std::io::stderr(), "\r{line}\x1b[K"),
            false => writeln!(std::io::stderr(), "{line}"),
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line((done, what): (u64, &str), bytes: u64, of: Option<u64>, seconds: f64) -> String {
    let rate = done as f64 / seconds.max(0.001);
    let part = match of {
        Some(of) if of > 0 => format!(" of {of} ({} %)", done.saturating_mul(100) / of),
        Some(_) | None => String::new(),
    };
    format!("{done}{part} {what}, {}, {rate:.0} {what}/s", size(bytes))
}

/// Bytes as a person reads them.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_what() {
        let line = line((50, "users"), 3 << 20, Some(200), 2.0);
        assert_eq!(line, "50 of 200 (25 %) users, 3.0 MiB, 25 users/s");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(5 << 40), "5.0 TiB");
    }
}
