//! The ring: a numbered table from slot to owner.
//!
//! In this form the table is computed: the owner of a slot is jump hash over the members in their
//! order. [`Ring`] keeps the computed table, so that looking an owner up is one index.

use crate::{
    jump::{jump_hash, slot_key},
    slot::{SLOTS, Slot},
};

/// The most members a ring can have: one for each slot.
pub const MAX_MEMBERS: usize = SLOTS as usize;

/// Longest member name: a DNS name.
const MAX_NAME_LENGTH: usize = 253;

/// Who owns which slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    number: u64,
    members: Vec<String>,
    /// `owners[slot]` is an index into `members`.
    owners: Box<[u16]>,
}

/// Why a list of members is no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The list is empty.
    #[error("a ring needs at least one member")]
    NoMembers,
    /// The list is longer than [`MAX_MEMBERS`].
    #[error("a ring has at most {MAX_MEMBERS} members, one for each slot; {0} were given")]
    TooManyMembers(usize),
    /// Two members have the same name.
    #[error("member {0:?} is listed twice; every member needs a name of its own")]
    DuplicateMember(String),
    /// A name is empty, too long, or has a character that has no place in one.
    #[error("{0:?} is no member name: use 1 to 253 of a-z A-Z 0-9 . _ -")]
    BadName(String),
}

impl Ring {
    /// The ring over these members, in their order. `number` grows with each change of the ring; it
    /// lets readers that cached an older one see that it is old.
    ///
    /// # Errors
    /// When the list is empty, too long, or names are malformed or repeated.
    pub fn new(number: u64, members: Vec<String>) -> Result<Self, RingError> {
        check(&members)?;
        // `check` bounds the length by 1024.
        let count = members.len() as u16;
        let owners = Slot::all()
            .map(|slot| jump_hash(slot_key(slot), count))
            .collect();
        Ok(Self {
            number,
            members,
            owners,
        })
    }

    /// The number of this ring.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The members, in order; owners are indexes into this list.
    #[must_use]
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The index of the member that owns a slot.
    #[must_use]
    pub fn owner(&self, slot: Slot) -> usize {
        usize::from(self.owners[usize::from(slot.number())])
    }

    /// The index of the member that owns a user.
    #[must_use]
    pub fn owner_of_user(&self, user_id: u64) -> usize {
        self.owner(Slot::of_user(user_id))
    }

    /// The owner index of each slot, in the order of the slots.
    #[must_use]
    pub fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// The index of the member with this name.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member == name)
    }
}

fn check(members: &[String]) -> Result<(), RingError> {
    if members.is_empty() {
        return Err(RingError::NoMembers);
    }
    if members.len() > MAX_MEMBERS {
        return Err(RingError::TooManyMembers(members.len()));
    }
    if let Some(bad) = members.iter().find(|name| !is_name(name)) {
        return Err(RingError::BadName(bad.clone()));
    }
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(RingError::DuplicateMember(pair[0].clone())),
        None => Ok(()),
    }
}

/// Whether this is a member's name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring_of(members: usize) -> Ring {
        Ring::new(
            1,
            (0..members)
                .map(|ordinal| format!("chat-{ordinal}"))
                .collect(),
        )
        .unwrap()
    }

    #[test]
    fn every_slot_has_exactly_one_owner_and_every_member_a_fair_share() {
        for members in 1..=64 {
            let ring = ring_of(members);
            let mut share = vec![0_usize; members];
            for slot in Slot::all() {
                share[ring.owner(slot)] += 1;
            }
            let fair = usize::from(SLOTS) / members;
            assert!(share.iter().all(|&slots| slots > 0), "{members}: {share:?}");
            assert!(
                share.iter().all(|&slots| slots < 2 * fair + 8),
                "{members}: {share:?}"
            );
        }
    }

    #[test]
    fn a_joining_member_only_takes_and_a_leaving_one_only_gives() {
        for members in 1..16 {
            let (few, many) = (ring_of(members), ring_of(members + 1));
            for slot in Slot::all() {
                let (before, after) = (few.owner(slot), many.owner(slot));
                assert!(
                    after == before || after == members,
                    "slot {slot}: {before} to {after}"
                );
            }
        }
    }

    #[test]
    fn malformed_lists_are_refused_with_the_name_at_fault() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(Ring::new(1, vec![]), Err(RingError::NoMembers));
        assert_eq!(
            Ring::new(1, names(&["a", "b", "a"])),
            Err(RingError::DuplicateMember("a".into()))
        );
        assert_eq!(
            Ring::new(1, names(&["a", "b c"])),
            Err(RingError::BadName("b c".into()))
        );
        assert_eq!(
            Ring::new(1, names(&[""])),
            Err(RingError::BadName(String::new()))
        );
        let crowd = (0..1025).map(|n| n.to_string()).collect();
        assert_eq!(Ring::new(1, crowd), Err(RingError::TooManyMembers(1025)));
        assert_eq!(ring_of(1024).members().len(), 1024);
    }

    #[test]
    fn the_owner_of_a_user_is_the_owner_of_its_slot() {
        let ring = ring_of(3);
        for user in 1..1000 {
            assert_eq!(ring.owner_of_user(user), ring.owner(Slot::of_user(user)));
        }
        assert_eq!(ring.index_of("chat-2"), Some(2));
        assert_eq!(ring.index_of("chat-3"), None);
    }
}
