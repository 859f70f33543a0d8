//! The report as metrics, in the text format of Prometheus. Pure.
//!
//! Names and labels never change; the device names, which do, are not among them.

use readstates_metrics::{Labels, Text};
use strum::{VariantArray, VariantNames};

use crate::{
    heal::{
        Condition, WaitingOn,
        facts::{Leg, Mirror},
    },
    lineage::BrokenSlots,
    md::SyncAction,
    model::Code,
    status::Report,
    sysfs::SECTOR_BYTES,
};

/// All metrics of a super-disk.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut page = Page::default();
    page.text
        .build_info("superdisk_build_info", env!("CARGO_PKG_VERSION"));
    state(&mut page, report);
    let mirror = report
        .facts
        .as_ref()
        .and_then(|facts| facts.mirror.as_ref());
    if let Some(mirror) = mirror {
        legs(&mut page, mirror);
        background(&mut page, mirror);
    }
    let broken = report
        .facts
        .as_ref()
        .and_then(|facts| facts.stripe.as_ref())
        .is_some_and(|stripe| !stripe.whole());
    page.gauge(
        "superdisk_fast_array_broken",
        "Whether a local disk is gone from the fast array or the array refuses all IO.",
    );
    page.value(&[], u64::from(broken));
    past(&mut page, report);
    page.text.finish()
}

fn state(page: &mut Page, report: &Report) {
    page.gauge(
        "superdisk_state",
        "1 for the condition the super-disk is in, 0 for the others.",
    );
    for &word in Condition::VARIANTS {
        page.value(
            &[("state", word)],
            u64::from(word == report.condition.word()),
        );
    }
    let waiting = match report.condition {
        Condition::FastLost { waiting_on } => Some(waiting_on.word()),
        Condition::NotAssembled
        | Condition::DurableLost { .. }
        | Condition::WrongWay
        | Condition::Healthy
        | Condition::Rebuilding => None,
    };
    page.gauge(
        "superdisk_waiting_on",
        "1 for what the repair of the fast leg waits for.",
    );
    for &word in WaitingOn::VARIANTS {
        page.value(&[("on", word)], u64::from(waiting == Some(word)));
    }
    page.gauge(
        "superdisk_mounted",
        "Whether the filesystem is mounted where it belongs.",
    );
    page.value(&[], u64::from(report.mounted));
    page.gauge(
        "superdisk_ready",
        "Whether it is mounted and what is written lasts.",
    );
    page.value(&[], u64::from(report.ready));
    let frozen = matches!(
        report.condition,
        Condition::DurableLost { frozen: true, .. }
    );
    page.gauge(
        "superdisk_frozen",
        "Whether writes are stopped because the durable leg is lost, or was.",
    );
    page.value(&[], u64::from(frozen));
    page.gauge(
        "superdisk_refused",
        "1 for the code with which it is not assembled.",
    );
    let refused = report.refusal.as_ref().map(|refusal| refusal.code.as_str());
    for code in Code::VARIANTS {
        let is = refused == Some(code.as_str());
        page.value(&[("code", code.as_str())], u64::from(is));
    }
}

fn legs(page: &mut Page, mirror: &Mirror) {
    let durable = ("durable", mirror.durable.as_ref());
    let fast = ("fast", mirror.fast.as_ref());
    let mut each = |name, kind, help, value: &dyn Fn(&Leg) -> f64| {
        page.head(name, kind, help);
        for (leg, facts) in [durable, fast] {
            // A leg that is away is not in sync, and counts nothing.
            page.number(&[("leg", leg)], facts.map_or(0.0, value));
        }
    };
    each(
        "superdisk_leg_in_sync",
        "gauge",
        "Whether the leg has everything.",
        &|leg| f64::from(u8::from(leg.in_sync())),
    );
    each(
        "superdisk_leg_read_errors_total",
        "counter",
        "Sectors of 512 bytes that could not be read and were healed from the other leg.",
        &|leg| leg.healed_sectors as f64,
    );
    each(
        "superdisk_leg_bad_blocks",
        "gauge",
        "Sectors of 512 bytes that could not be healed.",
        &|leg| leg.bad_sectors as f64,
    );
    each(
        "superdisk_leg_reads_total",
        "counter",
        "Reads that the leg completed since its device appeared.",
        &|leg| leg.traffic.reads as f64,
    );
    each(
        "superdisk_leg_read_seconds_total",
        "counter",
        "Time that they took together: its rate over the rate of reads is the latency.",
        &|leg| leg.traffic.read_ms as f64 / 1e3,
    );
    each(
        "superdisk_leg_writes_total",
        "counter",
        "Writes that the leg completed since its device appeared.",
        &|leg| leg.traffic.writes as f64,
    );
    each(
        "superdisk_leg_write_seconds_total",
        "counter",
        "Time that they took together.",
        &|leg| leg.traffic.write_ms as f64 / 1e3,
    );
    if let Some(durable) = &mirror.durable {
        page.head(
            "superdisk_durable_reads_total",
            "counter",
            "Reads of the network disk: about none while the super-disk is healthy.",
        );
        page.value(&[], durable.traffic.reads);
    }
}

