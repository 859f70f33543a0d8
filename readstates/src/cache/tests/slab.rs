//! The slab alone: many blocks that come, grow, shrink and go, against a map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::slab::{Place, REGION, Slab, SlabRoom};
use crate::block::Room;

#[derive(Debug, Clone)]
enum SlabStep {
    Put(usize),
    Resize(prop::sample::Index, usize),
    Remove(prop::sample::Index),
}

/// Lengths about a region's largest block, small ones and large ones.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 24_usize..1200, 2 => 3000_usize..9000, 1 => 9000_usize..40_000]
}

fn step() -> impl Strategy<Value = SlabStep> {
    prop_oneof![
        5 => length().prop_map(SlabStep::Put),
        4 => (any::<prop::sample::Index>(), length())
            .prop_map(|(which, length)| SlabStep::Resize(which, length)),
        3 => any::<prop::sample::Index>().prop_map(SlabStep::Remove),
    ]
}

/// The slab, and where each user's block is and what it must be.
#[derive(Default)]
struct SlabWorld {
    slab: Slab,
    blocks: BTreeMap<u64, (Place, Vec<u8>)>,
    next: u64,
}

impl SlabWorld {
    fn some(&self, which: &prop::sample::Index) -> Option<u64> {
        let users: Vec<u64> = self.blocks.keys().copied().collect();
        (!users.is_empty()).then(|| *which.get(&users))
    }

    fn take(&mut self, step: &SlabStep) {
        match step {
            SlabStep::Put(length) => {
                self.next += 1;
                let block = vec![self.next as u8; *length];
                let place = self.slab.put(self.next, &block);
                self.blocks.insert(self.next, (place, block));
            }
            SlabStep::Resize(which, length) => {
                let Some(user) = self.some(which) else { return };
                let (place, block) = self.blocks.get_mut(&user).unwrap();
                let mut room = SlabRoom {
                    slab: &mut self.slab,
                    place: *place,
                };
                room.resize(*length);
                block.resize(*length, 0);
                assert_eq!(room.bytes(), block, "what is new is 0");
                room.bytes_mut().fill(user as u8);
                block.fill(user as u8);
                *place = room.place;
            }
            SlabStep::Remove(which) => {
                let Some(user) = self.some(which) else { return };
                let (place, _) = self.blocks.remove(&user).unwrap();
                self.slab.remove(place);
            }
        }
    }

    fn tidy(&mut self) {
        while let Some((place, user, _)) = self.slab.next_to_move() {
            if let Some(entry) = self.blocks.get_mut(&user).filter(|entry| entry.0 == place) {
                entry.0 = self.slab.move_out(place);
            }
        }
    }

    fn check(&self) {
        let mut live = 0;
        for (&user, (place, block)) in &self.blocks {
            assert_eq!(
                (self.slab.user(*place), self.slab.block(*place)),
                (user, &block[..])
            );
            live += self.slab.size(*place);
        }
        assert_eq!(self.slab.live(), live);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_stay_what_they_are_and_what_they_leave_is_given_back(
        steps in proptest::collection::vec(step(), 1..600),
        tidied_every in 1_usize..100,
    ) {
        let mut world = SlabWorld::default();
        for (number, step) in steps.iter().enumerate() {
            world.take(step);
            if number % tidied_every == 0 {
                world.tidy();
                world.check();
                let (live, resident) = (world.slab.live(), world.slab.resident());
                assert!(resident <= live + live / 16 + 2 * REGION, "{resident} for {live}");
            }
        }
        world.check();
        let places: Vec<Place> = world.blocks.values().map(|&(place, _)| place).collect();
        places.into_iter().for_each(|place| world.slab.remove(place));
        prop_assert_eq!(world.slab.live(), 0);
        prop_assert!(world.slab.resident() <= REGION, "the open region is left");
    }
}
