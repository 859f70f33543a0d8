//! Processor time that the hypervisor of this machine gave to others, from `/proc/stat`: no program here can prevent
//! it, and every program here waits meanwhile.

use std::fs;

use crate::{metrics::Sample, process::TICKS_PER_SECOND};

/// Milliseconds of processor time, of all processors together, that were kept from this machine since it began. Linux
/// counts them in ticks of ten; a machine that is not virtual has none.
pub const STOLEN_MILLIS: &str = "machine_cpu_steal_milliseconds_total";

/// The current count, by the name above; empty where the kernel does not tell.
#[must_use]
pub fn sample() -> Sample {
    let told = fs::read_to_string("/proc/stat").ok();
    let stolen = told.as_deref().and_then(millis);
    stolen
        .map(|millis| (STOLEN_MILLIS.to_owned(), millis))
        .into_iter()
        .collect()
}

/// The eighth number of the line of all processors (proc_stat(5)).
fn millis(stat: &str) -> Option<f64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = all.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(ticks as f64 * 1000.0 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_number_of_all_processors_is_told_in_milliseconds() {
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 3 9 10\nintr 5\n";
        assert_eq!(millis(stat), Some(80.0));
        assert_eq!(millis("cpu  1 2 3 4\n"), None);
        assert_eq!(millis("cpu0 1 2 3 4 5 6 7 8 9 10\n"), None);
    }

    #[test]
    fn this_machine_tells() {
        assert!(sample()[STOLEN_MILLIS] >= 0.0);
    }
}
