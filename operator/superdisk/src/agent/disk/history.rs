//! What the legs say of their history: beats, and the headers of snapshots and of an orderly end.

use std::{error::Error, sync::atomic::Ordering};

use super::{DiskError, SuperDisk, look::is_mounted};
use crate::{
    agent::beats::{BeatError, Headers},
    heal::facts::Facts,
    inventory::{self, Devices, Tried},
    lineage::{BrokenSlots, Header, State},
    snapshot::SnapshotId,
};

impl SuperDisk {
    /// Whether a plan is under way, which writes headers itself.
    #[must_use]
    pub fn is_planning(&self) -> bool {
        self.beats.once_free().is_none()
    }

    /// Writes the header of a snapshot to the durable leg, then to the fast leg; its generation.
    pub fn mark(&self, id: &SnapshotId, facts: &Facts) -> Result<u64, DiskError> {
        let failed = |error: Box<dyn Error + Send + Sync>| {
            DiskError::new(format!("write the header of the snapshot {id}"), error)
        };
        let Some(_beats) = self.beats.once_free() else {
            return Err(failed(
                "the agent is assembling or repairing the super-disk".into(),
            ));
        };
        // Beats keep the mark from now on.
        self.marked.store(true, Ordering::SeqCst);
        let next = |header: &Header| header.marked(id.clone());
        let written = self
            .beats
            .write(&self.root, facts, next, &|| self.headers());
        written.map_err(|error| failed(error.into()))?;
        let generation = self.generation();
        generation.ok_or_else(|| failed("the header could not be read".into()))
    }

    /// Lets the next header begin the generation after the snapshot, and writes it unless a plan writes headers now, or it
    /// cannot reach the durable leg (no `facts`).
    pub fn unmark(&self, facts: Option<&Facts>) -> Result<(), DiskError> {
        self.marked.store(false, Ordering::SeqCst);
        let Some((_beats, facts)) = self.beats.once_free().zip(facts) else {
            return Ok(());
        };
        self.write_next(facts).map(drop)
    }

    /// What follows a header: the mark of a snapshot that is over ends with its generation.
    fn next(&self, header: &Header) -> Header {
        if header.snapshot.is_some() && !self.marked.load(Ordering::SeqCst) {
            header.unmarked()
        } else {
            header.next()
        }
    }

    /// Writes the next header to the legs, or to the durable leg alone while a plan is carried out, and answers which
    /// slots do not take theirs. `None` where only the plan may write: nothing is mounted, or the header is not known yet.
    pub fn beat(&self, facts: &Facts) -> Result<Option<BrokenSlots>, DiskError> {
        if let Some(_beats) = self.beats.unless_planning() {
            return self.write_next(facts).map(Some);
        }
        // Only what is mounted stays assembled to the end of the plan.
        if !is_mounted(facts) {
            return Ok(None);
        }
        let written = self.beats.write_beside_plan(&self.root);
        written.map_err(|error| DiskError::new("write the lineage", error))
    }

    fn write_next(&self, facts: &Facts) -> Result<BrokenSlots, DiskError> {
        let next = |header: &Header| self.next(header);
        let written = self
            .beats
            .write(&self.root, facts, next, &|| self.headers());
        written.map_err(|error| DiskError::new("write the lineage", error))
    }

    /// Writes that all is well; what else is written after that begins a new generation.
    pub fn mark_clean(&self, facts: &Facts) -> Result<(), DiskError> {
        self.marked.store(false, Ordering::SeqCst);
        let clean = |header: &Header| ended(self.next(header));
        let written = self
            .beats
            .write(&self.root, facts, clean, &|| self.headers());
        let written = written.map(drop);
        written.map_err(|error| DiskError::new("write the clean lineage", error))
    }

    /// Generation of the newest header, once it was read.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.beats.generation()
    }

    /// Reads the headers. Without one no beat succeeds; each tries again.
    pub fn learn(&self) {
        // Why not, the next beat finds, and says.
        let _ = self.beats.learn(&|| self.headers());
    }

    /// The newest header, and where the legs keep theirs.
    fn headers(&self) -> Result<Headers, BeatError> {
        let found = inventory::observe(&self.spec, &self.root, &Devices, &Tried::default());
        Headers::of(&self.spec, &found.map_err(|_| BeatError::Unread)?)
    }
}

/// The header of an orderly end. One that is being created has no data yet, and the next start has to know that.
fn ended(header: Header) -> Header {
    let state = match header.state {
        State::Creating => State::Creating,
        State::InUse | State::Clean => State::Clean,
    };
    Header { state, ..header }
}

#[cfg(test)]
mod tests {
    use super::{Header, State, ended};
    use crate::{
        agent::disk::tests::node, assemble::chain, heal::tests::healthy, superblock::Uuid,
    };

    fn header() -> Header {
        Header::first("pvc-1".parse().unwrap(), Uuid([1; 16]), Uuid([2; 16]))
    }

    #[test]
    fn a_volume_that_is_being_created_is_not_called_clean_when_it_is_taken_down() {
        let in_use = header().opened(Uuid([3; 16]), Uuid([2; 16]));
        let states = [header(), in_use].map(|header| ended(header).state);
        assert_eq!(states, [State::Creating, State::Clean]);
    }

    #[test]
    fn no_header_after_a_snapshot_names_it_also_where_none_can_be_written_now() {
        let (_root, disk) = node();
        let marked = header().marked("nightly".parse().unwrap());
        disk.marked.store(true, super::Ordering::SeqCst);
        assert_eq!(disk.next(&marked).snapshot, marked.snapshot);
        disk.unmark(None).unwrap();
        assert_eq!(disk.next(&marked), marked.unmarked());
    }

    #[test]
    fn beside_a_plan_nothing_is_written_that_is_not_mounted_or_not_known() {
        let (_root, disk) = node();
        let _planning = disk.beats.planning();
        assert_eq!(disk.beat(&healthy()).unwrap(), None);
        let mut unmounted = healthy();
        unmounted.mount = None;
        assert_eq!(disk.beat(&unmounted).unwrap(), None);
    }

    #[test]
    fn without_a_header_that_was_read_a_beat_fails() {
        let (_root, disk) = node();
        let error = disk.beat(&healthy()).unwrap_err();
        assert!(chain(&error).contains("could not be read"), "{error}");
        assert_eq!(disk.generation(), None);
    }
}
