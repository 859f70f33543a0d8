//! Audit lines: who asked for what, and what became of it. Log target `audit`.
//!
//! One line for each deletion of a user, each order on the admin port, and each refusal for want of proof or rights.
//! Refusals are rationed, so that a flood of them cannot fill a disk: a line says how many were left out before it.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use http::StatusCode;
use parking_lot::Mutex;

/// Lines that may come at once.
const BURST: u32 = 20;
/// After them, one in so much time.
const ONE_IN: Duration = Duration::from_secs(1);

/// A ration of lines.
#[derive(Debug, Default)]
pub(super) struct Ration(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// Lines of the burst that are used up.
    used: u32,
    since: Option<Instant>,
    left_out: u64,
}

impl Ration {
    /// How many lines were left out before this one; `None` when this one is left out, too.
    pub(super) fn take(&self, now: Instant) -> Option<u64> {
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

/// What a line is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The caller's name, or `anonymous`.
    pub(crate) who: &'a str,
    /// Where it calls from.
    pub(crate) from: SocketAddr,
    pub(crate) method: &'a str,
    /// The route, with names for the ids.
    pub(crate) route: &'a str,
}

/// A request was refused for want of proof or rights; `left_out`: as many before it have no line.
pub(super) fn refused(subject: Subject<'_>, status: u16, why: &str, left_out: u64) {
    let Subject {
        who,
        from,
        method,
        route,
    } = subject;
    tracing::warn!(target: "audit", who, %from, method, route, status, why, left_out, "refused");
}

/// A user was to be deleted.
pub(crate) fn user_deleted(subject: Subject<'_>, user: &str, status: StatusCode) {
    let Subject {
        who,
        from,
        method,
        route,
    } = subject;
    let status = status.as_u16();
    tracing::info!(target: "audit", who, %from, method, route, user, status, "deletion of a user");
}

/// An order came in on the admin port.
pub(crate) fn ordered(subject: Subject<'_>, status: StatusCode) {
    let Subject {
        who,
        from,
        method,
        route,
    } = subject;
    let status = status.as_u16();
    tracing::info!(target: "audit", who, %from, method, route, status, "admin order");
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
