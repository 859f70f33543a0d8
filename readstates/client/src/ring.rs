//! Who owns what, as far as a client knows. Pure.

use std::fmt;

use readstates_api::{Id, RingDocument, RingMember};
use readstates_ring::{HASH_NAME, SLOTS, Slot};

/// A ring as a member published it. A copy: asking it costs nothing, and it may be old.
#[derive(Clone, PartialEq, Eq)]
pub struct Ring {
    number: u64,
    members: Vec<RingMember>,
    /// For each slot an index into `members`; `None` where the slot has no owner.
    owners: Box<[Option<u16>]>,
}

/// Why a client cannot work by a ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Users are spread over slots in a way that this client does not know.
    #[error(
        "it spreads users over {slots} slots by {hash:?}; this client knows {SLOTS} by {HASH_NAME:?}"
    )]
    AnotherHash {
        /// How many slots there are.
        slots: u16,
        /// What the hash is called.
        hash: String,
    },
    /// The table of owners has another length.
    #[error("it has owners for {0} slots; there are {SLOTS}")]
    Length(usize),
}

impl TryFrom<RingDocument> for Ring {
    type Error = RingError;

    fn try_from(document: RingDocument) -> Result<Self, RingError> {
        let RingDocument {
            number,
            slots,
            hash,
            members,
            owners,
        } = document;
        if slots != SLOTS || hash != HASH_NAME {
            return Err(RingError::AnotherHash { slots, hash });
        }
        if owners.len() != usize::from(SLOTS) {
            return Err(RingError::Length(owners.len()));
        }
        Ok(Self {
            number,
            members,
            owners: owners.into(),
        })
    }
}

impl Ring {
    /// Grows with each change of the ring.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[RingMember] {
        &self.members
    }

    /// The member that owns a user, by this ring; `None` when no member does.
    #[must_use]
    pub fn owner_of(&self, user: Id) -> Option<&RingMember> {
        self.owner_index(user).map(|index| &self.members[index])
    }

    /// The index of that member.
    pub(crate) fn owner_index(&self, user: Id) -> Option<usize> {
        let slot = Slot::of_user(user.get());
        let index = usize::from(self.owners[usize::from(slot.number())]?);
        (index < self.members.len()).then_some(index)
    }
}

impl fmt::Debug for Ring {
    /// Without the table of a thousand owners.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("number", &self.number)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots in turn.
    fn document(members: u16) -> RingDocument {
        let member = |n: u16| RingMember {
            url: format!("http://chat-{n}"),
            name: format!("chat-{n}"),
            incarnation: None,
            zone: None,
        };
        RingDocument {
            number: 7,
            slots: SLOTS,
            hash: HASH_NAME.to_owned(),
            members: (0..members).map(member).collect(),
            owners: (0..SLOTS).map(|slot| Some(slot % members)).collect(),
        }
    }

    #[test]
    fn the_owner_of_a_user_is_that_of_its_slot() {
        let ring = Ring::try_from(document(3)).unwrap();
        for user in 1..1000 {
            let owner = ring.owner_of(Id::new(user).unwrap()).unwrap();
            let slot = Slot::of_user(user).number();
            assert_eq!(owner.name, format!("chat-{}", slot % 3));
        }
    }

    #[test]
    fn a_ring_of_another_make_is_refused_and_a_slot_of_nobody_is_none() {
        let mut other = document(2);
        other.hash = "crc32".into();
        assert!(matches!(
            Ring::try_from(other),
            Err(RingError::AnotherHash { .. })
        ));
        let mut short = document(2);
        short.owners.pop();
        assert_eq!(Ring::try_from(short), Err(RingError::Length(1023)));
        let mut nobodys = document(2);
        nobodys.owners.fill(None);
        assert_eq!(
            Ring::try_from(nobodys)
                .unwrap()
                .owner_of(Id::new(1).unwrap()),
            None
        );
    }
}
