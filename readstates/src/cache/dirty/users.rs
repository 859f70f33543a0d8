//! Who is dirty: entries one behind the other, found by small hash tables that say where.
//!
//! As many tables as the stripe has for all its users: each is small, so that none takes long to grow.

use hashbrown::{HashTable, hash_table::Entry as Found};

use super::Dirty;
use crate::cache::table::{Hash, TABLES};

/// A vector is made smaller when less than this part of it is used.
const ROOM_FACTOR: usize = 4;
const LEAST_ROOM: usize = 64;

#[derive(Debug, Default)]
pub(super) struct DirtyUsers {
    entries: Vec<Entry>,
    /// Made with the first entry.
    tables: Box<[HashTable<At>]>,
}

#[derive(Debug)]
struct Entry {
    user: u64,
    dirty: Dirty,
}

const _: () = assert!(size_of::<Entry>() == 40, "see BYTES_PER_DIRTY_USER");

/// Where an entry is, and enough of its user's hash to grow a table without reading entries.
#[derive(Debug, Clone, Copy)]
struct At {
    index: u32,
    hash: u32,
}

impl At {
    /// A table chooses buckets by the lower bits and tells their contents apart by the upper ones.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

impl DirtyUsers {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, user: u64, hash: Hash) -> Option<&Dirty> {
        let entries = &self.entries;
        let is = |at: &At| entries[at.index as usize].user == user;
        let at = self.tables.get(hash.table())?;
        let at = at.find(At::spread(hash.in_table()), is)?;
        Some(&entries[at.index as usize].dirty)
    }

    pub(super) fn get_mut(&mut self, user: u64, hash: Hash) -> Option<&mut Dirty> {
        let entries = &self.entries;
        let is = |at: &At| entries[at.index as usize].user == user;
        let at = self.tables.get(hash.table())?;
        let index = at.find(At::spread(hash.in_table()), is)?.index;
        Some(&mut self.entries[index as usize].dirty)
    }

    /// Enters a user, or what is new about one who was entered.
    pub(super) fn insert(&mut self, user: u64, hash: Hash, dirty: Dirty) {
        if self.tables.is_empty() {
            self.tables = (0..TABLES).map(|_| HashTable::new()).collect();
        }
        let entries = &mut self.entries;
        let is = |at: &At| entries[at.index as usize].user == user;
        let again = |at: &At| At::spread(at.hash);
        let table = &mut self.tables[hash.table()];
        match table.entry(At::spread(hash.in_table()), is, again) {
            Found::Occupied(found) => entries[found.get().index as usize].dirty = dirty,
            Found::Vacant(place) => {
                // A stripe has fewer users than its slab has places, which are 32 bits.
                let (index, hash) = (entries.len() as u32, hash.in_table());
                place.insert(At { index, hash });
                entries.push(Entry { user, dirty });
            }
        }
    }

    pub(super) fn remove(&mut self, user: u64, hash: Hash) {
        let entries = &mut self.entries;
        let is = |at: &At| entries[at.index as usize].user == user;
        let Some(table) = self.tables.get_mut(hash.table()) else {
            return;
        };
        let Ok(found) = table.find_entry(At::spread(hash.in_table()), is) else {
            return;
        };
        let (At { index, .. }, _) = found.remove();
        if table.len() * 2 * ROOM_FACTOR < table.capacity() {
            table.shrink_to(2 * table.len(), |at| At::spread(at.hash));
        }
        // The last entry takes the place of the one that goes.
        let last = (entries.len() - 1) as u32;
        if index != last {
            let hash = Hash::of(entries[last as usize].user);
            let moves = |at: &At| at.index == last;
            let table = &mut self.tables[hash.table()];
            if let Some(at) = table.find_mut(At::spread(hash.in_table()), moves) {
                at.index = index;
            }
        }
        entries.swap_remove(index as usize);
        if entries.len() * ROOM_FACTOR + LEAST_ROOM < entries.capacity() {
            entries.shrink_to(2 * entries.len());
        }
    }

    pub(super) fn users(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.user)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{
        super::{Moment, Stage, WriteId},
        *,
    };

    fn dirty(number: u64) -> Dirty {
        Dirty {
            since: Moment(number),
            stage: Stage::InFlight { write: WriteId(7) },
            written_version: number,
        }
    }

    proptest! {
        #[test]
        fn dirty_users_are_a_map(steps in proptest::collection::vec((1_u64..300, any::<bool>()), 0..2000)) {
            let (mut users, mut map) = (DirtyUsers::default(), BTreeMap::new());
            for (number, (user, enters)) in (0..).zip(steps) {
                if enters {
                    users.insert(user, Hash::of(user), dirty(number));
                    map.insert(user, number);
                } else {
                    users.remove(user, Hash::of(user));
                    map.remove(&user);
                }
                prop_assert_eq!(users.len(), map.len());
            }
            for user in 1..300 {
                let found = users.get(user, Hash::of(user)).map(|dirty| dirty.written_version);
                prop_assert_eq!(found, map.get(&user).copied());
            }
            let mut listed: Vec<u64> = users.users().collect();
            listed.sort_unstable();
            prop_assert!(listed.iter().eq(map.keys()));
        }
    }
}
