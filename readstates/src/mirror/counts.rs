//! What is counted, for Prometheus and for the summary at the end.

use std::fmt;

use readstates_metrics::{Counter, Text};
use strum::{EnumCount, IntoStaticStr};

use super::compare::{Difference, Kind};

/// Why an answer was not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Skipped {
    /// Too many comparisons are under way.
    Busy,
    /// The old system answered with another status than 200, or not at all.
    Status,
    /// The old system's answer is compressed, too large, or not of the shape that the routes file describes.
    Unreadable,
    /// The service did not answer.
    Unanswered,
}

impl Skipped {
    const ALL: [Self; Self::COUNT] = [Self::Busy, Self::Status, Self::Unreadable, Self::Unanswered];

    fn name(self) -> &'static str {
        self.into()
    }
}

/// All counters. Requests are counted by route, and behind the routes those of none.
#[derive(Debug, Default)]
pub(super) struct Counts {
    requests: Vec<(String, Counter)>,
    /// Requests that the old system did not answer.
    pub(super) unanswered: Counter,
    /// Writes that the service has.
    pub(super) mirrored: Counter,
    /// Writes that the service did not take in time, or refused.
    pub(super) failed: Counter,
    /// Writes for which there was no place in the queue.
    pub(super) dropped: Counter,
    /// Requests of a route whose values could not be read.
    pub(super) unreadable: Counter,
    /// Requests of a route whose body was too large to be read.
    pub(super) too_large: Counter,
    /// Writes of which the old system did not say whether they are done.
    pub(super) unknown: Counter,
    /// How often a user ceased to be proven.
    pub(super) unproven: Counter,
    pub(super) equal: Counter,
    pub(super) different: Counter,
    /// Comparisons that ended without a result, since writes of the user were always under way.
    pub(super) unsettled: Counter,
    kinds: [Counter; Kind::ALL.len()],
    /// Differences that are not in the file.
    pub(super) not_written: Counter,
    skipped: [Counter; Skipped::ALL.len()],
    pub(super) served: Counter,
    /// Reads of proven users for which the service did not answer.
    pub(super) fallbacks: Counter,
}

/// The numbers that go up and down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) queued: usize,
    pub(super) proven: usize,
}

impl Counts {
    pub(super) fn new(routes: impl Iterator<Item = String>) -> Self {
        let names = routes.chain(["other".to_owned()]);
        Self {
            requests: names.map(|name| (name, Counter::default())).collect(),
            ..Self::default()
        }
    }

    /// A request of a route, or of none.
    pub(super) fn request(&self, route: Option<usize>) {
        let other = self.requests.len() - 1;
        self.requests[route.unwrap_or(other)].1.increment(1);
    }

    pub(super) fn skip(&self, why: Skipped) {
        self.skipped[why as usize].increment(1);
    }

    pub(super) fn differ(&self, found: &[Difference]) {
        self.different.increment(1);
        for difference in found {
            self.kinds[difference.kind as usize].increment(1);
        }
    }

    /// The page for Prometheus.
    pub(super) fn page(&self, now: Now) -> String {
        let mut text = Text::default();
        text.build_info("readstates_mirror_build_info", env!("CARGO_PKG_VERSION"));
        self.write_families(&mut text);
        let help = "Reads that were answered with what the service has.";
        text.counter("readstates_mirror_served_total", help, self.served.get());
        let help = "Reads that the service should have answered, and the old system did.";
        let fallbacks = self.fallbacks.get();
        text.counter("readstates_mirror_fallbacks_total", help, fallbacks);
        let help = "How often a user ceased to be served by the service.";
        let unproven = self.unproven.get();
        text.counter("readstates_mirror_unproven_total", help, unproven);
        let help = "Requests that the old system did not answer.";
        let unanswered = self.unanswered.get();
        text.counter("readstates_mirror_old_unanswered_total", help, unanswered);
        let help = "Differences that --differences has no room for.";
        let not_written = self.not_written.get();
        text.counter("readstates_mirror_not_written_total", help, not_written);
        let help = "Writes that wait for the service or are there, counted by their users.";
        text.gauge("readstates_mirror_queue_length", help, now.queued as f64);
        let help = "Users who may be served by the service.";
        text.gauge("readstates_mirror_proven_users", help, now.proven as f64);
        text.finish()
    }

    /// Counters that differ in one label.
    fn write_families(&self, text: &mut Text) {
        let mut family = |name, help, label, counters: &[(&str, &Counter)]| {
            text.family(name, help, "counter");
            for (value, counter) in counters {
                text.sample(name, &[(label, *value)], counter.get() as f64);
            }
        };
        let requests = self.requests.iter();
        let requests: Vec<_> = requests.map(|(route, count)| (&**route, count)).collect();
        let help = "Requests, by route; other: those of no route.";
        family("readstates_mirror_requests_total", help, "route", &requests);
        let writes = [
            ("mirrored", &self.mirrored),
            ("failed", &self.failed),
            ("dropped", &self.dropped),
            ("unreadable", &self.unreadable),
            ("too_large", &self.too_large),
            ("unknown", &self.unknown),
        ];
        let help = "Writes that the old system has done or may have done, by what became of them at the service.";
        family("readstates_mirror_writes_total", help, "result", &writes);
        let comparisons = [
            ("equal", &self.equal),
            ("different", &self.different),
            ("unsettled", &self.unsettled),
        ];
        let (name, help) = (
            "readstates_mirror_comparisons_total",
            "Answers of the old system that were compared, by result.",
        );
        family(name, help, "result", &comparisons);
        let skipped = Skipped::ALL.map(|why| (why.name(), &self.skipped[why as usize]));
        let help = "Answers that were not compared, by reason.";
        family("readstates_mirror_skipped_total", help, "reason", &skipped);
        let kinds = Kind::ALL.map(|kind| (kind.name(), &self.kinds[kind as usize]));
        let help = "Channels that differed, twice in a row, by kind.";
        family("readstates_mirror_differences_total", help, "kind", &kinds);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (route, count) in &self.requests {
            writeln!(f, "requests       {route}: {}", count.get())?;
        }
        let lost = [
            &self.failed,
            &self.dropped,
            &self.unreadable,
            &self.too_large,
            &self.unknown,
        ];
        let [failed, dropped, unreadable, too_large, unknown] = lost.map(Counter::get);
        writeln!(
            f,
            "writes         {} mirrored, {failed} failed, {dropped} dropped, {unreadable} unreadable, {too_large} too large, \
             {unknown} unknown",
            self.mirrored.get()
        )?;
        let skipped: u64 = self.skipped.iter().map(Counter::get).sum();
        writeln!(
            f,
            "comparisons    {} equal, {} different, {} unsettled, {skipped} skipped",
            self.equal.get(),
            self.different.get(),
            self.unsettled.get()
        )?;
        let kinds = Kind::ALL.map(|kind| {
            let count = self.kinds[kind as usize].get();
            format!("{count} {}", kind.name())
        });
        writeln!(f, "differences    {}", kinds.join(", "))?;
        write!(
            f,
            "served         {} from the service, {} fell back to the old system",
            self.served.get(),
            self.fallbacks.get()
        )
    }
}
