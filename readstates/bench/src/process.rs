//! What a process of this machine takes, from `/proc`: processor time and memory.

use std::{fs, io};

use crate::metrics::Sample;

/// Seconds of processor time, of all its threads, since it began.
pub const CPU_SECONDS: &str = "process_cpu_seconds_total";
/// Bytes of memory that it has at the moment.
pub const RESIDENT_BYTES: &str = "process_resident_memory_bytes";
/// Ticks of `/proc/stat` and `/proc/PID/stat`: the kernel's `USER_HZ`, which is 100 on every Linux that programs are built for.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has taken and has, by the two names above.
///
/// # Errors
/// When there is no such process, or the kernel tells something else.
pub fn sample(process: u32) -> io::Result<Sample> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let strange = || io::Error::other(format!("what the kernel tells of process {process}"));
    Ok(Sample::from([
        (
            CPU_SECONDS.to_owned(),
            cpu_seconds(&stat).ok_or_else(strange)?,
        ),
        (
            RESIDENT_BYTES.to_owned(),
            resident_bytes(&status).ok_or_else(strange)?,
        ),
    ]))
}

/// The same of several processes together; nothing of none.
///
/// # Errors
/// When one of them is not there.
pub fn sum(processes: &[u32]) -> io::Result<Sample> {
    let mut sum = Sample::new();
    for process in processes {
        for (name, value) in sample(*process)? {
            *sum.entry(name).or_default() += value;
        }
    }
    Ok(sum)
}

/// Fields 14 and 15 (proc_pid_stat(5)), counted behind the name, which may hold spaces and brackets.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some((kib * 1024) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_moves_no_field() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 150 0 0 0 250 50 0 0 20 0 1 0 12 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        assert_eq!(
            resident_bytes("Name: a\nVmRSS:\t    12 kB\n"),
            Some(12288.0)
        );
        assert_eq!(resident_bytes("Name: a\n"), None);
    }

    #[test]
    fn this_process_has_memory_and_one_that_is_none_is_an_error() {
        let sample = sample(std::process::id()).unwrap();
        assert!(sample[RESIDENT_BYTES] > 100_000.0 && sample[CPU_SECONDS] >= 0.0);
        assert!(super::sample(u32::MAX).is_err());
    }
}
