//! Two headers of one volume: whose history goes further.

use super::Header;
use crate::superblock::Uuid;

/// What the fast leg's header says of its history, against the durable leg's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same generation, and the durable leg has heard at least as much.
    Same,
    /// The fast leg stopped where the durable leg's generation began.
    Parent,
    /// The fast leg has heard what the durable leg has not: the durable leg went back in time.
    FastIsNewer,
    /// Their histories went apart, or too much lies between them, or another stripe has taken the fast leg's place since:
    /// while md fills that one, it forgets what this one has missed.
    Apart,
}

/// Compares the histories of two headers of one volume.
#[must_use]
pub fn relation(durable: &Header, fast: &Header) -> Relation {
    let same = durable.point.session == fast.point.session;
    let parent = durable.previous.session == fast.point.session;
    let heard_in_same = same && durable.point >= fast.point;
    let heard_in_parent = parent && durable.previous >= fast.point;
    let is_replaced = durable.fast != Uuid::default() && durable.fast != fast.fast;
    if (heard_in_same || heard_in_parent) && is_replaced {
        Relation::Apart
    } else if heard_in_same {
        Relation::Same
    } else if heard_in_parent {
        Relation::Parent
    } else if same || parent || fast.point.generation > durable.point.generation {
        Relation::FastIsNewer
    } else {
        Relation::Apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::header;

    #[test]
    fn histories_are_told_apart() {
        let boot = Uuid([0xb0; 16]);
        let first = header();
        let later = first.next().next();
        let second = later.opened(Uuid([2; 16]), boot);
        let third = second.next().opened(Uuid([3; 16]), boot);
        let elsewhere = first.opened(Uuid([4; 16]), boot);
        let (stripe, other) = (Uuid([7; 16]), Uuid([8; 16]));
        let own = first.admitting(stripe);
        let replaced = own.admitting(other);
        for (durable, fast, want) in [
            (&later, &first, Relation::Same),
            (&later, &later, Relation::Same),
            (&first, &later, Relation::FastIsNewer),
            (&second, &later, Relation::Parent),
            (&second, &first, Relation::Parent),
            (&third, &later, Relation::Apart),
            (&later, &third, Relation::FastIsNewer),
            // Restored to `first`, then opened where the fast leg was not: it has more than that start knew.
            (&elsewhere, &later, Relation::FastIsNewer),
            (&elsewhere, &second, Relation::Apart),
            // Another stripe was admitted since, in the same generation or in the next.
            (&replaced, &own, Relation::Apart),
            (&second.admitting(other), &own, Relation::Apart),
            (&second.admitting(stripe), &own, Relation::Parent),
            // One that was lost to a beat: it is asked about.
            (&replaced, &own.next().next().next(), Relation::FastIsNewer),
        ] {
            assert_eq!(relation(durable, fast), want, "{durable:?} {fast:?}");
        }
    }
}
