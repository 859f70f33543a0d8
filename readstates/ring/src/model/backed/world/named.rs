//! Interleavings with names. Each is walked with the protocol as it is, and with the faults that it is about.

use super::{
    super::{Limits, Start},
    lead::{B, C, Led, P},
    *,
};
use crate::{
    mutant,
    replication::{Handing, may_hand_on},
};

/// Operations of clients. That which is under way in the worlds with late writes is `A`.
const A: u8 = 0;
const X: u8 = 1;
const ONLY_A: Content = [1, 0, 0];
const ONLY_X: Content = [0, 1, 0];

impl Led {
    fn new(start: Start) -> Self {
        let limits = Limits {
            start,
            ..Limits::PLENTY
        };
        Self::from(BackedWorld::new(limits))
    }

    /// An operation is done, replicated and acknowledged.
    fn acknowledged(&mut self, owner: usize, backup: usize, operation: u8) -> &mut Self {
        self.arrive(owner, operation).replicate(owner, backup);
        assert!(self.answer(owner, operation) || self.broken.is_some());
        self
    }

    /// The first message of a hand-off to a pod arrives.
    fn receive(&mut self, pod: usize) -> &mut Self {
        let me = self.world.pods[pod].me;
        let part = self.world.parts.iter().position(|part| part.to == me);
        self.step(BackedStep::Receive {
            part: part.unwrap(),
        })
    }

    /// A slot is sealed and sent, and the ring is asked to name the destination.
    fn hand_over(&mut self, from: usize, to: usize) -> &mut Self {
        self.step(BackedStep::Move { pod: from, to });
        self.step(BackedStep::Finish { pod: from });
        self.receive(to).receive(from)
    }

    fn content(&self, pod: usize) -> Option<Content> {
        self.world.pods[pod].block.map(|block| block.content)
    }

    fn possible(&self, step: BackedStep) -> bool {
        self.world.possible().contains(&step)
    }

    #[track_caller]
    fn holds(&self) {
        assert_eq!(self.broken, None);
        assert_eq!(self.world.facts.lost, 0, "a loss was said");
    }
}

/// The same steps break a promise when they are walked with this fault.
#[track_caller]
fn broken_by(shortcut: Shortcut, walk: impl Fn() -> Led) {
    mutant::take(Some(shortcut));
    let scene = walk();
    mutant::take(None);
    assert!(scene.broken.is_some(), "{shortcut:?} breaks nothing");
}

/// A write of P's first ownership is under way when B and then P again own the slot.
fn late_write(operation: u8) -> Led {
    let mut scene = Led::new(Start::LateWrite);
    scene.load(B).acknowledged(B, P, operation);
    scene.land(P, false).promote(P).load(P);
    scene
}

#[test]
fn late_write_of_a_replaced_owner_lands_under_the_journal() {
    for operation in [X, A] {
        let scene = late_write(operation);
        scene.holds();
        let mut content = [0; 3];
        content[usize::from(operation)] = 1;
        assert_eq!(scene.content(P), Some(content));
    }
    // Of the same operation, what lands is as good as what is lost.
    broken_by(Shortcut::LeavesBase, || late_write(X));
}

/// C says "was applied before" of what P wrote and never acknowledged; then B's late write replaces that.
fn ignored_on_foreign() -> Led {
    let mut scene = Led::new(Start::LateWrites);
    scene.load(C).acknowledged(C, P, A).land(B, false);
    scene.promote(P).load(P);
    scene
}

#[test]
fn ignored_on_a_foreign_block_survives_the_owners_crash() {
    let scene = ignored_on_foreign();
    scene.holds();
    assert_eq!(scene.content(P), Some(ONLY_A));
    for shortcut in [Shortcut::RestampsAlone, Shortcut::LeavesBaseOfIgnored] {
        broken_by(shortcut, ignored_on_foreign);
    }
}

