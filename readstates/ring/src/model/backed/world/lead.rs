//! Worlds that are led by hand: how searches begin, and the interleavings that have names.

use super::{BackedStep, BackedWorld, Frame, PODS};
use crate::model::backed::Start;

/// The first owner.
pub(super) const P: usize = 0;
/// Its backup.
pub(super) const B: usize = 1;
/// A third pod.
pub(super) const C: usize = 2;

/// A world that is led by hand. What does not hold ends it.
pub(super) struct Led {
    pub(super) world: BackedWorld,
    pub(super) broken: Option<String>,
}

impl Led {
    pub(super) fn step(&mut self, step: BackedStep) -> &mut Self {
        if self.broken.is_none() {
            self.broken = self.world.take(&step).err();
        }
        self
    }

    pub(super) fn load(&mut self, pod: usize) -> &mut Self {
        self.step(BackedStep::Load { pod })
            .step(BackedStep::Loaded { pod })
    }

    pub(super) fn arrive(&mut self, pod: usize, operation: u8) -> &mut Self {
        self.step(BackedStep::Arrive { pod, operation })
    }

    /// Whether it is acknowledged then.
    pub(super) fn answer(&mut self, pod: usize, operation: u8) -> bool {
        self.step(BackedStep::Answer { pod });
        self.world.facts.acknowledged & (1 << operation) != 0
    }

    /// All frames from one pod to another arrive, in order; the acknowledgements do not yet.
    pub(super) fn deliver(&mut self, from: usize, to: usize) -> &mut Self {
        for frame in 0..self.world.frames.len() {
            let Frame {
                from: of, to: at, ..
            } = self.world.frames[frame];
            let pods = &self.world.pods;
            if (of, at) == (pods[from].me, pods[to].me) {
                self.step(BackedStep::Deliver { frame });
            }
        }
        self
    }

    /// All acknowledgements that a pod was sent arrive.
    pub(super) fn accept(&mut self, pod: usize) -> &mut Self {
        for acknowledgement in 0..self.world.acknowledgements.len() {
            if self.world.acknowledgements[acknowledgement].to == self.world.pods[pod].me {
                self.step(BackedStep::Accept { acknowledgement });
            }
        }
        self
    }

    pub(super) fn replicate(&mut self, from: usize, to: usize) -> &mut Self {
        self.deliver(from, to).accept(from)
    }

    /// What a pod has asked of the ring is carried out.
    pub(super) fn swap(&mut self, by: usize) -> &mut Self {
        let me = self.world.pods[by].me;
        let asked = self.world.swaps.iter().position(|asked| asked.by == me);
        match asked {
            Some(asked) => self.step(BackedStep::Swap { asked }),
            None => {
                let none = || format!("pod {by} has asked for no swap");
                self.broken.get_or_insert_with(none);
                self
            }
        }
    }

    pub(super) fn learn(&mut self, pod: usize) -> &mut Self {
        self.step(BackedStep::Learn { pod })
    }

    /// A backup is promoted, knows it, and may answer.
    pub(super) fn promote(&mut self, pod: usize) -> &mut Self {
        self.step(BackedStep::Promote { pod }).swap(pod).learn(pod);
        self.step(BackedStep::Wait { pod })
    }

    /// A pod is seeded and named, and both know it.
    pub(super) fn seed(&mut self, owner: usize, to: usize) -> &mut Self {
        self.learn(to).step(BackedStep::Seed { pod: owner, to });
        self.replicate(owner, to);
        self.step(BackedStep::Name { pod: owner }).swap(owner);
        self.learn(owner).learn(to).replicate(owner, to)
    }

    /// The last write that a pod sent lands.
    pub(super) fn land(&mut self, pod: usize, answered: bool) -> &mut Self {
        let me = self.world.pods[pod].me;
        let write = self.world.writes.iter().rposition(|write| write.by == me);
        self.step(BackedStep::Land {
            write: write.unwrap_or_default(),
            answered,
        })
    }
}

impl From<BackedWorld> for Led {
    fn from(world: BackedWorld) -> Self {
        let broken = None;
        Self { world, broken }
    }
}

/// Leads a new world to where a search begins.
pub(super) fn begin(world: &mut BackedWorld, start: Start) {
    let mut led = Led::from(world.clone());
    for pod in 0..PODS {
        led.learn(pod);
    }
    led.step(BackedStep::Agree { pod: P });
    if start != Start::Alone {
        led.seed(P, B).learn(C);
    }
    match start {
        Start::Alone | Start::Backed => {}
        Start::Changed => {
            led.load(P).arrive(P, 0).replicate(P, B).answer(P, 0);
        }
        Start::Promoted => {
            led.load(P).arrive(P, 0).replicate(P, B).answer(P, 0);
            led.promote(B);
        }
        Start::LateWrite => {
            led.load(P).arrive(P, 0).step(BackedStep::Flush { pod: P });
            led.promote(B).seed(B, P);
        }
        Start::LateWrites => {
            led.load(P).arrive(P, 0).step(BackedStep::Flush { pod: P });
            led.promote(B).load(B).seed(B, C).arrive(B, 1);
            led.step(BackedStep::Flush { pod: B });
            led.promote(C).land(P, false).seed(C, P);
        }
    }
    if let Some(why) = led.broken {
        unreachable!("{start:?} is led wrongly: {why}");
    }
    *world = led.world;
    if start != Start::Promoted {
        // Accepted already, or never to come.
        world.frames.clear();
        world.acknowledgements.clear();
    }
}
