//! The next step, drawn from what is possible.

use rand::{Rng, rngs::StdRng};

use super::{
    state::State,
    step::{Keep, LOCALS, Step, Volume},
};
use crate::{disk::PAGE, rack::MIB};

/// Bytes of a local disk.
pub(super) const LOCAL_SIZE: u64 = 128 * MIB;

/// How often each kind of step is drawn, beside the others. What makes progress is more likely than what breaks, so that
/// faults meet a super-disk that has something to lose.
const WEIGHTS: [(u32, Draw); 17] = [
    (8, |rng| Step::Assemble(volume(rng))),
    (8, |rng| Step::Write(volume(rng))),
    (3, |rng| Step::Round(volume(rng))),
    (3, |rng| Step::TearDown(volume(rng))),
    (6, |_| Step::Boot),
    (1, |_| Step::PowerOff),
    (3, |_| Step::CutPower),
    (3, |rng| Step::Resolve(volume(rng), keep(rng))),
    (2, |rng| Step::FailDurable(volume(rng))),
    (3, |rng| Step::MendDurable(volume(rng))),
    (2, lose_pages),
    (1, |rng| Step::BreakPage {
        slot: slot(rng),
        page: page(rng),
    }),
    (2, |rng| Step::FailLocal(slot(rng))),
    (3, |rng| Step::MendLocal(slot(rng))),
    (2, |rng| Step::Pull(slot(rng))),
    (2, |rng| Step::Plug(slot(rng))),
    (2, |_| Step::HostAssembles),
];
/// Only a machine that is off has its disks replaced: beside the others above, every third step then.
const REPLACE_IN: u32 = 3;

type Draw = fn(&mut StdRng) -> Step;

/// A step that the state allows.
pub(super) fn step(rng: &mut StdRng, state: &State) -> Step {
    if !state.is_on && rng.random_ratio(1, REPLACE_IN) {
        return Step::Replace(slot(rng));
    }
    let total: u32 = WEIGHTS.iter().map(|(weight, _)| weight).sum();
    loop {
        let mut at = rng.random_range(0..total);
        for (weight, draw) in WEIGHTS {
            if at < weight {
                let step = draw(rng);
                if state.allows(step) {
                    return step;
                }
                break;
            }
            at -= weight;
        }
    }
}

fn volume(rng: &mut StdRng) -> Volume {
    Volume::ALL[rng.random_range(0..Volume::ALL.len())]
}

fn keep(rng: &mut StdRng) -> Keep {
    if rng.random_ratio(1, 2) {
        Keep::Durable
    } else {
        Keep::Fast
    }
}

fn slot(rng: &mut StdRng) -> usize {
    rng.random_range(0..LOCALS)
}

/// Half of them where superblocks, headers and bitmaps are.
fn page(rng: &mut StdRng) -> u64 {
    let pages = LOCAL_SIZE / PAGE;
    let head = MIB / PAGE;
    match rng.random_range(0..4) {
        0 => rng.random_range(0..4),
        1 => rng.random_range(0..head),
        _ => rng.random_range(head..pages),
    }
}

fn lose_pages(rng: &mut StdRng) -> Step {
    let page = page(rng);
    let left = LOCAL_SIZE / PAGE - page;
    Step::LosePages {
        slot: slot(rng),
        page,
        count: rng.random_range(1..=64).min(left),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_steps_and_all_are_possible() {
        let state = State {
            is_on: true,
            ..State::default()
        };
        let draws = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let steps: Vec<Step> = (0..200).map(|_| step(&mut rng, &state)).collect();
            steps
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        assert!(draws(7).iter().all(|&step| state.allows(step)));
        assert!(draws(7).contains(&Step::HostAssembles));
    }

    #[test]
    fn a_machine_that_is_off_is_started_or_its_disks_change() {
        let mut rng = StdRng::seed_from_u64(1);
        let off = State::default();
        let steps: Vec<Step> = (0..200).map(|_| step(&mut rng, &off)).collect();
        assert!(steps.contains(&Step::Boot));
        assert!(steps.iter().any(|step| matches!(step, Step::Replace(_))));
    }
}
