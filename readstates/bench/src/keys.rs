//! Which users and channels operations are for, and random numbers that are the same for the same seed.

use std::str::FromStr;

use readstates_ring::slot::mix64;

/// The exponent of `zipf` when none is given: close to what is measured of most access logs.
const USUAL_EXPONENT: f64 = 0.99;

/// How often each user is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Every user as often.
    Uniform,
    /// The k-th most active user in proportion to k^−exponent.
    Zipf {
        /// Above 0.
        exponent: f64,
    },
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(Self::Uniform),
            None if text == "zipf" => Some(USUAL_EXPONENT),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            Some(_) | None => None,
        };
        match exponent {
            Some(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Self::Zipf { exponent }),
            Some(_) | None => {
                Err("write uniform, zipf, or zipf:EXPONENT with an exponent up to 10".into())
            }
        }
    }
}

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed and thread.
    #[must_use]
    pub fn new(seed: u64, thread: u64) -> Self {
        Self(mix64(mix64(seed) ^ thread))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to 1, 1 excluded.
    fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Users of a run: `users` of them, numbered from 0.
#[derive(Debug, Clone)]
pub struct Keys {
    users: u64,
    channels: u64,
    first_user: u64,
    zipf: Option<Zipf>,
}

impl Keys {
    /// How many channels a user has.
    #[must_use]
    pub fn channels(&self) -> u64 {
        self.channels
    }

    /// The users of a seed, each with this many channels; both at least 1.
    #[must_use]
    pub fn new(users: u64, channels: u64, distribution: Distribution, seed: u64) -> Self {
        Self {
            users,
            channels,
            // Runs of different seeds have different users.
            first_user: (1 + (mix64(seed) >> 44)) << 40,
            zipf: match distribution {
                Distribution::Uniform => None,
                Distribution::Zipf { exponent } => Some(Zipf::new(users, exponent)),
            },
        }
    }

    /// A user and a channel by chance.
    pub fn draw(&self, random: &mut Random) -> (u64, u64) {
        let user = match &self.zipf {
            None => random.below(self.users),
            Some(zipf) => zipf.draw(random) - 1,
        };
        let channel = random.below(self.channels);
        (self.user(user), self.channel(user, channel))
    }

    /// How many users there are, and the id of the first; the others follow it.
    #[must_use]
    pub fn users(&self) -> (u64, u64) {
        (self.users, self.first_user)
    }

    /// How many pairs of a user and a channel there are.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.users * self.channels
    }

    /// The n-th pair, user by user.
    #[must_use]
    pub fn pair(&self, n: u64) -> (u64, u64) {
        let user = n / self.channels;
        (self.user(user), self.channel(user, n % self.channels))
    }

    fn user(&self, number: u64) -> u64 {
        self.first_user + number
    }

    /// As long as a snowflake is today: 60 bits.
    fn channel(&self, user: u64, number: u64) -> u64 {
        (mix64((user << 20) ^ number) >> 4) | 1
    }
}

/// Zipf's distribution by rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996. No table, a draw or two.
#[derive(Debug, Clone)]
struct Zipf {
    most: f64,
    exponent: f64,
    from: f64,
    to: f64,
    accept_within: f64,
}

impl Zipf {
    fn new(most: u64, exponent: f64) -> Self {
        let most = most as f64;
        let area = |x| integral(x, exponent);
        Self {
            most,
            exponent,
            from: area(1.5) - 1.0,
            to: area(most + 0.5),
            accept_within: 2.0 - inverse(area(2.5) - 2f64.powf(-exponent), exponent),
        }
    }

    /// 1 to `most`.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.to + random.unit() * (self.from - self.to);
            let x = inverse(area, self.exponent);
            let k = x.round().clamp(1.0, self.most);
            let bar = integral(k + 0.5, self.exponent) - k.powf(-self.exponent);
            if k - x <= self.accept_within || area >= bar {
                return k as u64;
            }
        }
    }
}

/// The integral of x^−exponent from 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    let scaled = (1.0 - exponent) * log;
    // Near 0 the quotient loses its digits; its series does not.
    let quotient = if scaled.abs() > 1e-8 {
        scaled.exp_m1() / scaled
    } else {
        1.0 + scaled / 2.0
    };
    quotient * log
}

fn inverse(area: f64, exponent: f64) -> f64 {
    let scaled = (area * (1.0 - exponent)).max(-1.0);
    let quotient = if scaled.abs() > 1e-8 {
        scaled.ln_1p() / scaled
    } else {
        1.0 - scaled / 2.0
    };
    (quotient * area).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_chooses_users_in_proportion_to_their_rank() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let (users, draws) = (1000, 400_000);
            let zipf = Zipf::new(users, exponent);
            let mut random = Random::new(1, 0);
            let mut drawn = vec![0u64; users as usize + 1];
            for _ in 0..draws {
                drawn[zipf.draw(&mut random) as usize] += 1;
            }
            let weight = |k: usize| (k as f64).powf(-exponent);
            let total: f64 = (1..=users as usize).map(weight).sum();
            for k in [1, 2, 3, 10] {
                let expected = weight(k) / total * f64::from(draws);
                let off = (drawn[k] as f64 - expected).abs() / expected.sqrt();
                assert!(
                    off < 5.0,
                    "zipf:{exponent}: user {k} {} times, not {expected}",
                    drawn[k]
                );
            }
        }
    }

    #[test]
    fn uniform_draws_reach_every_pair_and_no_other() {
        let keys = Keys::new(7, 3, Distribution::Uniform, 5);
        let all: std::collections::BTreeSet<_> = (0..keys.pairs()).map(|n| keys.pair(n)).collect();
        let mut random = Random::new(5, 0);
        let drawn: std::collections::BTreeSet<_> =
            (0..1000).map(|_| keys.draw(&mut random)).collect();
        assert_eq!(all.len(), 21);
        assert_eq!(drawn, all);
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_does_not() {
        let first = |seed, thread| {
            let mut random = Random::new(seed, thread);
            Keys::new(1000, 20, Distribution::Uniform, seed).draw(&mut random)
        };
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }

    #[test]
    fn a_distribution_is_written_with_or_without_its_exponent() {
        assert_eq!("uniform".parse(), Ok(Distribution::Uniform));
        assert_eq!("zipf:1.2".parse(), Ok(Distribution::Zipf { exponent: 1.2 }));
        for wrong in ["", "normal", "zipf:", "zipf:0", "zipf:nan", "uniform:1"] {
            assert!(wrong.parse::<Distribution>().is_err(), "{wrong}");
        }
    }
}
