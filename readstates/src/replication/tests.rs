//! An owner and its backup, and frames that a test carries between them.

mod seeding;
mod sending;

use std::{sync::Arc, task::Poll, time::Duration};

use proptest::prelude::*;
use readstates_ring::{
    Epoch, Incarnation, Slot, SlotConfig, Stamp, Succession,
    replication::{Answer, PERMISSION},
};
use tokio::time::{Instant, advance};

use super::{
    holding::{Heard, Holding},
    owner::{Leaving, Owner, Settled},
    replay::replayed,
    time::Time,
    wire::{self, Changed, OfSlot, Said},
};
use crate::{
    block::{self, BlockRef, EMPTY, Operation, Visit, reference},
    codec,
};

const NOW: i64 = 1_795_000_000_000_000;
const OWNER: Incarnation = Incarnation::new(1);
const BACKUP: Incarnation = Incarnation::new(2);
const USER: u64 = 4711;
const ROOM: usize = 1 << 20;

fn slot() -> Slot {
    Slot::of_user(USER)
}

fn ack(message: u64) -> Operation {
    Operation::Ack {
        channel: 20,
        message,
        visit: Visit::default(),
    }
}

struct Pair {
    owner: Arc<Owner>,
    holding: Arc<Holding>,
    config: SlotConfig,
    block: Vec<u8>,
}

impl Pair {
    /// The slot has an owner, and no backup; the user has a state that the database lacks.
    fn new() -> Self {
        Self::with_room(ROOM)
    }

    fn with_room(most: usize) -> Self {
        let config = SlotConfig::first(OWNER, NOW);
        let origin = Instant::now();
        let time = Time::new(move || origin.elapsed());
        let owner = Owner::new(OWNER, time.clone());
        let holding = Holding::new(BACKUP, most, time);
        owner.learned(slot(), &config, false);
        assert!(holding.learned(slot(), config, None).is_none());
        let mut pair = Self {
            owner: Arc::new(owner),
            holding: Arc::new(holding),
            config,
            block: EMPTY.to_vec(),
        };
        pair.change(&[ack(1)]);
        pair
    }

    fn first_version(&self) -> u64 {
        let first = Stamp::new(self.config.epoch(), 0).as_database();
        u64::try_from(first).unwrap()
    }

    fn version(&self) -> u64 {
        BlockRef::trusted(&self.block).version()
    }

    /// As the cache does it, under the lock of a stripe.
    fn change(&mut self, operations: &[Operation]) {
        let (before, first_version) = (self.version(), self.first_version());
        block::apply_all(&mut self.block, operations, first_version, |_| ()).unwrap();
        if self.version() == before {
            return;
        }
        self.owner.changed(&Changed {
            user: USER,
            before,
            version: self.version(),
            first_version,
            operations,
        });
    }

    fn image(&self) {
        let packed = codec::encode(BlockRef::trusted(&self.block), OWNER.bits());
        self.owner.image(USER, self.version(), &packed);
    }

    fn leave(&self) -> Leaving {
        self.owner.leave(BACKUP).unwrap()
    }

    fn arrive(&self, frame: &Leaving) -> Said {
        let Ok(Heard::Say(said)) = self.holding.receive(&frame.bytes) else {
            panic!("the frame is not accepted")
        };
        Said::decode(&said.encode()).unwrap()
    }

    fn exchange(&self) -> Said {
        let frame = self.leave();
        let said = self.arrive(&frame);
        assert!(self.owner.acknowledged(BACKUP, &frame, Some(&said)));
        said
    }

    fn swap(&mut self, owner: Incarnation, backup: Option<Incarnation>, how: Succession) {
        let next = self
            .config
            .swap_backed(self.config.epoch(), owner, backup, how, NOW);
        self.config = next.unwrap();
    }

    /// The backup is seeded, and the ring names it.
    fn backed(mut self) -> Self {
        assert!(self.owner.seed(slot(), BACKUP));
        self.image();
        self.owner.seeded(slot());
        assert_eq!(self.owner.name(slot()), None, "nothing is acknowledged");
        self.exchange();
        assert_eq!(self.owner.name(slot()), Some(BACKUP));
        self.swap(OWNER, Some(BACKUP), Succession::Handed);
        self.owner.learned(slot(), &self.config, true);
        assert!(self.holding.learned(slot(), self.config, None).is_none());
        self.exchange();
        self
    }

    async fn is_settled(&self, answer: Answer) -> bool {
        let settled = self.owner.settled(USER, answer, true, Instant::now());
        settled.await == Settled::Backed
    }

