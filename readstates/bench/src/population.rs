//! How many states each user has, where memory is measured: 1 to 39, 20 on average, or 1 to twice any other number.

use readstates_ring::slot::mix64;

use crate::keys::Random;

/// Users by number, from 0.
#[derive(Debug, Clone, Copy)]
pub struct Population {
    /// How many there are.
    pub users: u64,
    /// States of each, on average.
    pub per_user: u64,
}

impl Population {
    /// As many users as it takes.
    #[must_use]
    pub fn of(states: u64, per_user: u64) -> Self {
        let mut population = Self { users: 0, per_user };
        let mut there = 0;
        while there < states {
            there += population.size(population.users);
            population.users += 1;
        }
        population
    }

    fn size(&self, number: u64) -> u64 {
        1 + mix64(number) % (2 * self.per_user - 1)
    }

    /// The id of a user.
    #[must_use]
    pub fn user(number: u64) -> u64 {
        (number + 1) << 22
    }

    fn channel(number: u64, index: u64) -> u64 {
        (mix64((number << 16) ^ index) >> 4) | 1
    }

    /// A random state: the user, the channel, and the user's number.
    pub fn draw(&self, random: &mut Random) -> (u64, u64, u64) {
        let number = random.below(self.users);
        let size = self.size(number);
        let index = random.below(size);
        (Self::user(number), Self::channel(number, index), number)
    }

    /// All channels of the user of this number.
    pub fn channels(&self, number: u64) -> impl Iterator<Item = u64> + use<> {
        (0..self.size(number)).map(move |index| Self::channel(number, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_as_many_states_on_average_as_was_asked_for() {
        let population = Population::of(100_000, 20);
        let sizes: Vec<u64> = (0..population.users)
            .map(|number| population.channels(number).count() as u64)
            .collect();
        let sum: u64 = sizes.iter().sum();
        assert!((100_000..100_039).contains(&sum), "{sum}");
        assert!((4_800..5_200).contains(&population.users), "{population:?}");
        assert!(sizes.iter().all(|size| (1..=39).contains(size)));
    }

    #[test]
    fn a_state_drawn_is_one_of_its_users() {
        let population = Population::of(1000, 5);
        let mut random = Random::new(1, 0);
        for _ in 0..1000 {
            let (user, channel, number) = population.draw(&mut random);
            assert_eq!(user, Population::user(number));
            assert!(population.channels(number).any(|one| one == channel));
        }
    }
}