#[test]
fn read_does_not_show_what_the_backup_lacks() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).arrive(P, X).promote(B).load(B);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.world.facts.shown, 0);
    broken_by(Shortcut::ReadWithoutTicket, walk);
}

#[test]
fn zombie_answers_ignored_after_a_deletion_elsewhere() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).arrive(P, X).replicate(P, B);
        scene.promote(B).load(B).arrive(P, X).answer(P, X);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.world.facts.acknowledged, 0);
    broken_by(Shortcut::ChangeWithoutPermission, walk);
}

#[test]
fn promoted_twice_before_anybody_asked_for_the_user() {
    let begin = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).acknowledged(P, B, X).promote(B);
        scene
    };
    let seeds = BackedStep::Seed { pod: B, to: C };
    let mut scene = begin();
    assert!(!scene.possible(seeds));
    scene
        .load(B)
        .step(BackedStep::Flush { pod: B })
        .land(B, true);
    assert!(scene.possible(seeds));
    scene.seed(B, C).promote(C).load(C);
    scene.holds();
    assert_eq!(scene.content(C), Some(ONLY_X));
    broken_by(Shortcut::SeedsUnreplayed, || {
        let mut scene = begin();
        let inherited = scene.world.pods[B].inherited.as_ref();
        assert!(may_hand_on(inherited, Handing::Seed));
        scene.seed(B, C).promote(C).load(C);
        scene
    });
}

#[test]
fn moved_before_replay() {
    let begin = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).acknowledged(P, B, X).promote(B);
        scene
    };
    let moves = BackedStep::Move { pod: B, to: C };
    let mut scene = begin();
    assert!(!scene.possible(moves));
    scene
        .load(B)
        .step(BackedStep::Flush { pod: B })
        .land(B, true);
    assert!(scene.possible(moves));
    broken_by(Shortcut::MovesUnreplayed, || {
        let mut scene = begin();
        scene.learn(C).hand_over(B, C);
        // C continues; B, as its backup, has nothing of what was in its journal.
        scene.swap(B).learn(C).learn(B).replicate(C, B).load(C);
        scene
    });
}

#[test]
fn seeding_swap_done_but_unknown_and_the_new_backup_promotes() {
    let walk = || {
        let mut scene = Led::new(Start::Alone);
        scene.load(P).step(BackedStep::Seed { pod: P, to: B });
        scene
            .replicate(P, B)
            .step(BackedStep::Name { pod: P })
            .swap(P);
        scene.arrive(P, X).answer(P, X);
        scene.learn(B).promote(B).load(B);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.world.facts.acknowledged, 0);
    broken_by(Shortcut::NewBackupNotAsked, walk);
}

#[test]
fn acknowledgement_delayed_past_promotion() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).arrive(P, X).deliver(P, B);
        scene.promote(B).load(B).accept(P).answer(P, X);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.world.facts.acknowledged, 0);
    for shortcut in [
        Shortcut::ChangeWithoutPermission,
        Shortcut::PermissionFromReceipt,
    ] {
        broken_by(shortcut, walk);
    }
}

#[test]
fn frame_acknowledged_between_the_swap_and_its_news() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).step(BackedStep::Promote { pod: B }).swap(B);
        scene.arrive(P, X).replicate(P, B).learn(B).load(B);
        scene.answer(P, X);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.world.facts.acknowledged, 0);
    let Pod { guard, streams, .. } = &scene.world.pods[P];
    assert!(guard.must_drop(streams, scene.world.now), "it was refused");
    broken_by(Shortcut::AcceptsUntilPromoted, walk);
}

#[test]
fn trim_between_load_and_replay() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).acknowledged(P, B, X);
        scene.step(BackedStep::Flush { pod: P });
        scene.promote(B).step(BackedStep::Load { pod: B });
        scene.land(P, true).deliver(P, B);
        scene.step(BackedStep::Loaded { pod: B });
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.content(B), Some(ONLY_X));
    broken_by(Shortcut::TrimsAfterPromise, walk);
}

