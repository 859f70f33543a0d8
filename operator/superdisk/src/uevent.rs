//! Hears from the kernel when block devices come and go: a netlink socket to wait on, and what its messages say.
//!
//! A message is a hint to look again, never a fact: some are lost when they come faster than they are read,
//! and the timer looks anyway.

use std::{io, os::fd::OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink, recv, socket_with,
};

/// The group of netlink listeners that gets the kernel's own messages, not udev's.
const KERNEL_GROUP: u32 = 1;
/// More than the kernel puts into one message (2 KiB of environment and a path).
const MESSAGE_BYTES: usize = 8 << 10;

/// A socket that becomes readable when a device changes.
#[derive(Debug)]
pub struct Uevents {
    socket: OwnedFd,
}

impl Uevents {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(netlink::KOBJECT_UEVENT),
        )?;
        bind(&socket, &netlink::SocketAddrNetlink::new(0, KERNEL_GROUP))?;
        Ok(Self { socket })
    }

    /// What to wait on.
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Takes what has come; whether any of it was about a block device. True when messages were lost.
    pub fn about_disks(&self) -> io::Result<bool> {
        let mut buffer = [0; MESSAGE_BYTES];
        let mut about_disks = false;
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    about_disks |= is_about_disk(&buffer[..length.min(MESSAGE_BYTES)])
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(about_disks),
                Err(rustix::io::Errno::NOBUFS) => about_disks = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// `remove@/devices/…`, then `KEY=value`, each ended by a zero byte.
fn is_about_disk(message: &[u8]) -> bool {
    message
        .split(|byte| *byte == 0)
        .any(|field| field == b"SUBSYSTEM=block")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_disks_are_told_from_others() {
        let message = |subsystem: &str| {
            format!("remove@/devices/x\0ACTION=remove\0SUBSYSTEM={subsystem}\0DEVNAME=nvme0n1\0")
        };
        assert!(is_about_disk(message("block").as_bytes()));
        assert!(!is_about_disk(message("net").as_bytes()));
        assert!(!is_about_disk(message("blockade").as_bytes()));
        assert!(!is_about_disk(b""));
    }

    #[test]
    fn a_socket_without_messages_does_not_block() {
        let uevents = Uevents::listen().unwrap();
        // Other devices of this machine may well change meanwhile: only that it answers is known.
        uevents.about_disks().unwrap();
    }
}
