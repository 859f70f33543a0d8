//! What the process takes of the machine, and how busy its threads are.
//!
//! The names are those that Prometheus' own clients use. Comes from `/proc`; where that cannot be read, a family is
//! left out.

use std::{fs, time::Duration};

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};
use tokio::runtime::Handle;

use super::Text;

/// Writes what the process takes.
pub(crate) fn write(text: &mut Text) {
    text.build_info("readstates_build_info", env!("CARGO_PKG_VERSION"));
    if let Some(stat) = Stat::read() {
        stat.write(text);
    }
    // One of them is the look itself.
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        text.gauge(
            "process_open_fds",
            "Number of open file descriptors.",
            open.count().saturating_sub(1) as f64,
        );
    }
    text.gauge(
        "process_max_fds",
        "Maximum number of open file descriptors.",
        getrlimit(Resource::Nofile)
            .current
            .map_or(f64::INFINITY, |most| most as f64),
    );
}

/// Fields of `/proc/self/stat`: proc_pid_stat(5).
#[derive(Debug, PartialEq)]
struct Stat {
    cpu: Duration,
    threads: u64,
    /// After the machine's start.
    started: Duration,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        let line = fs::read_to_string("/proc/self/stat").ok()?;
        Self::of(&line, clock_ticks_per_second(), page_size() as u64)
    }

    fn of(line: &str, ticks_per_second: u64, page: u64) -> Option<Self> {
        // The name before may have spaces and brackets.
        let (_, fields) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        // The first one here is the third of the page.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64);
        Some(Self {
            cpu: time(field(14)? + field(15)?),
            threads: field(20)?,
            started: time(field(22)?),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page,
        })
    }

    fn write(&self, text: &mut Text) {
        let Self {
            cpu,
            threads,
            started,
            virtual_bytes,
            resident_bytes,
        } = self;
        let name = "process_cpu_seconds_total";
        let help = "Total user and system CPU time spent in seconds.";
        text.family(name, help, "counter");
        text.sample(name, &[], cpu.as_secs_f64());
        let gauges = [
            (
                "process_threads",
                "Number of OS threads in the process.",
                *threads as f64,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
                *virtual_bytes as f64,
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
                *resident_bytes as f64,
            ),
        ];
        for (name, help, value) in gauges {
            text.gauge(name, help, value);
        }
        if let Some(boot) = boot_time() {
            text.gauge(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
                (boot + *started).as_secs_f64(),
            );
        }
    }
}

/// When the machine started, after 1970.
fn boot_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok().map(Duration::from_secs)
}

/// Writes how busy the threads of these runtimes are.
pub(crate) fn write_runtimes(text: &mut Text, runtimes: &[(&str, &Handle)]) {
    type Value = fn(&Handle) -> f64;
    let families: [(&str, &str, &str, Value); 4] = [
        (
            "readstates_runtime_workers",
            "Threads of the runtime that answers clients, and of the one that works behind their backs.",
            "gauge",
            |runtime| runtime.metrics().num_workers() as f64,
        ),
        (
            "readstates_runtime_tasks",
            "Tasks that are alive in a runtime.",
            "gauge",
            |runtime| runtime.metrics().num_alive_tasks() as f64,
        ),
        (
            "readstates_runtime_queued_tasks",
            "Tasks that wait in the queue that all threads of a runtime share.",
            "gauge",
            |runtime| runtime.metrics().global_queue_depth() as f64,
        ),
        (
            "readstates_runtime_busy_seconds_total",
            "Time that the threads of a runtime were not idle, all together.",
            "counter",
            busy_seconds,
        ),
    ];
    for (name, help, kind, value) in families {
        text.family(name, help, kind);
        for (runtime, handle) in runtimes {
            text.sample(name, &[("runtime", runtime)], value(handle));
        }
    }
}

fn busy_seconds(runtime: &Handle) -> f64 {
    let metrics = runtime.metrics();
    let workers = 0..metrics.num_workers();
    let busy: Duration = workers
        .map(|worker| metrics.worker_total_busy_duration(worker))
        .sum();
    busy.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_program_is_called() {
        let line = "77 (a) b (c) S 1 77 77 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 400 8192 3 \
                    18446744073709551615 0 0";
        let stat = Stat {
            cpu: Duration::from_secs(2),
            threads: 9,
            started: Duration::from_secs(4),
            virtual_bytes: 8192,
            resident_bytes: 3 * 4096,
        };
        assert_eq!(Stat::of(line, 100, 4096), Some(stat));
        assert_eq!(Stat::of("77 (a) S 1", 100, 4096), None);
    }

    #[test]
    fn this_process_has_threads_memory_and_a_start_before_now() {
        let stat = Stat::read().unwrap();
        assert!(stat.threads >= 1 && stat.resident_bytes > 1 << 20);
        let started = boot_time().unwrap() + stat.started;
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        assert!(
            started < now + Duration::from_secs(2),
            "{started:?} {now:?}"
        );
    }
}
