//! What is sent: single operations, and the mix they are drawn from.

use std::{fmt, str::FromStr};

use crate::keys::Random;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Acknowledges a message.
    Ack,
    /// Counts a message that mentions the user.
    Mention {
        /// How much it adds.
        amount: u32,
    },
    /// Reads all states of the user, as a client does that connects.
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: Kind,
    pub user: u64,
    /// In which channel; a read has none.
    pub channel: u64,
    /// The message; a read has none.
    pub message: u64,
}

/// In which proportion operations of each kind are sent: `ack=8,mention=1,read=1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    ack: u32,
    mention: u32,
    read: u32,
}

impl Mix {
    /// A kind by chance.
    pub fn draw(&self, random: &mut Random) -> Kind {
        let Self { ack, mention, read } = *self;
        let total = u64::from(ack) + u64::from(mention) + u64::from(read);
        let number = random.below(total);
        if number < u64::from(ack) {
            Kind::Ack
        } else if number < u64::from(ack) + u64::from(mention) {
            Kind::Mention { amount: 1 }
        } else {
            Kind::Read
        }
    }

    /// Whether there are reads in it.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.read > 0
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ack, mention, read } = self;
        write!(f, "ack={ack},mention={mention},read={read}")
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = Self {
            ack: 0,
            mention: 0,
            read: 0,
        };
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight: u32 = weight
                .parse()
                .map_err(|_| format!("{part:?} has no weight; write {name}=N"))?;
            *(match name {
                "ack" => &mut mix.ack,
                "mention" => &mut mix.mention,
                "read" => &mut mix.read,
                _ => return Err(format!("{name:?} is none of ack, mention, read")),
            }) += weight;
        }
        match mix {
            Self {
                ack: 0,
                mention: 0,
                read: 0,
            } => Err("all weights are 0; give one at least 1".into()),
            mix => Ok(mix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_drawn_by_its_weights() {
        let mix: Mix = "ack=7,mention=2,read=1".parse().unwrap();
        let mut random = Random::new(1, 0);
        let mut drawn = [0u32; 3];
        for _ in 0..10_000 {
            drawn[match mix.draw(&mut random) {
                Kind::Ack => 0,
                Kind::Mention { .. } => 1,
                Kind::Read => 2,
            }] += 1;
        }
        let near = |drawn: u32, expected: u32| drawn.abs_diff(expected) < 250;
        assert!(
            near(drawn[0], 7000) && near(drawn[1], 2000) && near(drawn[2], 1000),
            "{drawn:?}"
        );
    }

    #[test]
    fn a_wrong_mix_is_refused_with_what_to_write() {
        for (text, part) in [
            ("acks=1", "none of ack, mention, read"),
            ("ack=", "write ack=N"),
            ("ack=0", "at least 1"),
            ("ack=1,", "none of ack, mention, read"),
        ] {
            let refusal = text.parse::<Mix>().unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
