//! The cache against a naive model: whatever comes in whatever order, the same blocks, the same
//! accounts, nothing dirty lost, nothing left over in the slab.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::{
    super::{
        slab::REGION,
        table::{Stage, TABLES},
    },
    *,
};
use crate::block::take_over;

/// What happens to the cache.
#[derive(Debug, Clone)]
enum CacheStep {
    /// A user who may be cached is loaded from the store.
    Load(u64),
    Change(u64, Vec<Operation>),
    ChangeMany(Vec<(u64, Operation)>),
    Read(u64),
    Capacity(u64),
    /// So many users are taken off; which of them land, and which fail.
    Flush(usize, Vec<bool>),
    BringForward(u64),
    Wait(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    // Ids that spread over many channels, so that blocks grow.
    let (channel, message) = (|| 1_u64..600, || 1_u64..2000);
    prop_oneof![
        8 => (channel(), message()).prop_map(|(channel, message)| ack(channel, message)),
        6 => (channel(), message())
            .prop_map(|(channel, message)| Operation::Mention { channel, message, count: 1 }),
        2 => channel().prop_map(|channel| Operation::Delete { channel }),
        1 => (channel(), message())
            .prop_map(|(channel, millis)| Operation::AckPins { channel, millis }),
        1 => Just(Operation::DeleteUser),
    ]
}

/// Users of two stripes, so that their slabs fill.
fn user() -> impl Strategy<Value = u64> {
    let users: Vec<u64> = (1..)
        .filter(|&user| Hash::of(user).stripe() < 2)
        .take(60)
        .collect();
    prop::sample::select(users)
}

fn step() -> impl Strategy<Value = CacheStep> {
    let operations = || {
        let many = proptest::collection::vec(operation(), 1..500);
        prop_oneof![3 => proptest::collection::vec(operation(), 1..40), 1 => many]
    };
    prop_oneof![
        8 => user().prop_map(CacheStep::Load),
        8 => (user(), operations()).prop_map(|(user, operations)| CacheStep::Change(user, operations)),
        2 => proptest::collection::vec((user(), operation()), 0..60).prop_map(CacheStep::ChangeMany),
        2 => user().prop_map(CacheStep::Read),
        1 => (0_u64..8000).prop_map(CacheStep::Capacity),
        3 => (1_usize..20, proptest::collection::vec(any::<bool>(), 0..40))
            .prop_map(|(most, landing)| CacheStep::Flush(most, landing)),
        1 => user().prop_map(CacheStep::BringForward),
        3 => (1_u64..40).prop_map(CacheStep::Wait),
    ]
}

/// Everybody's block as it must be, wherever it is, and what the store has.
struct CacheWorld {
    cache: Cache,
    now: Instant,
    blocks: BTreeMap<u64, Vec<u8>>,
    stored: HashMap<u64, (Vec<u8>, Stamp)>,
    in_flight: Vec<BlockWrite>,
}

impl CacheWorld {
    fn new() -> Self {
        Self {
            cache: cache(5000),
            now: Instant::now(),
            blocks: BTreeMap::new(),
            stored: HashMap::new(),
            in_flight: Vec::new(),
        }
    }

    fn take(&mut self, step: CacheStep) {
        match step {
            CacheStep::Load(user) => self.load(user),
            CacheStep::Change(user, operations) => {
                let done = self.cache.change(
                    user,
                    &operations,
                    Touch::Online,
                    self.now,
                    |block, outcomes| (block.bytes().to_vec(), outcomes.to_vec()),
                );
                if let Some(Ok((seen, outcomes))) = done {
                    let expected: Vec<_> = operations
                        .iter()
                        .map(|operation| self.expect(user, operation))
                        .collect();
                    assert_eq!(outcomes, expected);
                    assert_eq!(seen, self.blocks[&user]);
                }
            }
            CacheStep::ChangeMany(operations) => {
                let mut done = vec![None; operations.len()];
                self.cache.change_many(
                    &operations[..],
                    0..operations.len(),
                    Touch::Mention,
                    self.now,
                    &mut HashSet::new(),
                    |index, outcome| {
                        assert!(done[index].replace(outcome).is_none(), "told twice");
                    },
                );
                for ((user, operation), done) in operations.iter().zip(done) {
                    match done.expect("every operation is told of") {
                        Some(Ok(outcome)) => assert_eq!(outcome, self.expect(*user, operation)),
                        Some(Err(_)) => {}
                        None => assert!(self.cache.read(*user, |_| ()).is_none()),
                    }
                }
            }
            CacheStep::Read(user) => {
                if let Some(seen) = self.cache.read(user, |block| block.bytes().to_vec()) {
                    assert_eq!(seen, self.blocks[&user]);
                }
            }
            CacheStep::Capacity(states) => {
                self.cache.set_capacity(states);
                let mut shrink = self.cache.shrink();
                while shrink.step(self.now) {}
            }
            CacheStep::Flush(most, landing) => {
                self.in_flight
                    .extend(self.cache.begin_flushes(self.now, most));
                for lands in landing.into_iter().take(self.in_flight.len()) {
                    let write = self.in_flight.remove(0);
                    self.land(write, lands);
                }
            }
            CacheStep::BringForward(user) => self.cache.bring_forward(user, self.now),
            CacheStep::Wait(seconds) => self.now += Duration::from_secs(seconds),
        }
    }

