//! Index of a stripe's users: eight bytes for each, inline in open-addressing tables.
//!
//! A [`Record`] holds no user id: the id stands in front of the block, so that a look-up reads the
//! record and then the block, and nothing between. 28 bits of the hash in the record make it rare
//! (one in thousands) that another user's block is read on the way.
//!
//! ```text
//! keyed hash         0 ──── 6 ──── 12 ─────────────────────── 40 ──────────── 64
//!                    stripe  table   tag, whose top is the home
//! record             place 32 │ heat 2 │ stage 2 │ tag 28
//! ```
//!
//! A stripe has [`TABLES`] tables, and each grows by an eighth when it is full: all of them together
//! grow smoothly, never lie half empty, and one growth copies few records (240 with a million users
//! in the cache, 24,000 with a hundred million). The clock hand walks the buckets themselves.

use readstates_ring::Slot;

use super::slab::Place;
use crate::mixed;

/// Stripes of a cache: enough that two requests rarely meet on one. A power of two.
pub(crate) const STRIPES: usize = 64;
/// Tables of a stripe. A power of two.
pub(super) const TABLES: usize = 64;

const STRIPE_BITS: u32 = STRIPES.trailing_zeros();
const TABLE_BITS: u32 = TABLES.trailing_zeros();
const TAG_BITS: u32 = 28;

/// The most a user's heat can be: how many passes of the clock hand it survives untouched.
pub(super) const MOST_HEAT: u8 = 3;

/// Where a user belongs: in memory by a hash that is secret (see [`mixed`]), in the ring by
/// the public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    keyed: u64,
    user: u64,
}

impl Hash {
    #[inline]
    pub(super) fn of(user: u64) -> Self {
        Self {
            keyed: mixed::keyed(user),
            user,
        }
    }

    pub(super) fn user(self) -> u64 {
        self.user
    }

    pub(super) fn stripe(self) -> usize {
        self.keyed as usize % STRIPES
    }

    pub(super) fn slot(self) -> Slot {
        Slot::of_user(self.user)
    }

    pub(super) fn table(self) -> usize {
        (self.keyed >> STRIPE_BITS) as usize % TABLES
    }

    /// Bits that choose neither the stripe nor the table.
    pub(super) fn in_table(self) -> u32 {
        (self.keyed >> (STRIPE_BITS + TABLE_BITS)) as u32
    }

    fn tag(self) -> u64 {
        self.keyed >> (STRIPE_BITS + TABLE_BITS) & ((1 << TAG_BITS) - 1)
    }
}

/// How a user stands to the store, as far as a change has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Everything is written.
    Clean,
    /// Dirty, and another change need not be noted.
    Noted,
    /// A write is under way that has everything: the next change has to be noted.
    InFlight,
}

/// One user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record(u64);

const HEAT_AT: u32 = 32;
const STAGE_AT: u32 = 34;
const TAG_AT: u32 = 36;

impl Record {
    /// No user: its place is [`Place::NOWHERE`].
    const EMPTY: Self = Self(u64::MAX);

    fn new(hash: Hash, place: Place) -> Self {
        Self(u64::from(place.0) | hash.tag() << TAG_AT)
    }

    fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    fn tag(self) -> u64 {
        self.0 >> TAG_AT
    }

    pub(super) fn place(self) -> Place {
        // The lower half.
        Place(self.0 as u32)
    }

    pub(super) fn put_place(&mut self, place: Place) {
        self.0 = self.0 >> 32 << 32 | u64::from(place.0);
    }

    pub(super) fn heat(self) -> u8 {
        (self.0 >> HEAT_AT) as u8 & 3
    }

    pub(super) fn put_heat(&mut self, heat: u8) {
        self.0 = self.0 & !(3 << HEAT_AT) | u64::from(heat) << HEAT_AT;
    }

    pub(super) fn stage(self) -> Stage {
        match (self.0 >> STAGE_AT) & 3 {
            0 => Stage::Clean,
            1 => Stage::Noted,
            _ => Stage::InFlight,
        }
    }

    pub(super) fn put_stage(&mut self, stage: Stage) {
        let bits: u64 = match stage {
            Stage::Clean => 0,
            Stage::Noted => 1,
            Stage::InFlight => 2,
        };
        self.0 = self.0 & !(3 << STAGE_AT) | bits << STAGE_AT;
    }
}