fn background(page: &mut Page, mirror: &Mirror) {
    let in_sync = mirror.fast.as_ref().is_some_and(Leg::in_sync);
    let recovering = mirror.sync.action == SyncAction::Recover;
    let ratio = match mirror.sync.progress {
        Some((done, all)) if recovering && all > 0 => done as f64 / all as f64,
        Some(_) | None if in_sync => 1.0,
        Some(_) | None => 0.0,
    };
    page.gauge(
        "superdisk_recovery_ratio",
        "How much of the fast leg is filled: 1 when it is in sync.",
    );
    page.number(&[], ratio);
    page.gauge(
        "superdisk_recovery_bytes_per_second",
        "How fast it is being filled.",
    );
    page.value(
        &[],
        if recovering {
            mirror.sync.kib_per_second << 10
        } else {
            0
        },
    );
    page.gauge(
        "superdisk_write_behind_requests",
        "Writes that md may acknowledge before the durable leg has them: 0, or a snapshot is not complete.",
    );
    page.value(&[], mirror.knobs.backlog);
    page.gauge("superdisk_size_bytes", "Capacity of the mirror.");
    page.value(&[], mirror.bytes);
}

fn past(page: &mut Page, report: &Report) {
    let BrokenSlots { durable, fast } = report.broken_slots;
    page.gauge(
        "superdisk_header_slot_broken",
        "Whether one of the two slots of the leg's lineage header did not take the last one.",
    );
    for (leg, broken) in [("durable", durable), ("fast", fast)] {
        page.value(&[("leg", leg)], u64::from(broken));
    }
    page.gauge(
        "superdisk_mismatch_sectors",
        "Sectors of 512 bytes that the last check found to differ, in units of whole requests.",
    );
    page.value(&[], report.check.last_mismatch);
    page.gauge(
        "superdisk_patrol_unreadable_bytes",
        "What the last patrol could read from neither leg.",
    );
    page.value(&[], report.patrol.last_unreadable * 8 * SECTOR_BYTES);
    for (name, help, at) in [
        (
            "superdisk_last_patrol_timestamp_seconds",
            "When everything was last read.",
            report.patrol.last_finished,
        ),
        (
            "superdisk_last_check_timestamp_seconds",
            "When the legs were last compared, or first put together.",
            report.check.last_finished,
        ),
        (
            "superdisk_last_beat_timestamp_seconds",
            "When the lineage header was last written: every ten seconds while it runs.",
            report.last_beat,
        ),
        (
            "superdisk_generation",
            "Number of the super-disk's present life, from the header on the durable leg.",
            report.generation,
        ),
    ] {
        // Never is no time: a metric that is absent can be alerted on, 1970 only misread.
        if let Some(at) = at {
            page.gauge(name, help);
            page.value(&[], at);
        }
    }
}

/// A page whose samples stand below the head of their family.
#[derive(Default)]
struct Page {
    text: Text,
    family: &'static str,
}

impl Page {
    fn head(&mut self, name: &'static str, kind: &str, help: &str) {
        self.text.family(name, help, kind);
        self.family = name;
    }

    fn gauge(&mut self, name: &'static str, help: &str) {
        self.head(name, "gauge", help);
    }

    fn value(&mut self, labels: Labels<'_>, value: u64) {
        self.number(labels, value as f64);
    }

