//! The service's own metrics, what its processes take and what the hypervisor steals, once a second: what went on
//! when latencies rose.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use crate::{config::Target, get::get, process, steal};

/// Metrics without labels, by name, summed over the members.
pub type Sample = BTreeMap<String, f64>;

/// Longest: a sample that takes longer is missing.
const PATIENCE: Duration = Duration::from_millis(900);

/// What is sampled, besides the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    /// Members, by address and the name they are asked by.
    pub(crate) members: Vec<(SocketAddr, Target)>,
    /// Processes of this machine.
    pub(crate) processes: Vec<u32>,
}

impl Watched {
    /// The sum over all of them; `None` when one does not answer.
    fn sample(&self) -> Option<Sample> {
        let mut sum = steal::sample();
        for (address, target) in &self.members {
            let text = get(*address, target, "/metrics", PATIENCE).ok()?;
            sum = add(sum, &parse(&String::from_utf8_lossy(&text)));
        }
        Some(add(sum, &process::sum(&self.processes).ok()?))
    }
}

/// Samples at the end of every second until `stop` is dropped: `samples[n]` is of the end of second n.
pub(crate) fn sample(
    watched: &Watched,
    first_second: Instant,
    stop: &Receiver<()>,
) -> Vec<Option<Sample>> {
    let mut samples = Vec::new();
    loop {
        let next = first_second + Duration::from_secs(samples.len() as u64 + 1);
        match stop.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return samples,
        }
        samples.push(watched.sample());
    }
}

fn add(mut sum: Sample, sample: &Sample) -> Sample {
    for (name, value) in sample {
        *sum.entry(name.clone()).or_default() += value;
    }
    sum
}

/// Reads the Prometheus text format: lines without labels.
#[must_use]
pub fn parse(text: &str) -> Sample {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.contains('{'))
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_without_labels_are_read_and_others_passed_over() {
        let text = "# HELP a_total Some.\n# TYPE a_total counter\na_total 3\n\
                    b_bucket{le=\"0.1\"} 7\nc 1.5e3\nbroken\n";
        let expected = [("a_total".to_owned(), 3.0), ("c".to_owned(), 1500.0)];
        assert_eq!(parse(text), Sample::from(expected));
    }
}
