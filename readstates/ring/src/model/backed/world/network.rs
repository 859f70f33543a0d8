//! Frames, acknowledgements, and messages of hand-offs.

use super::{BackedWorld, Content, OfHandOff, Part, USER, entry, insert, slot};
use crate::{
    Incarnation,
    handoff::{Action, Event},
    mutant::{self, Shortcut},
    replication::{Frame, Outbox, Received, Tickets, What},
};

impl BackedWorld {
    /// An owner says something to everybody who must have it; each entry is a frame.
    pub(super) fn say(&mut self, index: usize, what: &What<u8, Content>) -> Tickets {
        let pod = &mut self.pods[index];
        let tickets = pod.guard.gather(&mut pod.streams);
        for to in self.pods[index].guard.audience() {
            self.leave(index, to, vec![what.clone()]);
        }
        tickets
    }

    /// A frame without entries.
    pub(super) fn beat(&mut self, index: usize) {
        for to in self.pods[index].guard.audience() {
            self.leave(index, to, Vec::new());
        }
    }

    /// Begins the slot's part of a stream with a frame.
    pub(super) fn open(&mut self, index: usize, to: Incarnation, whats: Vec<What<u8, Content>>) {
        let pod = &mut self.pods[index];
        let stream = pod.streams.entry(to).or_insert_with(|| Outbox::new(to));
        if !stream.carries(slot()) {
            stream.begin(slot());
        }
        stream.gather();
        self.leave(index, to, whats);
    }

    fn leave(&mut self, index: usize, to: Incarnation, whats: Vec<What<u8, Content>>) {
        let now = self.now;
        let pod = &mut self.pods[index];
        let epoch = pod.slot.config().epoch();
        let Some(stream) = pod.streams.get_mut(&to).filter(|it| it.carries(slot())) else {
            return;
        };
        let frame = Frame {
            from: pod.me,
            to,
            number: stream.leave(now),
            stream: stream.stream(),
            entries: whats.into_iter().map(|what| entry(epoch, what)).collect(),
        };
        if self.place(to).is_some() {
            insert(&mut self.frames, frame);
        }
    }

    pub(super) fn deliver(&mut self, frame: usize) {
        let frame = self.frames[frame].clone();
        let Some(at) = self.place(frame.to) else {
            return;
        };
        let pod = &mut self.pods[at];
        if mutant::takes(Shortcut::TrimsAfterPromise)
            && let Some(journal) = &mut pod.inherited
        {
            for entry in &frame.entries {
                if let What::Trim { version, .. } = entry.what {
                    journal.trim(USER, version);
                }
            }
        }
        match pod.backup.receive(frame, self.now) {
            Received::Acknowledge(acknowledgement) => {
                if self.place(acknowledgement.to).is_some() {
                    insert(&mut self.acknowledgements, acknowledgement);
                }
            }
            // Reading the ring is a step of its own.
            Received::LearnFirst(..) | Received::Ignored => {}
        }
    }

    pub(super) fn accept(&mut self, acknowledgement: usize) {
        let acknowledgement = self.acknowledgements[acknowledgement].clone();
        if let Some(at) = self.place(acknowledgement.to)
            && let Some(stream) = self.pods[at].streams.get_mut(&acknowledgement.from)
        {
            stream.acknowledged(&acknowledgement, self.now);
        }
    }

    pub(super) fn receive(&mut self, part: usize) -> Result<(), String> {
        let Part {
            to,
            from,
            epoch,
            what,
        } = self.parts[part];
        let Some(at) = self.place(to) else {
            return Ok(());
        };
        match what {
            OfHandOff::All(block) => {
                let origin = from;
                self.hear(at, Event::Offered { origin, epoch })?;
                let actions = self.pods[at].slot.step(Event::LastPart { origin, epoch });
                if matches!(actions[..], [Action::Confirm { .. }]) {
                    self.pods[at].received = Some(block);
                }
                self.act(at, actions)
            }
            OfHandOff::Confirmed => {
                let destination = from;
                self.hear(at, Event::Confirmed { destination, epoch })
            }
        }
    }
}