/// Where a record is, until the next insertion or removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    table: usize,
    index: usize,
}

/// The tables of a stripe.
#[derive(Debug)]
pub(super) struct Tables {
    tables: Box<[Table]>,
    buckets: usize,
    /// What the clock hand looks at next.
    hand: Bucket,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            tables: (0..TABLES).map(|_| Table::default()).collect(),
            buckets: 0,
            hand: Bucket { table: 0, index: 0 },
        }
    }
}

impl Tables {
    /// The record with this hash whose place `is` right.
    pub(super) fn find(&self, hash: Hash, is: impl Fn(Place) -> bool) -> Option<Bucket> {
        let table = hash.table();
        let index = self.tables[table].find(hash.tag(), is)?;
        Some(Bucket { table, index })
    }

    pub(super) fn at(&self, bucket: Bucket) -> Record {
        self.tables[bucket.table].records[bucket.index]
    }

    pub(super) fn at_mut(&mut self, bucket: Bucket) -> &mut Record {
        &mut self.tables[bucket.table].records[bucket.index]
    }

    /// The bucket a search for this hash begins with: to bring it into the processor's cache.
    pub(super) fn home(&self, hash: Hash) -> u64 {
        let table = &self.tables[hash.table()];
        let home = home(hash.tag(), table.records.len());
        table.records.get(home).map_or(0, |record| record.0)
    }

    /// Takes in a user who is not here.
    pub(super) fn insert(&mut self, hash: Hash, place: Place) -> Bucket {
        let table = hash.table();
        let before = self.tables[table].records.len();
        let index = self.tables[table].insert(Record::new(hash, place));
        self.buckets += self.tables[table].records.len() - before;
        Bucket { table, index }
    }

    pub(super) fn remove(&mut self, bucket: Bucket) {
        let table = &mut self.tables[bucket.table];
        let before = table.records.len();
        table.remove(bucket.index);
        self.buckets -= before - table.records.len();
    }

    /// The occupied buckets of one of the tables.
    pub(super) fn occupied(&self, table: usize) -> impl Iterator<Item = Bucket> + '_ {
        let records = self.tables[table].records.iter().enumerate();
        records
            .filter(|(_, record)| !record.is_empty())
            .map(move |(index, _)| Bucket { table, index })
    }

    /// The bucket under the clock hand; `None` when it is empty.
    pub(super) fn under_hand(&mut self) -> Option<Bucket> {
        // A table may have become smaller.
        let table = &self.tables[self.hand.table];
        if self.hand.index >= table.records.len() {
            self.hand = Bucket {
                table: (self.hand.table + 1) % TABLES,
                index: 0,
            };
        }
        let record = self.tables[self.hand.table].records.get(self.hand.index)?;
        (!record.is_empty()).then_some(self.hand)
    }

    /// Moves the clock hand on.
    pub(super) fn advance(&mut self) {
        self.hand.index += 1;
    }

    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.records().count()
    }

    /// Buckets, full and empty, and 1 for each table that the hand passes.
    pub(super) fn buckets(&self) -> usize {
        self.buckets + TABLES
    }

    /// Bytes of the buckets.
    pub(super) fn bytes(&self) -> usize {
        self.buckets * size_of::<Record>()
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let records = self.tables.iter().flat_map(|table| table.records.iter());
        records.copied().filter(|record| !record.is_empty())
    }
}

/// Linear probing, at most seven eighths full, without tombstones.
#[derive(Debug, Default)]
struct Table {
    records: Box<[Record]>,
    users: usize,
}

/// A table grows by an eighth, and by at least this many buckets.
const LEAST_GROWTH: usize = 4;

impl Table {
    fn find(&self, tag: u64, is: impl Fn(Place) -> bool) -> Option<usize> {
        if self.records.is_empty() {
            return None;
        }
        let mut bucket = home(tag, self.records.len());
        loop {
            let record = self.records[bucket];
            if record.is_empty() {
                return None;
            }
            if record.tag() == tag && is(record.place()) {
                return Some(bucket);
            }
            bucket = self.next(bucket);
        }
    }

