//! Many acknowledgements of one user: room for new channels is made once for all of them.
//!
//! A new state moves everything behind it. For a thousand new channels of a user with 98,000 that is
//! more than a gigabyte, under the lock of the user's stripe; made together, it is one pass.

use super::{
    BlockRef, MAX_READ_STATES, Operation, Outcome, Room, TooManyReadStates, apply, edit,
    layout::{self, Shape},
};

/// For fewer new channels than this, one at a time is as well.
const FEW: usize = 8;

/// Applies operations in their order, as [`apply`] does, and tells what became of each.
///
/// # Errors
/// As [`apply`]. Those before it were applied: a caller that wants all or none sees to it that there is
/// room.
pub fn apply_all(
    room: &mut impl Room,
    operations: &[Operation],
    first_version: u64,
    mut tell: impl FnMut(Outcome),
) -> Result<(), TooManyReadStates> {
    let Some(new) = new_channels(room.bytes(), operations) else {
        for operation in operations {
            tell(apply(room, operation, first_version)?);
        }
        return Ok(());
    };
    let mut prepared = false;
    for operation in operations {
        let outcome = apply(room, operation, first_version)?;
        tell(outcome);
        // Only now it is known what the version is, and that no era begins until the end.
        if !prepared && outcome == Outcome::Applied {
            prepare(room, &new, operations.len());
            prepared = true;
        }
    }
    Ok(())
}

/// The channels, sorted, that these acknowledgements make; `None` when it is not worth it or they are
/// more than acknowledgements.
fn new_channels(bytes: &[u8], operations: &[Operation]) -> Option<Vec<u64>> {
    if operations.len() < FEW {
        return None;
    }
    let block = BlockRef::trusted(bytes);
    let mut new = Vec::new();
    for operation in operations {
        match *operation {
            // Each is applied, and makes the state: no message comes before the first.
            Operation::Ack {
                channel, message, ..
            } if message > 0 => {
                if block.place(channel).is_err() {
                    new.push(channel);
                }
            }
            Operation::Ack { .. } => {}
            Operation::Manual { .. }
            | Operation::AckPins { .. }
            | Operation::Mention { .. }
            | Operation::Import { .. }
            | Operation::Delete { .. }
            | Operation::DeleteUser => return None,
        }
    }
    new.sort_unstable();
    new.dedup();
    (new.len() >= FEW && block.len() + new.len() <= MAX_READ_STATES).then_some(new)
}

/// Makes those of the channels that are not there yet, without a message: the acknowledgement of each is
/// still to come.
fn prepare(room: &mut impl Room, new: &[u64], operations: usize) {
    let bytes = room.bytes();
    let offset = layout::version(bytes) - layout::base(bytes);
    if offset + operations as u64 > u64::from(u32::MAX) {
        // An era begins in the midst of them, and tells apart only what is there by then.
        return;
    }
    let block = BlockRef::trusted(bytes);
    let absent = |&channel: &u64| Some((block.place(channel).err()?, channel));
    let places: Vec<(usize, u64)> = new.iter().filter_map(absent).collect();
    let era = Shape::of(bytes).older_eras;
    // Above: it fits.
    let meta = layout::Meta::new(0, 0, 0, false).with_era(era, offset as u32);
    edit::insert_all(room, &places, meta);
}
