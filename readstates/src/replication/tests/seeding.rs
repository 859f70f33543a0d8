//! Seeds that go in parts.

use super::*;
use crate::replication::{Seeds, Sow};

/// What the members' port takes.
const MOST_BYTES: usize = crate::ownership::MOST_BYTES;

/// The users of a slot, all with the same block.
struct Field<'a> {
    pair: &'a Pair,
    packed: Vec<u8>,
}

impl Sow for Field<'_> {
    fn goes_on(&self, slot: Slot, to: Incarnation) -> bool {
        self.pair.owner.seeds(slot, to)
    }

    fn pending(&self, to: Incarnation) -> usize {
        self.pair.owner.pending(to)
    }

    fn send(&self, user: u64, most: usize) -> bool {
        let fits = self.packed.len() <= most;
        if fits {
            let version = self.pair.version();
            self.pair.owner.image(user, version, &self.packed);
        }
        fits
    }

    fn done(&self, slot: Slot) {
        self.pair.owner.seeded(slot);
    }
}

fn users(count: usize) -> Vec<u64> {
    let of_slot = (1..).filter(|&user| Slot::of_user(user) == slot());
    of_slot.take(count).collect()
}

/// A user with so many states, and a backup with room for many of them.
fn large(states: u64) -> (Pair, Vec<u8>) {
    let mut pair = Pair::with_room(200 << 20);
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
    for from in (0..states).step_by(1000) {
        let acks = (from..states.min(from + 1000)).map(|number| Operation::Ack {
            channel: scattered(number + 1),
            message: scattered(number + 77),
            visit: Visit::default(),
        });
        pair.change(&acks.collect::<Vec<_>>());
    }
    let block = BlockRef::trusted(&pair.block);
    let packed = codec::encode(block, OWNER.bits());
    (pair, packed)
}

#[tokio::test(start_paused = true)]
async fn a_slot_with_more_than_a_message_carries_gets_a_backup_that_has_all_of_it() {
    let (mut pair, packed) = large(10_000);
    let users = users((2 * MOST_BYTES) / packed.len() + 1);
    assert!(pair.owner.seed(slot(), BACKUP));
    let mut seeds = Seeds::default();
    seeds.begin(slot(), BACKUP, users.clone());
    let field = Field {
        pair: &pair,
        packed,
    };
    let mut frames = 0;
    while !seeds.is_empty() {
        assert_eq!(pair.owner.name(slot()), None, "more of the seed follows");
        assert!(pair.holding.incomplete().is_empty());
        seeds.go_on(&field);
        let frame = pair.leave();
        assert!(frame.bytes.len() < MOST_BYTES, "{}", frame.bytes.len());
        let said = pair.arrive(&frame);
        assert!(pair.owner.acknowledged(BACKUP, &frame, Some(&said)));
        frames += 1;
    }
    assert!(frames > 8, "{frames}");
    assert_eq!(pair.owner.name(slot()), Some(BACKUP));
    pair.swap(OWNER, Some(BACKUP), Succession::Handed);
    pair.owner.learned(slot(), &pair.config, true);
    assert!(pair.holding.learned(slot(), pair.config, None).is_none());
    pair.exchange();
    advance(Duration::from_secs(4)).await;
    assert_eq!(pair.holding.promise(|_| false), [slot()]);
    pair.swap(BACKUP, None, Succession::Promoted);
    let (inherited, _) = pair.holding.learned(slot(), pair.config, None).unwrap();
    for user in users {
        let replayed = replayed(&inherited.journal, user, None).unwrap().unwrap();
        assert!(replayed == pair.block, "user {user}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_seeded_is_there_though_the_owner_swaps_before_the_ring_names_the_backup() {
    let mut pair = Pair::new();
    assert!(pair.owner.seed(slot(), BACKUP));
    pair.image();
    pair.owner.seeded(slot());
    pair.exchange();
    // Such as the swap that drops the backup before.
    for named in [None, Some(BACKUP)] {
        assert_eq!(pair.owner.name(slot()), Some(BACKUP));
        pair.swap(OWNER, named, Succession::Handed);
        pair.owner.learned(slot(), &pair.config, true);
        assert!(pair.holding.learned(slot(), pair.config, None).is_none());
        assert!(pair.holding.incomplete().is_empty());
    }
    assert_eq!(pair.exchange().acknowledgement.refused, []);
    let has = pair.block.clone();
    assert_eq!(pair.promoted().await, has);
}

#[tokio::test(start_paused = true)]
async fn a_seed_that_was_given_up_is_not_taken_for_the_next_one() {
    let (pair, packed) = large(10_000);
    let users = users((MOST_BYTES / 2) / packed.len());
    assert!(pair.owner.seed(slot(), BACKUP));
    let mut seeds = Seeds::default();
    seeds.begin(slot(), BACKUP, users);
    let field = Field {
        pair: &pair,
        packed,
    };
    seeds.go_on(&field);
    pair.owner.reopen(BACKUP);
    seeds.go_on(&field);
    assert!(seeds.is_empty());
    advance(pair.owner.resting().1).await;
    assert!(pair.owner.seed(slot(), BACKUP));
    pair.exchange();
    assert_eq!(pair.owner.name(slot()), None, "nothing was sent of it");
}
