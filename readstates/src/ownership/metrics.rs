//! What ownership shows of itself.

mod backed;

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Ownership, clocks::Verdict};
use crate::metrics::{Histogram, Text, families};

families! {
    /// What ownership counts, since the start.
    pub(crate) struct Counters {
        total taken = "readstates_slots_taken_total",
            "Slots taken that nobody owned, or whose owner was over.";
        total taken_from_the_dead = "readstates_slots_taken_from_the_dead_total",
            "Those of them whose owner had not said that everything was written.";
        total handed = "readstates_slots_handed_total", "Slots handed to other members.";
        total retaken = "readstates_slots_retaken_total",
            "Slots taken again under a new epoch, after a move or a lease that failed.";
        total sent_blocks = "readstates_handoff_blocks_total",
            "Blocks sent to other members with their slots.";
        total sent_bytes = "readstates_handoff_bytes_total",
            "Bytes sent to other members with slots.";
        total received_blocks = "readstates_handoff_received_blocks_total",
            "Blocks received from other members with their slots.";
        total lapses = "readstates_lease_lapses_total",
            "How often the lease ran out while slots were owned.";
        total gave_up_waiting = "readstates_slot_queue_timeouts_total",
            "Requests that waited for a slot for too long.";
        total renewal_failures = "readstates_lease_renewal_failures_total",
            "Renewals of the lease that failed or were not answered in time.";
        total doubts = "readstates_lease_doubts_total",
            "How often everything was written because the lease was not renewed in time.";
        total swap_conflicts = "readstates_ring_swap_conflicts_total",
            "Swaps of the ring that lost to another member's.";
        total swaps_forbidden = "readstates_ring_swaps_forbidden_total",
            "Slots that were not swapped because their epochs are too far ahead of the clock.";
        total mended = "readstates_ring_mended_total",
            "How often the member wrote back what a restored or deleted ring had forgotten.";
        total kept = "readstates_slots_kept_total",
            "Slots that stayed with the member that served them, though a restored ring named others.";
        total not_agreed = "readstates_slots_not_agreed_total",
            "Slots served before every living member had said that it has seen the ring that names the owner.";
        total doubted = "readstates_slots_doubted_total",
            "Slots taken once more, from the database, because the ring had forgotten what a member has seen.";
    } and {
        pub(crate) promoted: AtomicU64 = AtomicU64::default();
        pub(crate) backups_named: AtomicU64 = AtomicU64::default();
        pub(crate) backups_dropped: AtomicU64 = AtomicU64::default();
        /// Not a count since the start: slots that wait for a backup now until the clock has come nearer to their epochs.
        pub(crate) backups_held_back: AtomicU64 = AtomicU64::default();
    }
}

/// How long things took, since the start.
#[derive(Debug, Default)]
pub(super) struct Timings {
    /// From the seal of a batch of slots until the ring named its next owner.
    pub(super) sealed: Histogram,
    /// From sending a frame to a backup until it was acknowledged.
    pub(super) frames: Histogram,
}

impl Ownership {
    /// Writes it for Prometheus.
    pub(crate) fn write(&self, text: &mut Text) {
        self.write_lease_and_clock(text);
        self.write_slots(text);
        self.counters.write_families(text);
        let name = "readstates_handoff_sealed_seconds";
        let help = "Time from the seal of a batch of slots until the ring named its next owner.";
        text.family(name, help, "histogram");
        text.histogram(name, &[], &self.timings.sealed);
        self.write_backed(text);
        self.store.write(text);
    }

    fn write_lease_and_clock(&self, text: &mut Text) {
        let clock = self.clock_verdict();
        let ahead = match clock {
            Verdict::Wrong { ahead } => ahead as f64 / 1e6,
            Verdict::Right | Verdict::Unheard => 0.0,
        };
        let left = self.lease.left();
        let gauges = [
            (
                "readstates_clock_wrong",
                "1 while the machine's clock is contradicted by all that it is compared with, and no slots are taken.",
                as_number(ahead != 0.0),
            ),
            (
                "readstates_clock_ahead_seconds",
                "How far a wrong clock is ahead of the others, or behind when negative; 0 while it is right.",
                ahead,
            ),
            (
                "readstates_clock_store_ahead_seconds",
                "How far the ring store's time is ahead of the one that the members agree on, while they are a minute apart or more; else 0.",
                self.store_ahead_seconds(),
            ),
            (
                "readstates_lease_left_seconds",
                "For how long the member may acknowledge changes yet if the lease is not renewed.",
                left.as_secs_f64(),
            ),
            (
                "readstates_ring_behind",
                "1 while the ring store knows less than the member, because it was restored.",
                as_number(self.is_behind()),
            ),
            (
                "readstates_lease_valid",
                "1 while the member may acknowledge changes.",
                as_number(self.lease.is_valid()),
            ),
            (
                "readstates_draining",
                "1 while the member hands on what it owns.",
                as_number(self.draining.load(Ordering::Relaxed)),
            ),
            (
                "readstates_ring_number",
                "The number of the ring that the member works by.",
                self.routes.load().number() as f64,
            ),
        ];
        for (name, help, value) in gauges {
            text.gauge(name, help, value);
        }
    }

    fn write_slots(&self, text: &mut Text) {
        let counts = self.slots.counts();
        let gauges = [
            (
                "readstates_slots_owned",
                "Slots of the ring that are this member's.",
                f64::from(counts.owned),
            ),
            (
                "readstates_slots_sealed",
                "Those of them that are on the way to their next epoch.",
                f64::from(counts.sealed),
            ),
            (
                "readstates_slots_taking",
                "Slots that are the member's and not served yet: not every member has said that it has seen the ring.",
                self.slots.taking().len() as f64,
            ),
            (
                "readstates_slots_receiving",
                "Slots that another member is sending here.",
                f64::from(counts.receiving),
            ),
            (
                "readstates_slots_regressed",
                "Slots of which the database holds blocks of later epochs than the ring's.",
                self.engine.cache().regressed().len() as f64,
            ),
            (
                "readstates_slot_queue",
                "Requests that wait for sealed slots.",
                self.gate.queue.used() as f64,
            ),
        ];
        for (name, help, value) in gauges {
            text.gauge(name, help, value);
        }
    }
}

fn as_number(is: bool) -> f64 {
    f64::from(u8::from(is))
}
