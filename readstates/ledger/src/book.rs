//! What was sent, what was answered, and what should therefore be there. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

/// How many mentions a channel of the ledger takes: the digits to the base of four of a 32-bit count, but for
/// the last, which could not say 3.
pub const AMOUNTS: usize = 15;

/// When a call was made, from the beginning of the load. What it changed was changed by some member in between:
/// a call to many users ends with the last of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call {
    /// When it was sent.
    pub sent: Duration,
    /// When its answer came.
    pub answered: Duration,
}

/// What is known about an operation that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was acknowledged by this call.
    Acknowledged(Call),
    /// It may have been applied.
    Unknown,
    /// It was refused: it must not be there.
    NothingDone,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    message: u64,
    status: Status,
}

/// The operations on one channel of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    /// The entry at index k mentions 4^k times.
    Mentions(Vec<Entry>),
    /// Acknowledgements with growing message ids.
    Acks(Vec<Entry>),
}

/// The operations of a load, by user and channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Book {
    pages: HashMap<(u64, u64), Page>,
    found_meanwhile: Vec<Finding>,
}

/// A read state as it is found; 0 where no message was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub channel: u64,
    /// The last message read, or 0.
    pub last_message: u64,
    /// The count of mentions.
    pub mention_count: u32,
}

impl From<&readstates_api::ReadState> for Found {
    fn from(state: &readstates_api::ReadState) -> Self {
        Self {
            channel: state.channel_id.get(),
            last_message: state.last_message_id.map_or(0, readstates_api::Id::get),
            mention_count: state.mention_count,
        }
    }
}

/// What is wrong with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// It was acknowledged and is not there.
    Lost,
    /// It is there more than once.
    Doubled,
    /// It was refused, or never sent, and is there.
    Phantom,
    /// It was acknowledged, was sent again, and was applied then: it had been lost meanwhile.
    LostMeanwhile,
    /// A read that began after its acknowledgement did not show it.
    NotSeen,
    /// The answer to a change had a version below one that was known before the change was sent.
    VersionWentBack,
    /// A read showed a version below one that was known before it began: what had the known version is lost. The
    /// finding's call is the one that returned the known version.
    ReadBehind,
}

/// An operation that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    pub user: u64,
    pub channel: u64,
    /// The message, 0 where none was sent.
    pub message: u64,
    /// What is wrong.
    pub what: What,
    /// The call that acknowledged it (or, for what never was, that found it).
    pub call: Call,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Operations that were acknowledged.
    pub acknowledged: u64,
    /// Operations whose outcome was unknown and which are there.
    pub unknown_and_there: u64,
    /// Operations whose outcome was unknown and which are not there.
    pub unknown_and_not: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Book {
    /// The amount of the mention at this index of its channel.
    ///
    /// # Panics
    /// For an index of [`AMOUNTS`] or more.
    #[must_use]
    pub fn amount(index: usize) -> u32 {
        assert!(index < AMOUNTS, "a channel takes {AMOUNTS} mentions");
        1 << (2 * index)
    }

    /// Writes a mention down. Mentions of one channel come in the order of their amounts, each once or again
    /// with the same message.
    pub fn mentioned(&mut self, user: u64, channel: u64, message: u64, status: Status) {
        let page = self.pages.entry((user, channel));
        if let Page::Mentions(entries) = page.or_insert_with(|| Page::Mentions(Vec::new())) {
            enter(entries, message, status);
        }
    }

    /// Writes an acknowledgement down. Their messages grow.
    pub fn acked(&mut self, user: u64, channel: u64, message: u64, status: Status) {
        let page = self.pages.entry((user, channel));
        if let Page::Acks(entries) = page.or_insert_with(|| Page::Acks(Vec::new())) {
            enter(entries, message, status);
        }
    }

    /// Writes down what was seen to be wrong on the way.
    pub fn note(&mut self, finding: Finding) {
        self.found_meanwhile.push(finding);
    }

    /// The mentions of a channel that were acknowledged: their messages and by which calls.
    pub fn acknowledged_mentions(&self, user: u64, channel: u64) -> Vec<(usize, u64, Call)> {
        let Some(Page::Mentions(entries)) = self.pages.get(&(user, channel)) else {
            return Vec::new();
        };
        let of = |(index, entry): (usize, &Entry)| match entry.status {
            Status::Acknowledged(call) => Some((index, entry.message, call)),
            Status::Unknown | Status::NothingDone => None,
        };
        entries.iter().enumerate().filter_map(of).collect()
    }

    /// Takes what another worker wrote. Workers never write on one page.
    pub fn take(&mut self, other: Self) {
        self.pages.extend(other.pages);
        self.found_meanwhile.extend(other.found_meanwhile);
    }

    /// The users in the book.
    #[must_use]
    pub fn users(&self) -> BTreeSet<u64> {
        self.pages.keys().map(|&(user, _)| user).collect()
    }

    /// Compares with what is found of each user. Users and channels that are not in the book do not matter.
    #[must_use]
    pub fn audit(&self, found: &BTreeMap<u64, Vec<Found>>) -> Audit {
        let mut audit = Audit {
            findings: self.found_meanwhile.clone(),
            ..Audit::default()
        };
        // In order, so that two runs can be compared.
        let pages: BTreeMap<_, _> = self.pages.iter().collect();
        for (&(user, channel), page) in pages {
            let states = found.get(&user).map_or(&[][..], Vec::as_slice);
            let state = states.iter().find(|state| state.channel == channel);
            let state = state.copied().unwrap_or(Found {
                channel,
                last_message: 0,
                mention_count: 0,
            });
            match page {
                Page::Mentions(entries) => audit.mentions(user, state, entries),
                Page::Acks(entries) => audit.acks(user, state, entries),
            }
        }
        audit
    }
}

