//! A network block device server: what gives the emulated disks their content and their faults.

mod protocol;
mod server;

pub(crate) use server::Server;