    fn number(&mut self, labels: Labels<'_>, value: f64) {
        self.text.sample(self.family, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        heal::memory::Memory,
        status::{
            RefusalReport,
            tests::{lost, sample},
        },
    };

    fn lines(report: &Report) -> Vec<String> {
        let text = text(report);
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    }

    fn has(report: &Report, wanted: &[&str]) {
        let lines = lines(report);
        for line in wanted {
            assert!(
                lines.iter().any(|one| one == line),
                "{line} is not in {lines:#?}"
            );
        }
    }

    #[test]
    fn a_healthy_super_disk_measures_as_one() {
        has(
            &sample(&Memory::default()),
            &[
                "superdisk_state{state=\"healthy\"} 1",
                "superdisk_state{state=\"durable-lost\"} 0",
                "superdisk_ready 1",
                "superdisk_leg_in_sync{leg=\"durable\"} 1",
                "superdisk_leg_in_sync{leg=\"fast\"} 1",
                "superdisk_leg_read_errors_total{leg=\"fast\"} 24",
                "superdisk_leg_bad_blocks{leg=\"durable\"} 0",
                "superdisk_leg_read_seconds_total{leg=\"fast\"} 0",
                "superdisk_durable_reads_total 12",
                "superdisk_recovery_ratio 1",
                "superdisk_fast_array_broken 0",
                "superdisk_refused{code=\"E_PD_LOST\"} 0",
                "superdisk_write_behind_requests 0",
                "superdisk_waiting_on{on=\"durable-unreadable\"} 0",
                "superdisk_generation 7",
                concat!(
                    "superdisk_build_info{version=\"",
                    env!("CARGO_PKG_VERSION"),
                    "\"} 1"
                ),
            ],
        );
    }

    /// What `promtool check metrics` is given.
    #[test]
    fn the_page_is_as_it_was() {
        let version = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
        let page = text(&sample(&Memory::default())).replace(version, "{version=\"1\"}");
        assert_eq!(page, include_str!("metrics.prom"), "it is now: {page}");
    }

    #[test]
    fn the_red_line_is_measured() {
        has(
            &sample(&Memory {
                frozen: true,
                ..Memory::default()
            }),
            &[
                "superdisk_state{state=\"durable-lost\"} 1",
                "superdisk_frozen 1",
                "superdisk_ready 0",
            ],
        );
        has(
            &lost(),
            &[
                "superdisk_state{state=\"durable-lost\"} 1",
                "superdisk_ready 0",
                "superdisk_mounted 1",
                "superdisk_frozen 0",
                "superdisk_leg_in_sync{leg=\"durable\"} 0",
            ],
        );
    }

    #[test]
    fn a_broken_slot_is_measured_for_its_leg() {
        let mut memory = Memory::default();
        let broken = BrokenSlots {
            durable: true,
            fast: false,
        };
        memory.beat(0, broken);
        has(
            &sample(&memory),
            &[
                "superdisk_header_slot_broken{leg=\"durable\"} 1",
                "superdisk_header_slot_broken{leg=\"fast\"} 0",
            ],
        );
    }

    #[test]
    fn a_refusal_is_measured_by_its_code_and_what_never_happened_is_absent() {
        let mut report = sample(&Memory::default());
        report.facts = None;
        report.refusal = Some(RefusalReport {
            code: "E_SSD_MISSING".to_owned(),
            text: String::new(),
        });
        report.patrol.last_finished = None;
        has(&report, &["superdisk_refused{code=\"E_SSD_MISSING\"} 1"]);
        let text = text(&report);
        assert!(
            !text.contains("superdisk_last_patrol_timestamp_seconds"),
            "{text}"
        );
        assert!(!text.contains("superdisk_leg_in_sync"), "{text}");
    }

    #[test]
    fn every_value_stands_below_its_own_head() {
        let text = text(&sample(&Memory::default()));
        let mut name = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                name = rest.split(' ').next().unwrap().to_owned();
            } else if !line.starts_with('#') {
                let own = line.split(['{', ' ']).next().unwrap();
                assert_eq!(own, name);
            }
        }
        assert!(
            text.lines()
                .filter(|line| line.starts_with("# TYPE"))
                .count()
                > 20
        );
    }
}
