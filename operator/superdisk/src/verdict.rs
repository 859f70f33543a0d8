//! Decides what the fast leg may be given, by what both legs say. Pure.
//!
//! md's bitmap makes a stale leg safe as long as the durable leg itself never goes back in time; the lineage
//! header tells when it did.

use crate::{
    inventory::Content,
    lineage::{self, Header, Relation},
    model::Seen,
    spec::VolumeUid,
    superblock::{Role, Superblock, Uuid},
};

/// What to do with a fast leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Give back what it missed, by the bitmap.
    ReAdd,
    /// Copy everything; the text says why.
    Full(&'static str),
    /// Do nothing: it may hold acknowledged writes that the durable leg has not; the text says how that is
    /// known.
    Ahead(String),
}

/// Slot of the durable leg.
const DURABLE_SLOT: Role = Role::Slot(0);

/// Judges the fast leg of this volume against what is on the durable leg.
#[must_use]
pub fn verdict(volume: &VolumeUid, durable: &Content, stripe: Uuid, fast: &Content) -> Verdict {
    let Seen::Present(own) = &durable.superblock else {
        return Verdict::Full("the durable leg has no superblock");
    };
    let inside = match &fast.superblock {
        Seen::Present(inside) if inside.array == own.array => inside,
        Seen::Present(_) => return Verdict::Full("it was in another mirror"),
        Seen::Absent => return Verdict::Full("it was in no mirror yet"),
        // Whether that may be is asked before.
        Seen::Unknown(_) => return Verdict::Full("its superblock cannot be read"),
    };
    let header = match &fast.lineage {
        Seen::Present(header) => header,
        Seen::Absent => return Verdict::Full("it has no lineage header"),
        Seen::Unknown(_) => {
            // Once the durable leg has been opened without it, that was decided.
            let settled =
                matches!(&durable.lineage, Seen::Present(header) if header.fast != stripe);
            let lost = ahead(own, inside).filter(|_| !settled);
            return lost.map_or(
                Verdict::Full("its lineage header cannot be read"),
                Verdict::Ahead,
            );
        }
    };
    if header.volume != *volume {
        return Verdict::Full("it was another volume's");
    }
    if header.fast != stripe {
        return Verdict::Full("its stripe was recreated since");
    }
    match &durable.lineage {
        Seen::Present(durable_header) => {
            let legs = Legs {
                own,
                inside,
                durable,
                fast,
            };
            by_lineage(durable_header, header, &legs)
        }
        Seen::Absent | Seen::Unknown(_) => ahead(own, inside).map_or(
            Verdict::Full("the durable leg has no lineage header"),
            Verdict::Ahead,
        ),
    }
}

/// Both legs of one mirror.
struct Legs<'a> {
    own: &'a Superblock,
    inside: &'a Superblock,
    durable: &'a Content,
    fast: &'a Content,
}

fn by_lineage(durable_header: &Header, header: &Header, legs: &Legs<'_>) -> Verdict {
    let Legs { own, inside, .. } = legs;
    match lineage::relation(durable_header, header) {
        Relation::Same => ahead(own, inside).map_or_else(|| by_bitmap(legs), Verdict::Ahead),
        // The durable leg was opened without it, on what may be another node: its writes since are the truth,
        // and no bitmap knows what the fast leg took alone before that. Unless it was admitted after that: its own header
        // of then was not written, or cannot be read any more.
        Relation::Parent => match ahead(own, inside) {
            Some(how) if durable_header.fast == header.fast => Verdict::Ahead(how),
            Some(_) => Verdict::Full("the durable leg was used since it was lost to it"),
            None => by_bitmap(legs),
        },
        // The fast leg went on alone, and the durable leg was put back in time besides: only the owner can say which
        // history counts.
        Relation::FastIsNewer => durable_was_lost(own, inside).map_or(
            Verdict::Full("the durable leg went back in time"),
            Verdict::Ahead,
        ),
        Relation::Apart => Verdict::Full("the durable leg was used without it"),
    }
}

/// How it is known that the fast leg has taken writes without the durable leg. md completes no write before the
/// fast leg's superblock says that the durable leg is gone, so this cannot be missed.
fn ahead(own: &Superblock, inside: &Superblock) -> Option<String> {
    let events = inside.events > own.events + 1 && is_whole(inside);
    durable_was_lost(own, inside).or_else(|| {
        events.then(|| {
            format!(
                "its event count is {}, the durable leg's {}",
                inside.events, own.events
            )
        })
    })
}

fn durable_was_lost(own: &Superblock, inside: &Superblock) -> Option<String> {
    let lost = inside.role_of(own.device) != DURABLE_SLOT && is_whole(inside);
    lost.then(|| "it saw the durable leg fail, and went on".to_owned())
}

/// A leg that was still being rebuilt holds nothing that the durable leg has not.
fn is_whole(inside: &Superblock) -> bool {
    inside.recovery_offset.is_none() && matches!(inside.role(), Role::Slot(_))
}

fn by_bitmap(legs: &Legs<'_>) -> Verdict {
    let Legs {
        own,
        inside,
        durable,
        fast,
    } = legs;
    if inside.size != own.size {
        return Verdict::Full("the mirror was grown without it");
    }
    // md would find this out itself and copy everything; that need not be relied on.
    if !is_whole(inside) || inside.role_of(own.device) != DURABLE_SLOT {
        return Verdict::Full("it was still being rebuilt");
    }
    if !matches!(fast.marked, Seen::Present(_)) {
        return Verdict::Full("its bitmap cannot be read");
    }
    match &durable.bitmap {
        Seen::Present(bitmap) if bitmap.array != own.array => {
            Verdict::Full("the bitmap is another array's")
        }
        Seen::Present(bitmap) if inside.events < bitmap.events_cleared => {
            Verdict::Full("the bitmap no longer knows what it missed")
        }
        Seen::Present(_) => Verdict::ReAdd,
        Seen::Absent | Seen::Unknown(_) => {
            Verdict::Full("there is no bitmap to tell what it missed")
        }
    }
}
