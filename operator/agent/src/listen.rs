//! Where the operator and the agents of databases listen.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;

/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 128;

/// Listens on an address.
///
/// # Errors
/// When it is taken, or is none of this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = readstates_listen::listen(address, BACKLOG)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
