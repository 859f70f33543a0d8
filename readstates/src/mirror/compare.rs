//! What differs between what the two systems have of a user. Pure.

use readstates_api::Id;
use strum::{EnumCount, IntoStaticStr};

use super::shape::{Position, Positions};

/// What is different about a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Kind {
    /// The old system has it, and the service has not.
    Missing,
    /// The service has it, and the old system has not.
    Extra,
    /// Both have it, with other last messages.
    Message,
    /// Both have it, with other mention counts.
    Mentions,
}

impl Kind {
    pub(super) const ALL: [Self; Self::COUNT] =
        [Self::Missing, Self::Extra, Self::Message, Self::Mentions];

    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

/// A channel that is not the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) channel: Id,
    pub(super) kind: Kind,
    pub(super) old: Option<Position>,
    pub(super) ours: Option<Position>,
}

/// All differences.
pub(super) fn differences(old: &Positions, ours: &Positions) -> Vec<Difference> {
    let mut found = Vec::new();
    for (&channel, &was) in old {
        let is = ours.get(&channel).copied();
        let mut add = |kind| {
            found.push(Difference {
                channel,
                kind,
                old: Some(was),
                ours: is,
            });
        };
        match is {
            None => add(Kind::Missing),
            Some(is) => {
                if is.message != was.message {
                    add(Kind::Message);
                }
                if is.mentions != was.mentions {
                    add(Kind::Mentions);
                }
            }
        }
    }
    let extra = ours
        .iter()
        .filter(|(channel, _)| !old.contains_key(channel));
    found.extend(extra.map(|(&channel, &is)| Difference {
        channel,
        kind: Kind::Extra,
        old: None,
        ours: Some(is),
    }));
    found
}

/// Those that were seen before, too: of the same channel and the same kind.
pub(super) fn again(now: &[Difference], before: &[Difference]) -> Vec<Difference> {
    let was = |now: &&Difference| {
        let same = |before: &Difference| (before.channel, before.kind) == (now.channel, now.kind);
        before.iter().any(same)
    };
    now.iter().filter(was).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(of: &[(u64, u64, u64)]) -> Positions {
        let position = |&(channel, message, mentions): &(u64, u64, u64)| {
            let position = Position {
                message: Id::new(message),
                mentions: Some(mentions),
            };
            (Id::new(channel).unwrap(), position)
        };
        of.iter().map(position).collect()
    }

    fn kinds(found: &[Difference]) -> Vec<(u64, Kind)> {
        found
            .iter()
            .map(|one| (one.channel.get(), one.kind))
            .collect()
    }

    #[test]
    fn each_channel_that_is_not_the_same_is_found() {
        let old = positions(&[(1, 10, 0), (2, 20, 1), (3, 30, 0), (4, 0, 2)]);
        let ours = positions(&[(1, 10, 0), (2, 21, 0), (4, 0, 3), (5, 50, 0)]);
        let found = differences(&old, &ours);
        let expected = [
            (2, Kind::Message),
            (2, Kind::Mentions),
            (3, Kind::Missing),
            (4, Kind::Mentions),
            (5, Kind::Extra),
        ];
        assert_eq!(kinds(&found), expected);
        assert!(differences(&old, &old).is_empty());
    }

    #[test]
    fn a_difference_that_was_not_there_before_is_not_seen_again() {
        let before = differences(&positions(&[(1, 10, 0), (2, 20, 0)]), &positions(&[]));
        let now = differences(
            &positions(&[(1, 10, 0), (2, 20, 0)]),
            &positions(&[(1, 9, 0)]),
        );
        assert_eq!(kinds(&again(&now, &before)), [(2, Kind::Missing)]);
    }
}
