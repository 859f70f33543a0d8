//! The mentions of one channel that were counted last.
//!
//! A mention may be delivered twice or out of order. The newest eight that were counted are
//! remembered, so that one of them is not counted again and an acknowledgement in their midst leaves
//! the exact count.

/// How many counted mentions a read state remembers.
pub const REMEMBERED_MENTIONS: usize = 8;

/// One mention that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mention {
    /// The message.
    pub message: u64,
    /// What it added to the count.
    pub count: u32,
}

/// The newest counted mentions of a channel, by message id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted(Vec<Mention>);

impl Counted {
    /// The memory with these mentions, unless they are too many, out of order, or count nothing.
    #[must_use]
    pub fn from_sorted(mentions: Vec<Mention>) -> Option<Self> {
        let sorted = mentions
            .windows(2)
            .all(|pair| pair[0].message < pair[1].message);
        let sound = mentions
            .iter()
            .all(|mention| mention.message > 0 && mention.count > 0);
        (sorted && sound && mentions.len() <= REMEMBERED_MENTIONS).then_some(Self(mentions))
    }

    /// The mentions, oldest first.
    #[must_use]
    pub fn mentions(&self) -> &[Mention] {
        &self.0
    }

    /// Whether a mention in this message was counted, or may have been: it is remembered, or it is
    /// older than all of a full memory.
    #[must_use]
    pub fn may_have(&self, message: u64) -> bool {
        match self.find(message) {
            Ok(_) => true,
            Err(index) => index == 0 && self.0.len() == REMEMBERED_MENTIONS,
        }
    }

    /// Remembers a mention that was counted; forgets the oldest one when there are too many.
    pub(super) fn remember(&mut self, mention: Mention) {
        if let Err(index) = self.find(mention.message) {
            self.0.insert(index, mention);
        }
        if self.0.len() > REMEMBERED_MENTIONS {
            self.0.remove(0);
        }
    }

    /// The count that is left of `count` once everything up to `message` is read.
    #[must_use]
    pub fn newer_than(&self, message: u64, count: u32) -> u32 {
        match self.0.first() {
            None => 0,
            // What was forgotten may be on either side of `message`.
            Some(oldest) if oldest.message > message => count,
            Some(_) => {
                let newer = self.0.iter().filter(|mention| mention.message > message);
                newer
                    .fold(0_u32, |sum, mention| sum.saturating_add(mention.count))
                    .min(count)
            }
        }
    }

    fn find(&self, message: u64) -> Result<usize, usize> {
        self.0
            .binary_search_by_key(&message, |mention| mention.message)
    }
}
