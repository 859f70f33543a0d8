//! Listening sockets: `[::]` is every address of the machine, of both families or of the one that its kernel has.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, ipproto,
        sockopt::{set_ipv6_v6only, set_socket_reuseaddr},
    },
};

/// Listens on an address, with at most `backlog` connections that wait to be accepted. The listener blocks.
///
/// # Errors
/// When the address is taken, or is none of this machine.
pub fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let listener = of_its_family(address, backlog).or_else(|error| {
        let address = without_ipv6(address, error).ok_or(error)?;
        of_its_family(address, backlog)
    });
    Ok(listener?)
}

fn of_its_family(address: SocketAddr, backlog: i32) -> Result<TcpListener, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let (kind, flags, protocol) = (SocketType::STREAM, SocketFlags::CLOEXEC, ipproto::TCP);
    let socket = rustix::net::socket_with(family, kind, flags, Some(protocol))?;
    if address.is_ipv6() {
        // `[::]` takes connections of IPv4, too, whatever the kernel's default is.
        set_ipv6_v6only(&socket, false)?;
    }
    // A process that starts again finds its address free while old connections still linger.
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(TcpListener::from(socket))
}

/// The same port of every IPv4 address, in place of `[::]` on a kernel without IPv6.
fn without_ipv6(address: SocketAddr, error: Errno) -> Option<SocketAddr> {
    let is_any = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let is_unknown = error == Errno::AFNOSUPPORT;
    (is_any && is_unknown).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    const BACKLOG: i32 = 16;

    #[test]
    fn every_address_is_one_of_either_family() {
        let listener = listen("[::]:0".parse().unwrap(), BACKLOG).unwrap();
        let port = listener.local_addr().unwrap().port();
        for address in ["127.0.0.1", "::1"] {
            let ip: IpAddr = address.parse().unwrap();
            let connected = TcpStream::connect((ip, port));
            assert!(connected.is_ok(), "{address}: {connected:?}");
            listener.accept().unwrap();
        }
    }

    #[test]
    fn an_address_is_listened_on_once_and_again_while_its_old_connections_linger() {
        let first = listen("127.0.0.1:0".parse().unwrap(), BACKLOG).unwrap();
        let address = first.local_addr().unwrap();
        let taken = listen(address, BACKLOG).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let client = TcpStream::connect(address).unwrap();
        // The side that closes first is the one that lingers.
        drop(first.accept().unwrap());
        drop(first);
        drop(client);
        listen(address, BACKLOG).unwrap();
    }

    #[test]
    fn a_kernel_without_ipv6_has_every_address_of_ipv4() {
        let any = "[::]:7402".parse().unwrap();
        let instead = without_ipv6(any, Errno::AFNOSUPPORT);
        assert_eq!(instead, Some("0.0.0.0:7402".parse().unwrap()));
        // An address that was asked for is not replaced, and another error is not hidden.
        let one = "[::1]:7402".parse().unwrap();
        assert_eq!(without_ipv6(one, Errno::AFNOSUPPORT), None);
        assert_eq!(without_ipv6(any, Errno::ADDRINUSE), None);
    }
}
