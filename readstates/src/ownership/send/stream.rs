//! What one transfer sends: the offer, blocks cut into parts, and what has changed since, at a pace.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use readstates_ring::{Epoch, Slot};
use tokio::time::{Instant, sleep};

use crate::{
    cache::{Exported, PARTS, SlotSet},
    clock,
    ownership::{
        Destination, Ownership,
        frame::{Header, Offer, PartEncoder, Slots as Numbers},
        peers::PeerError,
    },
};

/// A part is sent when it has so many bytes.
const PART_BYTES: usize = 512 << 10;
/// Bytes a second while clients are served.
const BYTES_PER_SECOND: f64 = (64 << 20) as f64;
/// Users who changed since they were sent, at most, when the slots are sealed: some milliseconds.
const FEW: usize = 256;
/// The most rounds of sending what changed; then the slots are sealed, however much is left.
const ROUNDS: usize = 10;
/// Users exported in one go.
const AT_ONCE: usize = 1024;
/// How often a message is sent before the transfer is given up.
const ATTEMPTS: usize = 3;
pub(super) const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);
/// A transfer under way.
pub(super) struct Sending<'a> {
    pub(super) ownership: &'a Arc<Ownership>,
    pub(super) to: &'a Destination,
    transfer: u64,
    next_part: u32,
    digest: u64,
    part: PartEncoder,
    began: Instant,
    bytes: u64,
}

impl<'a> Sending<'a> {
    pub(super) fn new(ownership: &'a Arc<Ownership>, to: &'a Destination) -> Self {
        Self {
            ownership,
            to,
            transfer: ownership.random.bits(),
            next_part: 0,
            digest: 0,
            part: PartEncoder::new(),
            began: Instant::now(),
            bytes: 0,
        }
    }

    pub(super) async fn offer(&self, slots: &[(Slot, Epoch)]) -> Result<Vec<Slot>, PeerError> {
        let offer = Offer {
            origin: self.ownership.me.incarnation().bits(),
            transfer: self.transfer,
            slots: slots
                .iter()
                .map(|&(slot, epoch)| (slot.number(), epoch.number()))
                .collect(),
        };
        let answer = self.say(offer.encode()).await?;
        self.numbers(&answer)
    }

    pub(super) fn numbers(&self, answer: &[u8]) -> Result<Vec<Slot>, PeerError> {
        let Numbers { slots } = serde_json::from_slice(answer)
            .map_err(|error| PeerError::new(self.to.name(), error.to_string()))?;
        Ok(slots.into_iter().filter_map(Slot::new).collect())
    }

    /// Sends everything that is in memory, while clients are served.
    pub(super) async fn all_blocks(&mut self, set: &SlotSet) -> Result<(), PeerError> {
        let mut found = Vec::new();
        for part in 0..PARTS {
            let cache = self.ownership.engine.cache();
            cache.export(set, part, clock::now(), &mut found);
            self.push(&mut found).await?;
            if part % 64 == 0 {
                tokio::task::yield_now().await;
            }
            self.keep_pace().await;
        }
        self.flush().await
    }

    /// Sends what changed meanwhile, until little is left.
    pub(super) async fn changes(&mut self, set: &SlotSet) -> Result<(), PeerError> {
        for _ in 0..ROUNDS {
            let sent = self.changes_once(set, true).await?;
            if sent <= FEW {
                break;
            }
        }
        Ok(())
    }

    /// Sends what has changed by now; returns how many users that were.
    pub(super) async fn changes_once(
        &mut self,
        set: &SlotSet,
        paced: bool,
    ) -> Result<usize, PeerError> {
        let (mut found, mut sent) = (Vec::new(), 0);
        loop {
            let cache = self.ownership.engine.cache();
            let more = cache.export_changed(set, AT_ONCE, clock::now(), &mut found);
            sent += found.len();
            self.push(&mut found).await?;
            if !more {
                break;
            }
            if paced {
                self.keep_pace().await;
            }
        }
        Ok(sent)
    }

    /// Puts blocks into parts, and sends those that are full.
    async fn push(&mut self, found: &mut Vec<Exported>) -> Result<(), PeerError> {
        for exported in found.drain(..) {
            self.part.push(&exported);
            if self.part.bytes() >= PART_BYTES {
                let message = self.finish(false);
                self.say(message).await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), PeerError> {
        if self.part.count() > 0 {
            let message = self.finish(false);
            self.say(message).await?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, last: bool) -> Bytes {
        let part = std::mem::replace(&mut self.part, PartEncoder::new());
        let counters = &self.ownership.counters;
        let blocks = u64::from(part.count());
        counters.sent_blocks.fetch_add(blocks, Ordering::Relaxed);
        let header = Header {
            origin: self.ownership.me.incarnation().bits(),
            transfer: self.transfer,
            number: self.next_part,
        };
        let (message, digest) = part.finish(header, self.digest, last);
        (self.digest, self.next_part) = (digest, self.next_part + 1);
        let bytes = message.len() as u64;
        self.bytes += bytes;
        counters.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        message
    }

    /// Sends a message until it is answered: each may be sent again.
    pub(super) async fn say(&self, message: Bytes) -> Result<Bytes, PeerError> {
        let mut attempt = 1;
        loop {
            let answer = self.ownership.peers.send(self.to, message.clone()).await;
            match answer {
                Err(error) if attempt < ATTEMPTS => {
                    tracing::debug!(attempt, "{error}");
                    attempt += 1;
                    sleep(ATTEMPT_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// Waits if more was sent than the pace allows.
    async fn keep_pace(&self) {
        let due = Duration::from_secs_f64(self.bytes as f64 / BYTES_PER_SECOND);
        if let Some(wait) = due.checked_sub(self.began.elapsed()) {
            sleep(wait).await;
        }
    }

    /// Bytes that were sent.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn took(&self) -> Duration {
        self.began.elapsed()
    }
}
