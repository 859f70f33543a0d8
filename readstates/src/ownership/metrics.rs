//! What ownership shows of itself.

use std::sync::atomic::Ordering;

use super::{Counters, Ownership};
use crate::metrics::Text;

impl Ownership {
    /// Writes it for Prometheus.
    pub(crate) fn write(&self, text: &mut Text) {
        let counts = self.slots.counts();
        let as_number = |is: bool| f64::from(u8::from(is));
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
        let Counters {
            taken,
            taken_from_the_dead,
            handed,
            retaken,
            sent_blocks,
            sent_bytes,
            received_blocks,
            lapses,
            gave_up_waiting,
        } = &self.counters;
        let counters = [
            (
                "readstates_slots_taken_total",
                "Slots taken that nobody owned, or whose owner was over.",
                taken,
            ),
            (
                "readstates_slots_taken_from_the_dead_total",
                "Those of them whose owner had not said that everything was written.",
                taken_from_the_dead,
            ),
            (
                "readstates_slots_handed_total",
                "Slots handed to other members.",
                handed,
            ),
            (
                "readstates_slots_retaken_total",
                "Slots taken again under a new epoch, after a move or a lease that failed.",
                retaken,
            ),
            (
                "readstates_handoff_blocks_total",
                "Blocks sent to other members with their slots.",
                sent_blocks,
            ),
            (
                "readstates_handoff_bytes_total",
                "Bytes sent to other members with slots.",
                sent_bytes,
            ),
            (
                "readstates_handoff_received_blocks_total",
                "Blocks received from other members with their slots.",
                received_blocks,
            ),
            (
                "readstates_lease_lapses_total",
                "How often the lease ran out while slots were owned.",
                lapses,
            ),
            (
                "readstates_slot_queue_timeouts_total",
                "Requests that waited for a slot for too long.",
                gave_up_waiting,
            ),
        ];
        for (name, help, counter) in counters {
            text.counter(name, help, counter.load(Ordering::Relaxed));
        }
    }
}