/// What is acknowledged once stays so, from the first time on.
fn enter(entries: &mut Vec<Entry>, message: u64, status: Status) {
    match entries
        .iter_mut()
        .rev()
        .find(|entry| entry.message == message)
    {
        Some(entry) => {
            entry.status = match (entry.status, status) {
                (Status::Acknowledged(call), _) | (_, Status::Acknowledged(call)) => {
                    Status::Acknowledged(call)
                }
                (Status::Unknown, _) | (_, Status::Unknown) => Status::Unknown,
                (Status::NothingDone, Status::NothingDone) => Status::NothingDone,
            }
        }
        None => entries.push(Entry { message, status }),
    }
}

impl Audit {
    /// How many findings there are of a kind.
    #[must_use]
    pub fn count(&self, what: What) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.what == what)
            .count()
    }

    fn mentions(&mut self, user: u64, state: Found, entries: &[Entry]) {
        let mut rest = state.mention_count;
        for entry in entries {
            let times = rest & 3;
            rest >>= 2;
            self.entry(user, state.channel, *entry, times);
        }
        if rest != 0 {
            // More than was ever sent.
            self.find(user, state.channel, 0, What::Phantom, Call::default());
        }
        if state.last_message != 0 {
            // Nothing was acknowledged on this channel.
            let message = state.last_message;
            self.find(user, state.channel, message, What::Phantom, Call::default());
        }
    }

    fn acks(&mut self, user: u64, state: Found, entries: &[Entry]) {
        for entry in entries {
            let there = entry.message <= state.last_message;
            // What a later acknowledgement covers need not have been applied itself.
            let refused = entry.status == Status::NothingDone && entry.message < state.last_message;
            if !refused {
                self.entry(user, state.channel, *entry, u32::from(there));
            }
        }
        let sent = entries
            .iter()
            .any(|entry| entry.message == state.last_message);
        if state.last_message != 0 && !sent {
            self.find(
                user,
                state.channel,
                state.last_message,
                What::Phantom,
                Call::default(),
            );
        }
    }

    /// An operation that was found this many times.
    fn entry(&mut self, user: u64, channel: u64, entry: Entry, times: u32) {
        let Entry { message, status } = entry;
        match (status, times) {
            (Status::Acknowledged(call), 0) => self.find(user, channel, message, What::Lost, call),
            (Status::Acknowledged(call), 2..) => {
                self.find(user, channel, message, What::Doubled, call);
            }
            (Status::Unknown, 2..) => {
                self.find(user, channel, message, What::Doubled, Call::default());
            }
            (Status::NothingDone, 1..) => {
                self.find(user, channel, message, What::Phantom, Call::default());
            }
            (Status::Unknown, 1) => self.unknown_and_there += 1,
            (Status::Unknown, 0) => self.unknown_and_not += 1,
            (Status::Acknowledged(_), 1) | (Status::NothingDone, 0) => {}
        }
        if matches!(status, Status::Acknowledged(_)) {
            self.acknowledged += 1;
        }
    }

    fn find(&mut self, user: u64, channel: u64, message: u64, what: What, call: Call) {
        self.findings.push(Finding {
            user,
            channel,
            message,
            what,
            call,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Call = Call {
        sent: Duration::from_secs(6),
        answered: Duration::from_secs(7),
    };
    const OK: Status = Status::Acknowledged(AT);

    fn audit(book: &Book, channel: u64, last_message: u64, mention_count: u32) -> Audit {
        let state = Found {
            channel,
            last_message,
            mention_count,
        };
        book.audit(&BTreeMap::from([(1, vec![state])]))
    }

    fn mentions(statuses: &[Status]) -> Book {
        let mut book = Book::default();
        for (message, &status) in (100..).zip(statuses) {
            book.mentioned(1, 2, message, status);
        }
        book
    }

    fn whats(audit: &Audit) -> Vec<(u64, What)> {
        audit
            .findings
            .iter()
            .map(|finding| (finding.message, finding.what))
            .collect()
    }

    #[test]
    fn a_count_names_what_was_lost_and_what_was_doubled_at_once() {
        let book = mentions(&[OK; 4]);
        let count = |digits: [u32; 4]| {
            let weigh = |(index, digit)| digit * Book::amount(index);
            digits.into_iter().enumerate().map(weigh).sum()
        };
        let sound = audit(&book, 2, 0, count([1, 1, 1, 1]));
        assert_eq!((sound.acknowledged, sound.findings.len()), (4, 0));
        // The sum is the same as if nothing were wrong with either, but for the digits.
        let found = audit(&book, 2, 0, count([1, 0, 2, 3]));
        let expected = [
            (101, What::Lost),
            (102, What::Doubled),
            (103, What::Doubled),
        ];
        assert_eq!(whats(&found), expected);
        assert_eq!(found.findings[0].call, AT);
        assert_eq!(
            whats(&audit(&book, 2, 0, 1 << 8 | count([1; 4]))),
            [(0, What::Phantom)]
        );
        assert_eq!(
            whats(&audit(&book, 2, 50, count([1; 4]))),
            [(50, What::Phantom)],
            "mentions read nothing"
        );
        let largest = 3 * (0..AMOUNTS).map(Book::amount).sum::<u32>();
        let full = mentions(&[OK; AMOUNTS]);
        assert_eq!(audit(&full, 2, 0, largest).count(What::Doubled), AMOUNTS);
    }

    #[test]
    fn what_is_not_known_may_be_there_once_and_what_was_refused_may_not() {
        let book = mentions(&[Status::Unknown, Status::Unknown, Status::NothingDone]);
        let found = audit(&book, 2, 0, 0b01);
        assert_eq!((found.unknown_and_there, found.unknown_and_not), (1, 1));
        assert!(found.findings.is_empty());
        let found = audit(&book, 2, 0, 0b01_00_10);
        assert_eq!(whats(&found), [(100, What::Doubled), (102, What::Phantom)]);
    }

    #[test]
    fn an_operation_that_is_sent_again_is_one_operation() {
        let mut book = mentions(&[Status::Unknown]);
        book.mentioned(1, 2, 100, OK);
        book.mentioned(1, 2, 100, Status::Unknown);
        assert_eq!(whats(&audit(&book, 2, 0, 0)), [(100, What::Lost)]);
        assert_eq!(book.acknowledged_mentions(1, 2), [(0, 100, AT)]);
    }

    #[test]
    fn every_acknowledgement_above_the_position_is_lost() {
        let mut book = Book::default();
        for (message, status) in [
            (10, OK),
            (11, OK),
            (12, Status::Unknown),
            (13, OK),
            (14, Status::NothingDone),
        ] {
            book.acked(1, 3, message, status);
        }
        assert!(audit(&book, 3, 13, 0).findings.is_empty());
        assert_eq!(
            whats(&audit(&book, 3, 10, 0)),
            [(11, What::Lost), (13, What::Lost)]
        );
        assert_eq!(whats(&audit(&book, 3, 14, 0)), [(14, What::Phantom)]);
        assert_eq!(
            whats(&audit(&book, 3, 99, 0)).last(),
            Some(&(99, What::Phantom))
        );
        let nobody = book.audit(&BTreeMap::new());
        assert_eq!(nobody.count(What::Lost), 3);
    }
}