    fn insert(&mut self, record: Record) -> usize {
        if (self.users + 1) * 8 > self.records.len() * 7 {
            let buckets = self.records.len();
            self.rebuild(buckets + (buckets / 8).max(LEAST_GROWTH));
        }
        self.users += 1;
        self.place(record)
    }

    fn place(&mut self, record: Record) -> usize {
        let mut bucket = home(record.tag(), self.records.len());
        while !self.records[bucket].is_empty() {
            bucket = self.next(bucket);
        }
        self.records[bucket] = record;
        bucket
    }

    /// Empties a bucket, and moves back those behind it that may stand nearer to their home.
    fn remove(&mut self, bucket: usize) {
        let buckets = self.records.len();
        let (mut hole, mut next) = (bucket, self.next(bucket));
        while !self.records[next].is_empty() {
            let home = home(self.records[next].tag(), buckets);
            let distance = (next + buckets - home) % buckets;
            if distance >= (next + buckets - hole) % buckets {
                self.records[hole] = self.records[next];
                hole = next;
            }
            next = self.next(next);
        }
        self.records[hole] = Record::EMPTY;
        self.users -= 1;
        if self.users * 2 < buckets && buckets > 2 * LEAST_GROWTH {
            self.rebuild(self.users * 4 / 3 + LEAST_GROWTH);
        }
    }

    fn rebuild(&mut self, buckets: usize) {
        let empty = vec![Record::EMPTY; buckets].into_boxed_slice();
        for record in std::mem::replace(&mut self.records, empty) {
            if !record.is_empty() {
                self.place(record);
            }
        }
    }

    fn next(&self, bucket: usize) -> usize {
        let next = bucket + 1;
        if next == self.records.len() { 0 } else { next }
    }
}

/// The bucket where the search for a tag begins.
fn home(tag: u64, buckets: usize) -> usize {
    ((tag * buckets as u64) >> TAG_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many records a search for a hash looks at, until it is there or is known not to be.
    fn probes(tables: &Tables, hash: Hash, place: Place) -> usize {
        let looked = std::cell::Cell::new(0);
        let table = &tables.tables[hash.table()];
        let buckets = table.records.len();
        let found = table.find(hash.tag(), |at| {
            looked.set(looked.get() + 1);
            at == place
        });
        let found = found.expect("an inserted user is found");
        let distance = (found + buckets - home(hash.tag(), buckets)) % buckets;
        distance + 1 + looked.get()
    }

    /// Undoes `value ^ value >> by`.
    fn unshift(value: u64, by: u32) -> u64 {
        (0..64 / by).fold(value, |out, _| value ^ out >> by)
    }

    /// The inverse of an odd number, by Newton's method: each step doubles the bits that are right.
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)))
        })
    }

    /// The user with this public hash.
    fn user_of(public: u64) -> u64 {
        let value = unshift(public, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        let value = unshift(value, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        unshift(value, 30)
    }

    #[test]
    fn users_chosen_by_the_public_hash_are_found_as_soon_as_any_others() {
        const USERS: u64 = 40_000;
        const LOW: u64 = 0x12_3456_789a;
        let chosen: Vec<u64> = (1..=USERS).map(|user| user_of(user << 40 | LOW)).collect();
        let low = |&user: &u64| readstates_ring::slot::mix64(user) & 0xff_ffff_ffff;
        assert!(
            chosen.iter().map(low).all(|low| low == LOW),
            "they are chosen"
        );
        // By stripe, as a cache has them.
        let mut stripes: Vec<Tables> = (0..STRIPES).map(|_| Tables::default()).collect();
        for (place, &user) in (0..).map(Place).zip(&chosen) {
            let hash = Hash::of(user);
            stripes[hash.stripe()].insert(hash, place);
        }
        let all = (0..).map(Place).zip(&chosen).map(|(place, &user)| {
            let hash = Hash::of(user);
            probes(&stripes[hash.stripe()], hash, place)
        });
        let (sum, most) = all.fold((0, 0), |(sum, most), probes| {
            (sum + probes, most.max(probes))
        });
        // By the public hash it would be 20,000 on average. Tables are at most seven eighths full.
        assert!(
            sum < 20 * chosen.len(),
            "{sum} probes for {} users",
            chosen.len()
        );
        assert!(most < 400, "{most} probes for one user");
    }
}
