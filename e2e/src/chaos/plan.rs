//! Order of the disturbances of a cluster under load and of its surroundings. Pure: a seed gives the same steps again.

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The fewest and the most members that a plan scales to.
const FEWEST: usize = 2;
const MOST: usize = 5;

/// One thing that is done, and waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `kubectl scale`.
    Scale(usize),
    /// A change that replaces every cache pod.
    Roll,
    /// Another image and another number of members at once.
    NewImage(usize),
    /// `kubectl delete pod` of the member at this ordinal.
    Delete(usize),
    /// The same by the eviction API.
    Evict(usize),
    /// `kubectl delete pod --force --grace-period=0`.
    Force(usize),
    /// `kill -9` of the process.
    Kill(usize),
    /// The same, and another pod in the place of this one.
    Crash(usize),
    /// The API server answers no request for this many seconds.
    ApiServer(u64),
}

/// For how long the API server is stopped: three times as long as a lease lasts, and shorter than its kubelet waits
/// before it starts another.
const API_SERVER_STOPS: u64 = 30;

/// What every run does, from 2 members on: from 2 to 5 and back three times, and everything else in between; then,
/// for ever, what the seed says.
pub fn plan(seed: u64) -> impl Iterator<Item = Step> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut among = |members| random.random_range(0..members);
    let base = [
        Step::Scale(5),
        Step::Roll,
        Step::ApiServer(API_SERVER_STOPS),
        Step::Delete(among(5)),
        Step::Scale(2),
        Step::ApiServer(API_SERVER_STOPS),
        Step::Evict(among(2)),
        Step::NewImage(5),
        Step::Kill(among(5)),
        Step::Scale(2),
        Step::Scale(5),
        Step::Force(among(5)),
        Step::Scale(2),
    ];
    let mut members = FEWEST;
    let more = std::iter::repeat_with(move || {
        let victim = random.random_range(0..members);
        let step = match random.random_range(0..11) {
            0..3 => Step::Scale(random.random_range(FEWEST..=MOST)),
            3 => Step::Roll,
            4 => Step::NewImage(random.random_range(FEWEST..=MOST)),
            5 | 6 => Step::Delete(victim),
            7 => Step::Evict(victim),
            8 => Step::Kill(victim),
            9 => Step::ApiServer(API_SERVER_STOPS),
            _ => Step::Force(victim),
        };
        if let Step::Scale(count) | Step::NewImage(count) = step {
            members = count;
        }
        step
    });
    base.into_iter().chain(more)
}

/// What a run with crashes alone does, for ever: any one member.
pub(crate) fn crashes(seed: u64) -> impl Iterator<Item = Step> {
    let mut random = StdRng::seed_from_u64(seed);
    let victims = std::iter::repeat_with(move || Step::Crash(random.random_range(0..CRASHING)));
    std::iter::once(Step::Scale(CRASHING)).chain(victims)
}

/// How many members there are while they crash.
const CRASHING: usize = 3;

/// How many steps of a plan every run takes, however short it is meant to be.
pub(crate) const BASE: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_scales_up_and_down_three_times_and_does_everything_else() {
        for seed in 0..50 {
            let steps: Vec<Step> = plan(seed).take(BASE).collect();
            let (mut ups, mut downs, mut members) = (0, 0, 2);
            let stops = steps
                .iter()
                .filter(|step| matches!(step, Step::ApiServer(30)));
            assert_eq!(stops.count(), 2);
            for step in &steps {
                match *step {
                    Step::Scale(count) | Step::NewImage(count) => {
                        ups += usize::from(count == 5 && members == 2);
                        downs += usize::from(count == 2 && members == 5);
                        members = count;
                    }
                    Step::Delete(victim)
                    | Step::Evict(victim)
                    | Step::Force(victim)
                    | Step::Kill(victim)
                    | Step::Crash(victim) => assert!(victim < members),
                    Step::Roll | Step::ApiServer(_) => {}
                }
            }
            assert_eq!((ups, downs, members), (3, 3, 2));
        }
    }

    #[test]
    fn a_seed_gives_the_same_steps_again_and_victims_are_there() {
        assert!(plan(7).take(200).eq(plan(7).take(200)));
        assert!(!plan(7).take(200).eq(plan(8).take(200)));
        let mut members = 2;
        for step in plan(7).take(500) {
            match step {
                Step::Scale(count) | Step::NewImage(count) => {
                    assert!((FEWEST..=MOST).contains(&count));
                    members = count;
                }
                Step::Delete(victim)
                | Step::Evict(victim)
                | Step::Force(victim)
                | Step::Kill(victim)
                | Step::Crash(victim) => assert!(victim < members),
                Step::Roll | Step::ApiServer(_) => {}
            }
        }
    }
}
