//! A ration of log lines: a flood of what they are about cannot fill a disk.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines that may come at once.
const BURST: u32 = 20;
/// After them, one in so much time.
const ONE_IN: Duration = Duration::from_secs(1);

/// A ration of lines.
#[derive(Debug, Default)]
pub(crate) struct Ration(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// Lines of the burst that are used up.
    used: u32,
    since: Option<Instant>,
    left_out: u64,
}

impl Ration {
    /// How many lines were left out before this one; `None` when this one is left out, too.
    pub(crate) fn take(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock();
        let Counted {
            used,
            since,
            left_out,
        } = &mut *counted;
        let since = since.get_or_insert(now);
        let regained = now.saturating_duration_since(*since).as_nanos() / ONE_IN.as_nanos();
        if regained > 0 {
            *used = used.saturating_sub(u32::try_from(regained).unwrap_or(u32::MAX));
            *since = now;
        }
        if *used == BURST {
            *left_out += 1;
            return None;
        }
        *used += 1;
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_a_burst_of_lines_and_then_one_a_second_that_counts_the_others() {
        let (ration, start) = (Ration::default(), Instant::now());
        let lines = (0..1000).filter_map(|_| ration.take(start));
        assert_eq!(lines.collect::<Vec<_>>(), vec![0; BURST as usize]);
        let later = start + ONE_IN;
        assert_eq!(ration.take(later), Some(980));
        assert_eq!(ration.take(later), None);
        assert_eq!(ration.take(start + 2 * ONE_IN), Some(1));
        let quiet = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter_map(|_| ration.take(quiet)).count(), 20);
    }
}
