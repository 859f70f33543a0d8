//! Whatever has happened: once nothing more goes wrong, an operation is acknowledged. No state is a dead end.

use super::{
    super::{Limits, Start},
    lead::Led,
    *,
};
use crate::{handoff::State, replication::SLOW, slot::mix64};

/// The operation that only this file sends.
const LAST: u8 = 2;

/// More rounds than any way back to service takes.
const ROUNDS: usize = 40;

impl Led {
    /// Everything that is under way arrives, and everybody reads the ring.
    fn catch_up(&mut self) {
        for pod in 0..PODS {
            if !self.world.pods[pod].lease {
                self.step(BackedStep::Renew { pod });
            }
        }
        for _ in 0..self.world.swaps.len() {
            let possible = self.world.possible().into_iter();
            let mut swaps = possible.filter(|step| matches!(step, BackedStep::Swap { .. }));
            if let Some(swap) = swaps.next() {
                self.step(swap);
            }
        }
        for pod in 0..PODS {
            self.learn(pod);
        }
        for pod in 0..PODS {
            if self.world.may_agree(pod) {
                self.step(BackedStep::Agree { pod });
            }
        }
        for frame in 0..self.world.frames.len() {
            self.step(BackedStep::Deliver { frame });
        }
        for acknowledgement in 0..self.world.acknowledgements.len() {
            self.step(BackedStep::Accept { acknowledgement });
        }
        for part in 0..self.world.parts.len() {
            self.step(BackedStep::Receive { part });
        }
    }

    /// A pod writes what it has.
    fn write(&mut self, pod: usize) {
        if self.world.pods[pod].writing.is_some() {
            self.step(BackedStep::GiveUp { pod });
        }
        if self.world.pods[pod].may_flush() {
            self.step(BackedStep::Flush { pod }).land(pod, true);
        }
    }

    /// What the owner does, or whoever can become it.
    fn go_on(&mut self) {
        let Some(pod) = self.world.place(self.world.ring.owner()) else {
            let possible = self.world.possible().into_iter();
            let mut takes = possible.filter(|step| {
                matches!(
                    step,
                    BackedStep::Promote { .. } | BackedStep::TakeOver { .. }
                )
            });
            if let Some(takes) = takes.next() {
                self.step(takes);
            }
            return;
        };
        self.write(pod);
        let at = &self.world.pods[pod];
        let open = matches!(at.slot.state(), State::Owner { .. });
        if at.stage().is_some() {
            self.step(BackedStep::TimeOut { pod });
        }
        if !open {
            return;
        }
        let at = &self.world.pods[pod];
        if at.guard.must_drop(&at.streams, self.world.now + SLOW) {
            self.step(BackedStep::Drop { pod });
        }
        self.step(BackedStep::Wait { pod });
        if self.world.pods[pod].block.is_none() {
            self.load(pod);
        }
        self.arrive(pod, LAST);
    }

    fn settle(&mut self) -> bool {
        for _ in 0..ROUNDS {
            self.world.left = Limits::PLENTY;
            self.go_on();
            self.catch_up();
            let acknowledged = (0..PODS).any(|pod| self.answer(pod, LAST));
            if acknowledged || self.broken.is_some() {
                break;
            }
        }
        self.world.facts.acknowledged & (1 << LAST) != 0
    }
}

#[test]
fn whatever_has_happened_the_slot_is_served_again_when_nothing_more_goes_wrong() {
    let starts = [
        Start::Alone,
        Start::Backed,
        Start::Changed,
        Start::Promoted,
        Start::LateWrite,
        Start::LateWrites,
    ];
    for number in 0..400_u64 {
        let start = starts[number as usize % starts.len()];
        let limits = Limits {
            start,
            operations: 2,
            ..Limits::LONG
        };
        let mut led = Led::from(BackedWorld::new(limits));
        let (mut random, mut walked) = (mix64(number), Vec::new());
        for _ in 0..number / 5 {
            let mut possible = led.world.possible();
            random = mix64(random.wrapping_add(1));
            let step = possible.swap_remove((random % possible.len() as u64) as usize);
            walked.push(step);
            led.step(step);
        }
        let settled = led.settle();
        assert_eq!(led.broken, None, "{number}: {start:?}, {walked:#?}");
        let Led { world, .. } = led;
        assert!(
            settled,
            "{number}: {start:?}, {walked:#?}, stuck at {world:#?}"
        );
    }
}
