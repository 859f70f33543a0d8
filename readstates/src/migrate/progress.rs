//! Says how far a pass is, once it has taken two seconds: on a terminal a bar that changes, otherwise a line every few
//! seconds. And from the start, once a second, where a port tells it.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use parking_lot::Mutex;
use readstates_api::admin::MigrationProgress;
use tokio::time::Instant;

use super::{track::Work, watch::Shown};

const AFTER: Duration = Duration::from_secs(2);
const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(10);
/// Between two changes of what a port tells.
const ON_PORT: Duration = Duration::from_secs(1);
/// Characters of the bar.
const WIDTH: usize = 24;

/// What is shown of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct View {
    /// From 0 to 1, where it is known.
    pub(super) share: Option<f64>,
    pub(super) users: u64,
    /// Users that the target lacked.
    pub(super) lacked: u64,
}

/// Where a pass is shown.
#[derive(Debug)]
pub(super) struct Progress {
    what: String,
    terminal: bool,
    begun: Instant,
    /// What was there when this process began.
    users_before: u64,
    said: Mutex<Instant>,
    work: Work,
    /// What a port tells, and when that was last changed.
    port: Option<(Shown, Mutex<Option<Instant>>)>,
}

impl Progress {
    pub(super) fn start(what: String, work: Work, users_before: u64, shown: Option<Shown>) -> Self {
        let now = Instant::now();
        Self {
            what,
            work,
            port: shown.map(|shown| (shown, Mutex::default())),
            terminal: std::io::stderr().is_terminal(),
            begun: now,
            users_before,
            said: Mutex::new(now),
        }
    }

    /// Shows this, when it is time to.
    pub(super) fn show(&self, view: impl Fn() -> View) {
        self.tell(&view);
        let every = if self.terminal {
            ON_TERMINAL
        } else {
            ELSEWHERE
        };
        let mut said = self.said.lock();
        if said.elapsed() < every || self.begun.elapsed() < AFTER {
            return;
        }
        *said = Instant::now();
        let seconds = self.begun.elapsed().as_secs_f64();
        let line = line(
            &self.what,
            view(),
            self.users_before,
            seconds,
            self.terminal,
        );
        // The terminal may be gone.
        let _ = match self.terminal {
            true => write!(std::io::stderr(), "\r{line}\x1b[K"),
            false => writeln!(std::io::stderr(), "{line}"),
        };
    }
}

impl Progress {
    fn tell(&self, view: impl Fn() -> View) {
        let Some((shown, told)) = &self.port else {
            return;
        };
        let mut told = told.lock();
        if told.is_some_and(|told| told.elapsed() < ON_PORT) {
            return;
        }
        *told = Some(Instant::now());
        let View {
            share,
            users,
            lacked,
        } = view();
        *shown.lock() = Some(MigrationProgress {
            what: self.what.clone(),
            verifies: self.work == Work::Verify,
            share,
            users,
            lacking: lacked,
            users_per_second: rate(users, self.users_before, self.begun.elapsed().as_secs_f64())
                as u64,
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn rate(users: u64, users_before: u64, seconds: f64) -> f64 {
    users.saturating_sub(users_before) as f64 / seconds.max(0.001)
}

fn line(what: &str, view: View, users_before: u64, seconds: f64, bar: bool) -> String {
    let View {
        share,
        users,
        lacked,
    } = view;
    let rate = rate(users, users_before, seconds);
    let part = share.map_or_else(String::new, |share| {
        let filled = (share.clamp(0.0, 1.0) * WIDTH as f64) as usize;
        let percent = share * 100.0;
        match bar {
            true => format!(" [{:<WIDTH$}] {percent:.1} %,", "#".repeat(filled)),
            false => format!(" {percent:.1} %,"),
        }
    });
    format!("{what}:{part} {users} users, {lacked} lacking in the target, {rate:.0} users/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_tells_of_a_pass_from_its_first_page_on() {
        let shown = Shown::default();
        let port = Some(Shown::clone(&shown));
        let progress = Progress::start("verification".to_owned(), Work::Verify, 1000, port);
        progress.show(|| View {
            share: Some(0.25),
            users: 1000,
            lacked: 7,
        });
        let told = MigrationProgress {
            what: "verification".to_owned(),
            verifies: true,
            share: Some(0.25),
            users: 1000,
            lacking: 7,
            users_per_second: 0,
        };
        assert_eq!(*shown.lock(), Some(told));
    }

    #[test]
    fn a_terminal_has_a_bar_and_a_log_has_words() {
        let view = View {
            share: Some(0.5),
            users: 3000,
            lacked: 7,
        };
        assert_eq!(
            line("pass 2", view, 1000, 4.0, true),
            "pass 2: [############            ] 50.0 %, 3000 users, 7 lacking in the target, 500 users/s"
        );
        assert_eq!(
            line("pass 2", view, 0, 4.0, false),
            "pass 2: 50.0 %, 3000 users, 7 lacking in the target, 750 users/s"
        );
        let unknown = View {
            share: None,
            ..view
        };
        assert_eq!(
            line("pass 2", unknown, 0, 0.0, true),
            "pass 2: 3000 users, 7 lacking in the target, 3000000 users/s"
        );
    }
}