    /// The owner is silent, and the backup is promoted: the block as it finds it.
    async fn promoted(&mut self) -> Vec<u8> {
        advance(Duration::from_secs(4)).await;
        assert_eq!(self.holding.promise(|_| false), [slot()]);
        self.swap(BACKUP, None, Succession::Promoted);
        let inherited = self.holding.learned(slot(), self.config, None);
        let (inherited, wait) = inherited.unwrap();
        assert_eq!(wait, Duration::ZERO, "nothing was accepted for long");
        replayed(&inherited.journal, USER, None).unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_until_the_backup_has_what_it_rests_on() {
    let mut pair = Pair::new().backed();
    for answer in [Answer::Change, Answer::Read] {
        assert!(pair.is_settled(answer).await);
        pair.change(&[ack(pair.version() + 1)]);
        assert!(!pair.is_settled(answer).await);
        let frame = pair.leave();
        let said = pair.arrive(&frame);
        assert!(!pair.is_settled(answer).await, "it is not told yet");
        pair.owner.acknowledged(BACKUP, &frame, Some(&said));
    }
    // What waits is woken.
    pair.change(&[ack(pair.version() + 1)]);
    let deadline = Instant::now() + Duration::from_secs(1);
    let waits = pair.owner.settled(USER, Answer::Change, true, deadline);
    let (settled, _) = tokio::join!(waits, async { pair.exchange() });
    assert_eq!(settled, Settled::Backed);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_many_does_not_wait_for_what_others_change_meanwhile() {
    let mut pair = Pair::new().backed();
    pair.change(&[ack(pair.version() + 1)]);
    let frame = pair.leave();
    let owner = Arc::clone(&pair.owner);
    let slots = [slot(), slot()];
    let deadline = Instant::now() + Duration::from_secs(1);
    let mut all = std::pin::pin!(owner.settled_all(&slots, Answer::Change, deadline));
    assert!(futures::poll!(all.as_mut()).is_pending());
    // It leaves with the next frame.
    pair.change(&[ack(pair.version() + 1)]);
    let said = pair.arrive(&frame);
    pair.owner.acknowledged(BACKUP, &frame, Some(&said));
    assert_eq!(futures::poll!(all.as_mut()), Poll::Ready(Some(Vec::new())));
    // It waits for its own.
    let deadline = Instant::now() + Duration::from_millis(10);
    let late = owner.settled_all(&slots, Answer::Change, deadline).await;
    assert_eq!(late, None);
}

#[tokio::test(start_paused = true)]
async fn when_the_permission_of_the_last_accepted_frame_is_over_nothing_is_answered() {
    let pair = Pair::new().backed();
    let frame = pair.leave();
    advance(PERMISSION - Duration::from_millis(500)).await;
    let said = pair.arrive(&frame);
    pair.owner.acknowledged(BACKUP, &frame, Some(&said));
    assert!(pair.is_settled(Answer::Read).await);
    advance(Duration::from_millis(499)).await;
    assert!(pair.is_settled(Answer::Read).await);
    advance(Duration::from_millis(1)).await;
    assert!(!pair.is_settled(Answer::Read).await, "from the sending on");
    // Nor of a user of whom the database has everything.
    let clean = pair
        .owner
        .settled(USER, Answer::Change, false, Instant::now());
    assert_eq!(clean.await, Settled::Late);
    pair.exchange();
    assert!(pair.is_settled(Answer::Read).await);
}

#[tokio::test(start_paused = true)]
async fn a_promoted_backup_has_every_change_and_accepts_nothing_more() {
    let mut pair = Pair::new().backed();
    pair.change(&[
        ack(7),
        Operation::Mention {
            channel: 3,
            message: 9,
            count: 2,
        },
    ]);
    pair.exchange();
    pair.change(&[Operation::Delete { channel: 20 }]);
    pair.exchange();
    let has = pair.block.clone();
    // Not acknowledged, and so not there.
    pair.change(&[ack(90)]);
    let late = pair.leave();
    assert_eq!(pair.promoted().await, has);
    let said = pair.arrive(&late);
    assert_eq!(
        said.acknowledgement.refused,
        [(slot(), pair.config.epoch())]
    );
    pair.owner.acknowledged(BACKUP, &late, Some(&said));
    assert!(!pair.is_settled(Answer::Change).await);
    assert_eq!(pair.owner.to_drop(), [slot()]);
}

#[tokio::test(start_paused = true)]
async fn what_the_database_has_takes_no_room() {
    let mut pair = Pair::new().backed();
    pair.change(&[ack(7)]);
    pair.exchange();
    let full = pair.holding.bytes();
    pair.owner.written(USER, pair.version() - 1);
    pair.exchange();
    let some = pair.holding.bytes();
    assert!(some < full && some > 0, "{some} of {full}");
    pair.owner.written(USER, pair.version());
    pair.exchange();
    assert_eq!(pair.holding.bytes(), 0);
    assert_eq!(pair.holding.slots(), [slot()], "it still backs the slot");
}

#[tokio::test(start_paused = true)]
async fn a_backup_without_room_takes_trims_and_no_changes_and_is_given_up() {
    let mut pair = Pair::with_room(3000).backed();
    let refused = loop {
        pair.change(&[ack(pair.version() + 1)]);
        let frame = pair.leave();
        match pair.holding.receive(&frame.bytes).unwrap() {
            Heard::Say(said) => assert!(pair.owner.acknowledged(BACKUP, &frame, Some(&said))),
            Heard::Full => break frame,
            heard => panic!("{heard:?}"),
        }
    };
    let bytes = pair.holding.bytes();
    assert!(bytes <= 3000, "{bytes}");
    assert!(!pair.owner.acknowledged(BACKUP, &refused, None));
    assert!(!pair.is_settled(Answer::Change).await);
    assert!(pair.owner.to_drop().is_empty(), "not yet");
    advance(Duration::from_millis(200)).await;
    assert_eq!(pair.owner.to_drop(), [slot()]);
    // The next stream carries nothing, and the slot goes on without a backup.
    pair.owner.reopen(BACKUP);
    pair.swap(OWNER, None, Succession::Handed);
    pair.owner.learned(slot(), &pair.config, true);
    let settled = pair
        .owner
        .settled(USER, Answer::Change, true, Instant::now());
    assert_eq!(settled.await, Settled::Alone);
    let is_over = pair.owner.acknowledged(BACKUP, &refused, None);
    assert!(is_over, "it was given up");
    assert_eq!(pair.exchange().acknowledgement.next, 1);
    assert!(pair.owner.forget(BACKUP));
    assert_eq!(pair.owner.leave(BACKUP), None);
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_was_given_up_is_seeded_again_a_second_later() {
    let pair = Pair::new();
    assert!(pair.owner.seed(slot(), BACKUP));
    assert!(pair.owner.alone().is_empty(), "one is on the way");
    pair.owner.reopen(BACKUP);
    assert!(pair.owner.alone().contains(&slot()));
    assert!(!pair.owner.seed(slot(), BACKUP));
    let (count, rest) = pair.owner.resting();
    assert_eq!((count, rest.as_secs()), (1, 1));
    advance(rest).await;
    assert!(pair.owner.seed(slot(), BACKUP));
    assert!(pair.owner.alone().is_empty());
    assert_eq!(pair.owner.unprotected(), 1, "it is not named yet");
}

#[tokio::test(start_paused = true)]
async fn a_backup_rests_that_answers_after_the_ring_was_asked_to_drop_it() {
    let mut pair = Pair::new().backed();
    pair.change(&[ack(2)]);
    let late = pair.leave();
    advance(Duration::from_millis(300)).await;
    let due = pair.owner.to_drop();
    assert_eq!(due, [slot()]);
    pair.owner.give_up(&due);
    // The ring takes its time.
    let said = pair.arrive(&late);
    assert!(pair.owner.acknowledged(BACKUP, &late, Some(&said)));
    assert!(pair.owner.to_drop().is_empty(), "it is not slow any more");
    pair.swap(OWNER, None, Succession::Handed);
    pair.owner.learned(slot(), &pair.config, true);
    assert!(!pair.owner.seed(slot(), BACKUP));
    let rests = pair.owner.begun_rests();
    assert_eq!(rests, [(BACKUP, pair.owner.resting().1)]);
    assert_eq!(pair.owner.patience(), Duration::from_millis(600));
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_rests_is_tried_once_it_has_answered_in_time_for_a_while() {
    let mut pair = Pair::new();
    for message in 2..7 {
        pair = pair.backed();
        pair.change(&[ack(message)]);
        let late = pair.leave();
        advance(Duration::from_secs(1)).await;
        pair.owner.give_up(&pair.owner.to_drop());
        let said = pair.arrive(&late);
        assert!(pair.owner.acknowledged(BACKUP, &late, Some(&said)));
        pair.swap(OWNER, None, Succession::Handed);
        pair.owner.learned(slot(), &pair.config, true);
        assert!(pair.holding.learned(slot(), pair.config, None).is_none());
        if message < 6 {
            advance(pair.owner.resting().1).await;
        }
    }
    assert_eq!(pair.owner.resting().1.as_secs().ilog2(), 4, "16 s or more");
    for beat in 0..20 {
        assert!(!pair.owner.try_to_seed(slot(), BACKUP), "{beat}");
        pair.exchange();
        advance(Duration::from_millis(250)).await;
    }
    assert!(!pair.owner.seed(slot(), BACKUP), "it rests");
    assert!(pair.owner.try_to_seed(slot(), BACKUP));
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_say_when_there_is_little_room() {
    let mut pair = Pair::with_room(3000).backed();
    assert!(!pair.exchange().has_little_room);
    while pair.holding.bytes() <= 1500 {
        pair.change(&[ack(pair.version() + 1)]);
        pair.exchange();
    }
    assert!(pair.exchange().has_little_room);
    pair.owner.written(USER, pair.version());
    assert!(!pair.exchange().has_little_room);
}

#[tokio::test(start_paused = true)]
async fn a_frame_about_a_later_epoch_waits_until_the_backup_has_read_the_ring() {
    let mut pair = Pair::new().backed();
    pair.swap(OWNER, Some(BACKUP), Succession::Handed);
    pair.owner.learned(slot(), &pair.config, true);
    let frame = pair.leave();
    let heard = pair.holding.receive(&frame.bytes).unwrap();
    assert_eq!(heard, Heard::LearnFirst(slot(), pair.config.epoch()));
    pair.holding.learned(slot(), pair.config, None);
    let said = pair.arrive(&frame);
    assert!(pair.owner.acknowledged(BACKUP, &frame, Some(&said)));
    // It comes once more, and changes nothing.
    assert_eq!(pair.arrive(&frame), said);
}

#[test]
fn what_is_no_frame_is_refused_and_takes_no_room() {
    let account = Arc::default();
    let mut frame = Vec::new();
    let head = wire::Head {
        from: OWNER,
        to: BACKUP,
        stream: 1,
        number: 2,
    };
    wire::put_head(&mut frame, head);
    let epoch = Epoch::mint(None, NOW);
    wire::put_of_slot(
        &mut frame,
        slot(),
        epoch,
        OfSlot::Continue { sealed: epoch },
    );
    wire::put_trim(&mut frame, epoch, USER, 7);
    let change = Changed {
        user: USER,
        before: 1,
        version: 2,
        first_version: 1,
        operations: &[ack(1)],
    };
    wire::put_change(&mut frame, epoch, &change);
    assert!(wire::decode(&frame, &account).is_ok());
    let ends = [32, 32 + 20, 32 + 20 + 28, frame.len()];
    for length in 0..frame.len() {
        let decoded = wire::decode(&frame[..length], &account);
        assert_eq!(decoded.is_ok(), ends.contains(&length), "{length}");
    }
    frame[28] = 2;
    let refused = wire::decode(&frame, &account).unwrap_err();
    assert_eq!(refused, wire::Malformed::Semantics(2));
    assert_eq!(account.bytes(), 0);
}

proptest! {
    #[test]
    fn a_replay_gives_the_same_bytes(operations in reference::operations(60), trimmed in 0_usize..60) {
        let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).enable_time().build();
        runtime.unwrap().block_on(async {
            let mut pair = Pair::new().backed();
            for (place, operation) in operations.iter().enumerate() {
                pair.change(&[*operation]);
                if place == trimmed {
                    pair.image();
                }
                if place % 7 == 0 {
                    pair.exchange();
                }
            }
            pair.exchange();
            let has = pair.block.clone();
            prop_assert_eq!(pair.promoted().await, has);
            Ok::<(), TestCaseError>(())
        })?;
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let account = Arc::default();
        let mut framed = Vec::new();
        wire::put_head(&mut framed, wire::Head { from: OWNER, to: BACKUP, stream: 0, number: 0 });
        framed.extend(&bytes);
        drop(wire::decode(&framed, &account));
        drop(wire::decode(&bytes, &account));
        drop(Said::decode(&bytes));
        prop_assert_eq!(account.bytes(), 0);
    }

    #[test]
    fn an_acknowledgement_comes_as_it_was_sent(
        stream: u32, next: u64, slots in prop::collection::btree_map(0_u16..1024, 0_i64..1 << 38, 0..20), has_little_room: bool,
    ) {
        let refused = slots.into_iter().map(|(slot, epoch)| {
            (Slot::new(slot).unwrap(), Epoch::new(epoch).unwrap())
        });
        let acknowledgement = readstates_ring::replication::Acknowledgement {
            from: BACKUP, to: OWNER, stream, next, refused: refused.collect(),
        };
        let said = Said { acknowledgement, has_little_room };
        prop_assert_eq!(Said::decode(&said.encode()), Ok(said));
    }
}