    fn load(&mut self, user: u64) {
        let stored = self.stored.get(&user);
        let cached = self.cache.read(user, |_| ()).is_some();
        let decoded = stored.map(|(bytes, stamp)| (codec::decode(bytes).unwrap(), *stamp));
        if !cached {
            // What is not cached was written, or never changed.
            let mut block = decoded
                .as_ref()
                .map_or(EMPTY.to_vec(), |(it, _)| it.block.bytes().to_vec());
            let before = self.blocks.get(&user);
            assert!(before.is_none_or(
                |it| BlockRef::trusted(it).version() == BlockRef::trusted(&block).version()
            ));
            if stored.is_none() {
                take_over(&mut block);
            }
            self.blocks.insert(user, block);
        }
        self.cache.insert(user, decoded);
        self.cache.make_room(Some(user), self.now);
        assert!(
            self.cache.read(user, |_| ()).is_some(),
            "who was just loaded is kept"
        );
    }

    fn expect(&mut self, user: u64, operation: &Operation) -> Outcome {
        let block = self.blocks.get_mut(&user).unwrap();
        apply(block, operation, PROCESS.started_micros).unwrap()
    }

    fn land(&mut self, write: BlockWrite, lands: bool) {
        if !lands {
            self.cache.failed(&write, self.now);
            return;
        }
        self.cache.written(&write, self.now);
        let last = self.stored.insert(write.user, (write.bytes, write.stamp));
        assert!(last.is_none_or(|(_, stamp)| stamp < write.stamp));
    }

    /// Counts again what the accounts say.
    fn check(&self) {
        let totals = self.cache.totals();
        let (mut users, mut states, mut bytes, mut needed, mut tails) = (0, 0, 0, 0, 0);
        let (mut dirty_users, mut dirty_states, mut dirty_bytes) = (0, 0, 0);
        for stripe in &self.cache.stripes {
            let stripe = stripe.lock();
            let mut live = 0;
            for record in stripe.tables.records() {
                let (place, clean) = (record.place(), record.stage() == Stage::Clean);
                let user = stripe.slab.user(place);
                let block = BlockRef::trusted(stripe.slab.block(place));
                assert_eq!(block.bytes(), self.blocks[&user], "user {user}");
                assert_eq!(stripe.dirty.get(user).is_none(), clean);
                live += stripe.slab.size(place);
                users += 1;
                states += block.weight();
                tails += accounts::tail(block) as u64;
                dirty_users += u64::from(!clean);
                dirty_states += if clean { 0 } else { block.weight() };
                dirty_bytes += if clean { 0 } else { block.bytes().len() as u64 };
            }
            assert_eq!(stripe.slab.live(), live, "nothing is left over");
            let idle = stripe.slab.resident() - live;
            assert!(
                idle <= live / 16 + 3 * REGION,
                "{idle} bytes idle for {live}"
            );
            assert!(stripe.tables.buckets() <= 2 * stripe.tables.users() + 9 * TABLES);
            needed += (live + stripe.beside()) as u64;
            bytes += (stripe.slab.resident() + stripe.beside()) as u64;
        }
        let counted = Totals {
            users,
            states,
            bytes,
            bytes_needed: needed,
            bytes_of_tails: tails,
            dirty_users,
            dirty_states,
            dirty_bytes,
            ..totals
        };
        assert_eq!(totals, counted);
        assert_eq!(totals.oldest_dirty.is_some(), dirty_users > 0);
    }

    /// Writes and evicts everything.
    fn empty(&mut self) {
        self.cache.set_capacity(0);
        for _ in 0..20 {
            let in_flight = std::mem::take(&mut self.in_flight);
            in_flight
                .into_iter()
                .for_each(|write| self.land(write, true));
            self.now += INTERVAL * 2;
            self.in_flight = self.cache.begin_flushes(self.now, usize::MAX);
        }
        let mut shrink = self.cache.shrink();
        while shrink.step(self.now) {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_cache_is_what_the_model_says(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = CacheWorld::new();
        for (number, step) in steps.into_iter().enumerate() {
            world.take(step);
            // Counting takes longer than the steps.
            if number % 8 == 0 {
                world.check();
            }
        }
        world.empty();
        world.check();
        let totals = world.cache.totals();
        prop_assert_eq!((totals.users, totals.states, totals.dirty_users), (0, 0, 0));
        for (user, block) in &world.blocks {
            let version = BlockRef::trusted(block).version();
            let stored = world.stored.get(user);
            let stored = stored.map_or(0, |(bytes, _)| codec::decode(bytes).unwrap().block.version());
            prop_assert_eq!(stored, version, "user {} was not lost", user);
        }
    }
}