#[test]
fn available_refuses_when_neither_answers() {
    let begin = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).arrive(P, X).step(BackedStep::Drop { pod: P });
        scene
    };
    let mut scene = begin();
    assert!(!scene.answer(P, X), "neither backup nor ring has answered");
    scene.swap(P);
    assert!(
        !scene.answer(P, X),
        "the ring has dropped the backup, and that is not known"
    );
    scene.learn(P);
    assert!(scene.answer(P, X), "what waited is acknowledged");
    scene.holds();
    broken_by(Shortcut::ChangeWithoutTicket, || {
        let mut scene = begin();
        scene.answer(P, X);
        scene.promote(B).load(B);
        scene
    });
}

#[test]
fn swap_of_a_dead_backup_is_carried_out_late() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P).acknowledged(P, B, X);
    scene.step(BackedStep::Promote { pod: B });
    let asked = scene.world.swaps[0];
    scene.step(BackedStep::Crash { pod: B });
    scene.step(BackedStep::Swap { asked: 0 });
    assert_eq!(scene.world.ring.owner(), asked.owner, "the owner is dead");
    scene.learn(P);
    assert!(!scene.possible(BackedStep::Promote { pod: P }));
    assert_eq!(scene.world.pods[P].backup.holds().count(), 0);
    scene.step(BackedStep::TakeOver { pod: C }).swap(C);
    scene.learn(C).learn(P).learn(B);
    scene.step(BackedStep::Agree { pod: C }).load(C);
    assert_eq!(scene.broken, None);
    assert_eq!(
        scene.world.facts.lost,
        1 << X,
        "what P had alone is said to be lost"
    );
}

#[test]
fn two_swaps_before_the_backup_looks() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P);
    for _ in 0..2 {
        scene.step(BackedStep::Lapse { pod: P });
        scene.step(BackedStep::Renew { pod: P }).swap(P).learn(P);
    }
    assert_eq!(scene.world.ring.backup(), Some(scene.world.pods[B].me));
    scene.deliver(P, B).accept(P).learn(B).learn(C);
    scene.step(BackedStep::Agree { pod: P }).replicate(P, B);
    scene.acknowledged(P, B, X);
    scene.step(BackedStep::Crash { pod: P });
    scene.promote(B).load(B);
    scene.holds();
    assert_eq!(scene.content(B), Some(ONLY_X));
}

/// C is seeded in B's place, and B is given up before the ring is asked to name C.
#[test]
fn seeded_before_a_swap_of_the_owner_and_named_after_it() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P).acknowledged(P, B, X);
    scene
        .step(BackedStep::Seed { pod: P, to: C })
        .replicate(P, C);
    scene.step(BackedStep::Drop { pod: P }).swap(P);
    scene.learn(P).learn(B).learn(C);
    assert_eq!(
        scene.world.pods[B].backup.holds().count(),
        0,
        "it was dropped"
    );
    scene.step(BackedStep::Name { pod: P }).swap(P);
    scene.learn(P).learn(C).replicate(P, C);
    scene.step(BackedStep::Crash { pod: P });
    scene.promote(C).load(C);
    scene.holds();
    assert_eq!(scene.content(C), Some(ONLY_X));
}

/// P cannot renew its lease, and its frames arrive all the time.
#[test]
fn promoted_in_place_of_an_owner_without_a_lease_whose_frames_go_on() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P).acknowledged(P, B, X);
    scene.step(BackedStep::Lapse { pod: P });
    scene.step(BackedStep::Beat { pod: P }).replicate(P, B);
    let heard = scene.world.now;
    scene.step(BackedStep::Promote { pod: B });
    assert_eq!(scene.world.now, heard, "it need not be silent");
    scene.arrive(P, A).replicate(P, B);
    assert!(!scene.answer(P, A));
    scene.swap(B).learn(B).load(B);
    let promoted = scene.world.ring.epoch();
    assert!(
        scene.world.facts.answered < promoted,
        "it waits all the same"
    );
    scene.step(BackedStep::Wait { pod: B });
    scene.holds();
    assert_eq!(scene.world.facts.answered, promoted);
    assert_eq!(scene.content(B), Some(ONLY_X));
}

