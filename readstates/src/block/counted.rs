//! The mentions of one channel that were counted last.
//!
//! A mention may be delivered twice or out of order. The newest eight that were counted are
//! remembered, so that one of them is not counted again and an acknowledgement in their midst leaves
//! the exact count. Those that were read are forgotten: nothing at or below the position is counted. A position that goes back
//! leaves in their place that everything up to where it was may have been counted.

/// How many counted mentions a read state remembers.
pub const REMEMBERED_MENTIONS: usize = 8;

/// One mention that was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mention {
    pub message: u64,
    /// What it added to the count.
    pub count: u32,
}

/// The newest counted mentions of a channel, by message id.
#[derive(Clone, Copy, Default)]
pub struct Counted {
    /// The first `len` are meant.
    mentions: [Mention; REMEMBERED_MENTIONS],
    len: usize,
}

impl Counted {
    /// The mentions, oldest first.
    #[must_use]
    pub fn mentions(&self) -> &[Mention] {
        &self.mentions[..self.len]
    }

    /// Whether a mention in this message was counted, or may have been: it is remembered, or it is
    /// older than all of a full memory.
    #[must_use]
    pub fn may_have(&self, message: u64) -> bool {
        match self.find(message) {
            Ok(_) => true,
            Err(index) => index == 0 && self.len == REMEMBERED_MENTIONS,
        }
    }

    /// Remembers a mention that was counted; forgets the oldest one when there are too many.
    pub(crate) fn remember(&mut self, mention: Mention) {
        let Err(index) = self.find(mention.message) else {
            return;
        };
        if self.len < REMEMBERED_MENTIONS {
            self.mentions.copy_within(index..self.len, index + 1);
            self.mentions[index] = mention;
            self.len += 1;
        } else if index > 0 {
            self.mentions.copy_within(1..index, 0);
            self.mentions[index - 1] = mention;
        }
    }

    /// Forgets the mentions up to `message`, which are read.
    pub(crate) fn forget_through(&mut self, message: u64) {
        let read = self.mentions().partition_point(|it| it.message <= message);
        self.mentions.copy_within(read..self.len, 0);
        self.len -= read;
    }

    /// Remembers, instead of the mentions up to `read`, that all those after `message` and up to `read` may have been counted:
    /// the last messages there may be, as many as there is room for. Together they counted `count`.
    pub(crate) fn rewind(&mut self, message: u64, read: u64, count: u32) {
        self.forget_through(read);
        let room = (REMEMBERED_MENTIONS - self.len) as u64;
        let made = room.min(read.saturating_sub(message)) as usize;
        self.mentions.copy_within(0..self.len, made);
        let messages = (read - made as u64 + 1)..=read;
        for (mention, message) in self.mentions.iter_mut().zip(messages) {
            let is_last = message == read;
            let count = if is_last { count.max(1) } else { 1 };
            *mention = Mention { message, count };
        }
        self.len += made;
    }

    /// The count that is left of `count` once everything up to `message` is read.
    #[must_use]
    pub fn newer_than(&self, message: u64, count: u32) -> u32 {
        match self.mentions().first() {
            None => 0,
            // What was forgotten may be on either side of `message`.
            Some(oldest) if oldest.message > message => count,
            Some(_) => {
                let mentions = self.mentions().iter();
                let newer = mentions.filter(|mention| mention.message > message);
                newer
                    .fold(0_u32, |sum, mention| sum.saturating_add(mention.count))
                    .min(count)
            }
        }
    }

    /// Adds the newest mention, or in the codec's check one that may be anything.
    pub(crate) fn push(&mut self, mention: Mention) {
        self.mentions[self.len] = mention;
        self.len += 1;
    }

    /// Whether they are in order and count something.
    pub(crate) fn is_sound(&self) -> bool {
        let sorted = self.mentions().windows(2);
        let mut mentions = self.mentions().iter();
        sorted
            .into_iter()
            .all(|pair| pair[0].message < pair[1].message)
            && mentions.all(|mention| mention.message > 0 && mention.count > 0)
    }

    fn find(&self, message: u64) -> Result<usize, usize> {
        self.mentions()
            .binary_search_by_key(&message, |mention| mention.message)
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.mentions() == other.mentions()
    }
}

impl Eq for Counted {}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.mentions()).finish()
    }
}
