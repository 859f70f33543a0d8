//! Listening where `[::]` means every address of the machine: of both families, or of the one that its kernel has.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rustix::{io::Errno, net::sockopt::set_ipv6_v6only};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 128;

/// Listens on an address.
///
/// # Errors
/// When it is taken, or is none of this machine.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    of_its_family(address).or_else(|error| match without_ipv6(address, &error) {
        Some(address) => of_its_family(address),
        None => Err(error),
    })
}

fn of_its_family(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // Whatever the kernel's default is.
            set_ipv6_v6only(&socket, false)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The same port of every IPv4 address, in place of `[::]` on a kernel without IPv6.
fn without_ipv6(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let any = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let unknown = Errno::from_io_error(error) == Some(Errno::AFNOSUPPORT);
    (any && unknown).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn every_address_is_one_of_either_family() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        for address in ["127.0.0.1", "::1"] {
            let ip: IpAddr = address.parse().unwrap();
            let connected = TcpStream::connect((ip, port)).await;
            assert!(connected.is_ok(), "{address}: {connected:?}");
            listener.accept().await.unwrap();
        }
    }

    #[test]
    fn a_kernel_without_ipv6_has_every_address_of_ipv4() {
        let no_such_family = io::Error::from(Errno::AFNOSUPPORT);
        let any = "[::]:7402".parse().unwrap();
        let instead = without_ipv6(any, &no_such_family);
        assert_eq!(instead, Some("0.0.0.0:7402".parse().unwrap()));
        // An address that was asked for is not replaced, and another error is not hidden.
        let one = "[::1]:7402".parse().unwrap();
        assert_eq!(without_ipv6(one, &no_such_family), None);
        assert_eq!(without_ipv6(any, &io::Error::from(Errno::ADDRINUSE)), None);
    }
}