#[test]
fn aborted_move_keeps_its_backup() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P).acknowledged(P, B, X);
    scene.step(BackedStep::Move { pod: P, to: C });
    scene.step(BackedStep::TimeOut { pod: P }).swap(P).learn(P);
    assert_eq!(scene.world.ring.backup(), Some(scene.world.pods[B].me));
    scene.learn(B).learn(C).step(BackedStep::Agree { pod: P });
    scene.replicate(P, B).acknowledged(P, B, A);
    scene.step(BackedStep::Crash { pod: P });
    scene.promote(B).load(B);
    scene.holds();
    assert_eq!(scene.content(B), Some([1, 1, 0]));
}

#[test]
fn restarted_backup_under_the_same_pod_name_grants_nothing() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P).step(BackedStep::Crash { pod: B });
    scene
        .arrive(P, X)
        .step(BackedStep::Beat { pod: P })
        .replicate(P, B);
    assert!(!scene.answer(P, X));
    assert!(!scene.possible(BackedStep::Promote { pod: B }));
    scene.step(BackedStep::Drop { pod: P }).swap(P).learn(P);
    assert!(scene.answer(P, X));
    scene.holds();
}

#[test]
fn both_leases_out_owner_and_backup_connected() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P);
        scene.step(BackedStep::Lapse { pod: P });
        scene.step(BackedStep::Lapse { pod: B });
        scene.step(BackedStep::TakeOver { pod: C }).swap(C).learn(C);
        scene.step(BackedStep::Agree { pod: C }).load(C);
        scene.arrive(P, X).replicate(P, B).answer(P, X);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.world.facts.acknowledged, 0);
    broken_by(Shortcut::NoLease, walk);
}

#[test]
fn commit_known_to_n_not_to_p() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).acknowledged(P, B, X).hand_over(P, C);
        scene.swap(P).learn(C).arrive(C, A).replicate(C, P);
        assert!(!scene.answer(C, A), "P reads the ring first");
        scene.step(BackedStep::Crash { pod: C });
        scene.learn(P).promote(P).load(P);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.content(P), Some(ONLY_X));
    broken_by(Shortcut::FreesHandedImages, walk);
}

/// P takes the slot anew and dies; B, which knows nothing of that, is promoted by an operator.
#[test]
fn promoted_past_a_swap_that_it_never_saw() {
    let mut scene = Led::new(Start::Backed);
    scene.load(P).acknowledged(P, B, X);
    scene
        .step(BackedStep::Lapse { pod: P })
        .step(BackedStep::Renew { pod: P });
    scene
        .swap(P)
        .step(BackedStep::Crash { pod: P })
        .step(BackedStep::Depose);
    scene.step(BackedStep::Swap { asked: 0 }).learn(B);
    scene.step(BackedStep::Wait { pod: B }).load(B);
    scene.holds();
    assert_eq!(scene.content(B), Some(ONLY_X));
}

/// P hands the slot to C, and is promoted by an operator before it knows that C owned it.
#[test]
fn promoted_past_the_owner_that_it_handed_the_slot_to() {
    let walk = || {
        let mut scene = Led::new(Start::Backed);
        scene.load(P).acknowledged(P, B, X).hand_over(P, C).swap(P);
        scene
            .step(BackedStep::Depose)
            .step(BackedStep::Swap { asked: 0 });
        scene.learn(P).step(BackedStep::Wait { pod: P }).load(P);
        scene
    };
    let scene = walk();
    scene.holds();
    assert_eq!(scene.content(P), Some(ONLY_X));
    broken_by(Shortcut::FreesHandedImages, walk);
}
