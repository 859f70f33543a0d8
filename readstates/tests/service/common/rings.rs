//! What members write into a ring: that they are there, and the table after a change.

use readstates::ownership::store::Presence;
use readstates_ring::{Epoch, Incarnation, RingMember, RingTable, Slot, Succession};

/// What a member of this name says of itself.
pub fn presence(name: &str, incarnation: u64, renewals: u64) -> Presence {
    Presence {
        name: name.to_owned(),
        incarnation: Incarnation::new(incarnation),
        url: format!("http://{name}:7400"),
        members: Some(format!("http://{name}:7403")),
        admin: None,
        zone: None,
        ordinal: None,
        draining: false,
        gone: false,
        renewals,
        unix_micros: None,
        line: None,
        epoch: None,
        clock_wrong: false,
        reads: None,
        replicates: None,
    }
}

/// The table in which these slots, whatever epochs they have, have become those of `owner`, with this backup.
pub fn swapped(
    table: &RingTable,
    slots: &[Slot],
    owner: &RingMember,
    backup: Option<&RingMember>,
    how: Succession,
    unix_micros: i64,
) -> RingTable {
    let at = |&slot: &Slot| (slot, table.config(slot).map(|config| config.epoch()));
    let asked: Vec<(Slot, Option<Epoch>)> = slots.iter().map(at).collect();
    let next = table.swap_backed(&asked, owner, backup, how, unix_micros);
    next.unwrap()
}
