//! What a member shows of its backups.

use std::sync::atomic::Ordering;

use readstates_api::admin::ReplicationStatus;

use crate::{metrics::Text, ownership::Ownership};

impl Ownership {
    /// How the slots of this member are backed, if they are to be.
    pub(in crate::ownership) fn replication(&self) -> Option<ReplicationStatus> {
        let replicas = self.engine.cache().replicas()?;
        let since = *self.unprotected_since.lock();
        Some(ReplicationStatus {
            unprotected: replicas.owner.unprotected(),
            unprotected_seconds: since.map_or(0, |since| since.elapsed().as_secs()),
            backing: replicas.holding.backing(),
            held_bytes: replicas.holding.bytes() as u64,
            lost_users: replicas.lost_users(),
            store_drops_backups: self.backups_dropped.lock().is_some(),
        })
    }

    pub(super) fn write_backed(&self, text: &mut Text) {
        let status = self.replication().unwrap_or_default();
        let owner = self.engine.cache().replicas().map(|it| &it.owner);
        let (resting, rest) = owner.map(|it| it.resting()).unwrap_or_default();
        let patience = owner.map(|it| it.patience()).unwrap_or_default();
        let gauges = [
            (
                "readstates_slots_unprotected",
                "Owned slots without a backup, where there are to be backups.",
                f64::from(status.unprotected),
            ),
            (
                "readstates_unprotected_seconds",
                "For how long there has been such a slot without a break.",
                status.unprotected_seconds as f64,
            ),
            (
                "readstates_slots_backup_held_back",
                "Slots without a backup that get none until the clock has come nearer to their epochs: theirs came and went too often.",
                self.counters.backups_held_back.load(Ordering::Relaxed) as f64,
            ),
            (
                "readstates_backups_resting",
                "Members that get no slots of this one to back for now: they were slow, or had no room, and were given up.",
                resting as f64,
            ),
            (
                "readstates_backup_rest_seconds",
                "Until every member that rests as a backup may be asked again.",
                rest.as_secs_f64(),
            ),
            (
                "readstates_backup_patience_seconds",
                "How late a backup may answer before it is given up: the longest, of the slowest one.",
                patience.as_secs_f64(),
            ),
            (
                "readstates_slots_backed",
                "Slots of other members that have this one as their backup.",
                f64::from(status.backing),
            ),
            (
                "readstates_backup_held_bytes",
                "Bytes of memory that hold what other members have acknowledged and not written.",
                status.held_bytes as f64,
            ),
            (
                "readstates_backup_pending_bytes",
                "Bytes that wait to be sent to backups.",
                owner.map_or(0, |owner| owner.pending_of_all()) as f64,
            ),
            (
                "readstates_backup_waiting_answers",
                "Answers that wait for backups.",
                owner.map_or(0, |owner| owner.waiting()) as f64,
            ),
            (
                "readstates_ring_drops_backups",
                "1 while the store of the ring does not keep backups: its definition of the ring is of an older release.",
                f64::from(u8::from(status.store_drops_backups)),
            ),
        ];
        for (name, help, value) in gauges {
            text.gauge(name, help, value);
        }
        let counters = [
            (
                "readstates_slots_promoted_total",
                "Slots that this member was promoted for, because their owners were silent or had no lease.",
                self.counters.promoted.load(Ordering::Relaxed),
            ),
            (
                "readstates_backups_named_total",
                "Slots that got a backup, or another one.",
                self.counters.backups_named.load(Ordering::Relaxed),
            ),
            (
                "readstates_backups_dropped_total",
                "Slots whose backup was given up, because it was slow, refused the slot or left.",
                self.counters.backups_dropped.load(Ordering::Relaxed),
            ),
            (
                "readstates_backup_lost_users_total",
                "Users of whom acknowledged changes were lost although there was a backup.",
                status.lost_users,
            ),
        ];
        for (name, help, value) in counters {
            text.counter(name, help, value);
        }
        let name = "readstates_backup_frame_seconds";
        let help = "Time from sending a frame of changes to a backup until that acknowledged it.";
        text.family(name, help, "histogram");
        text.histogram(name, &[], &self.timings.frames);
    }
}
