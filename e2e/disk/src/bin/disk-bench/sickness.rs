//! Behaviour of a stack that loses a sector of a local disk under data of which it has a second copy.

use anyhow::{Context as _, Result};
use e2e_disk::{PAGE, Rack, Vm};

use crate::setups::Stack;

/// Where the page lies: inside of what was read to warm the cache.
const PAGE_NUMBER: u64 = 12_345;
const TRIES: usize = 12;

/// What came of one lost sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sickness {
    pub(crate) name: &'static str,
    /// Reads, of twelve, that ended with an error.
    pub(crate) errors: usize,
    /// The sector can be read again.
    pub(crate) healed: bool,
    /// The fast copy still serves.
    pub(crate) alive: bool,
}

pub(crate) fn of(rack: &Rack, vm: &Vm, stack: &Stack) -> Result<Sickness> {
    let device = stack.device;
    let read = format!("dd if={device} of=/run/page bs=4k count=1 skip={PAGE_NUMBER} iflag=direct");
    vm.run(&format!(
        "tr '\\0' '\\345' </dev/zero | dd of={device} bs=4k count=1 seek={PAGE_NUMBER} oflag=direct iflag=fullblock && sync"
    ))?;
    // Until it is on a local disk: a cache wants to see it read, and written back to itself.
    for _ in 0..TRIES {
        vm.run(&read)?;
    }
    vm.run("sleep 2; sync")?;
    let (disk, offset) = find(rack)?;
    rack.local(disk).lose(offset..offset + PAGE);
    let mut errors = 0;
    for _ in 0..TRIES {
        if vm.ask(&read)?.status != 0 {
            errors += 1;
        }
    }
    Ok(Sickness {
        name: stack.name,
        errors,
        healed: rack.local(disk).bad_pages() == 0,
        alive: vm.ask(stack.alive)?.status == 0,
    })
}

/// The local disk and the byte where the page of 0xe5 is.
fn find(rack: &Rack) -> Result<(usize, u64)> {
    for slot in 0..2 {
        let disk = rack.local(slot);
        for page in 0..disk.size() / PAGE {
            let offset = page * PAGE;
            if disk
                .peek(offset, PAGE as usize)?
                .iter()
                .all(|byte| *byte == 0o345)
            {
                return Ok((slot, offset));
            }
        }
    }
    None.context("the page is on no local disk: it is not cached")
}
