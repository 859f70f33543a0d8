//! A run: threads that send, and this one, which gathers what they book and says how it goes.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write as _},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use crate::{
    connection::Route,
    report::{Latency, Second},
    schedule::{Nanos, Pace, Schedule},
    source::Source,
    windows::Window,
    worker::{Done, Task, Worker},
};

/// How often progress is printed.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Where connections go, in turn.
    pub(crate) routes: Vec<Route>,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// Requests on a connection at once.
    pub(crate) depth: usize,
    /// Requests by time, in requests.
    pub(crate) pace: Pace,
    pub(crate) warmup: Duration,
    /// How long is measured; `None`: until the sources have nothing more.
    pub(crate) duration: Option<Duration>,
    pub(crate) timeout: Duration,
    /// Whether what fails is sent until it succeeds.
    pub(crate) insist: bool,
    /// What progress lines begin with.
    pub(crate) title: &'static str,
}

/// The result of a run.
pub(crate) struct Ran {
    /// All seconds together.
    pub(crate) total: Window,
    /// Each.
    pub(crate) seconds: Vec<Second>,
    /// The threads' own results.
    pub(crate) threads: Vec<Done>,
}

/// Runs; `source` makes the source of each thread, and `beside` is called when the first measured second begins.
pub(crate) fn run(
    plan: &Plan,
    source: impl Fn(u64, u64) -> Box<dyn Source>,
    beside: impl FnOnce(Instant),
) -> io::Result<Ran> {
    let start = Instant::now();
    let (sender, windows) = mpsc::channel();
    let handles: Vec<_> = (0..plan.threads)
        .map(|thread| {
            let task = task(
                plan,
                thread,
                source(thread as u64, plan.threads as u64),
                sender.clone(),
            );
            thread::spawn(move || Worker::run(task, start))
        })
        .collect();
    drop(sender);
    beside(start + plan.warmup);
    let (total, seconds) = gather(plan, &windows);
    let mut threads = Vec::new();
    for handle in handles {
        let gone = |_| io::Error::other("a thread of the generator ended in a panic");
        threads.push(handle.join().map_err(gone)??);
    }
    Ok(Ran {
        total,
        seconds,
        threads,
    })
}

fn task(
    plan: &Plan,
    thread: usize,
    source: Box<dyn Source>,
    windows: Sender<(usize, Window)>,
) -> Task {
    let nanos = |duration: Duration| duration.as_nanos() as Nanos;
    let end = match plan.duration {
        Some(duration) => nanos(plan.warmup + duration),
        None => Nanos::MAX,
    };
    let all = plan.routes.iter().cycle().take(plan.connections);
    Task {
        routes: all.skip(thread).step_by(plan.threads).cloned().collect(),
        depth: plan.depth,
        schedule: Schedule::new(plan.pace, end, thread as u64, plan.threads as u64),
        warmup: nanos(plan.warmup),
        timeout: nanos(plan.timeout),
        insist: plan.insist,
        source,
        windows,
        thread,
    }
}

/// Brings the windows of all threads together, second by second.
fn gather(plan: &Plan, windows: &Receiver<(usize, Window)>) -> (Window, Vec<Second>) {
    let mut open: BTreeMap<u64, (Window, usize)> = BTreeMap::new();
    let mut total = Window::new(0);
    let mut seconds = Vec::new();
    let mut progress = Progress::new(plan.title);
    loop {
        match windows.recv_timeout(TELL_EVERY) {
            Ok((_, window)) => {
                let second = window.second;
                let (sum, threads) = open
                    .entry(second)
                    .or_insert_with(|| (Window::new(second), 0));
                sum.merge(&window);
                *threads += 1;
                if *threads == plan.threads
                    && let Some((window, _)) = open.remove(&second)
                {
                    total.merge(&window);
                    seconds.push(Second::of(&window));
                    progress.add(&window);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.tell();
    }
    // What one thread booked and another did not live to.
    for (window, _) in open.into_values() {
        total.merge(&window);
        seconds.push(Second::of(&window));
    }
    progress.end();
    (total, seconds)
}

/// A line every two seconds: on a terminal in place of the one before.
struct Progress {
    title: &'static str,
    terminal: bool,
    started: Instant,
    told: Instant,
    since: Window,
    seconds: u64,
}

impl Progress {
    fn new(title: &'static str) -> Self {
        Self {
            title,
            terminal: io::stderr().is_terminal(),
            started: Instant::now(),
            told: Instant::now(),
            since: Window::new(0),
            seconds: 0,
        }
    }

    fn add(&mut self, window: &Window) {
        self.since.merge(window);
        self.seconds += 1;
    }

    fn tell(&mut self) {
        if self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        let (title, elapsed) = (self.title, self.started.elapsed().as_secs());
        let line = match self.seconds {
            // The warm-up, the end, or a service that does not answer: no second has become complete.
            0 => format!("{title}, {elapsed} s: waiting for answers"),
            seconds => progress_line(title, elapsed, seconds, &self.since),
        };
        let failed = self.since.counts.failed() > 0;
        let coloured = self.terminal && std::env::var_os("NO_COLOR").is_none();
        let line = match failed && coloured {
            true => format!("\x1b[31m{line}\x1b[0m"),
            false => line,
        };
        // With standard error closed, progress is not wanted.
        let _ = match self.terminal {
            true => write!(io::stderr(), "\r\x1b[K{line}"),
            false => writeln!(io::stderr(), "{line}"),
        };
        self.since = Window::new(0);
        self.seconds = 0;
    }

    fn end(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn progress_line(title: &str, elapsed: u64, seconds: u64, window: &Window) -> String {
    let rate = window.counts.succeeded() / seconds;
    let Latency { p50, p999, max, .. } = Latency::of(&window.latency);
    let failed = window.counts.failed();
    format!(
        "{title}, {elapsed} s: {rate} operations/s, p50 {p50:.3} ms, p99.9 {p999:.3} ms, max {max:.1} ms, \
         {failed} failed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Answer, Failure};

    #[test]
    fn a_progress_line_tells_rate_tail_and_failures() {
        let mut window = Window::new(0);
        for _ in 0..100 {
            window.add(2_000_000, &[Answer::Applied]);
        }
        window.add(1, &[Answer::Failed(Failure::Status(503))]);
        let line = progress_line("Acks", 7, 2, &window);
        assert!(
            line.starts_with("Acks, 7 s: 50 operations/s, p50 2.0"),
            "{line}"
        );
        assert!(line.ends_with("1 failed"), "{line}");
    }
}
