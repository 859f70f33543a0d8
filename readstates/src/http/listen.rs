//! Accepts connections and serves each until it ends.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use readstates_identity::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    App,
    access::Peer,
    connection::{Phase, TimedSocket},
    connections::Open,
    crowd::{Crowd, Place},
    ending::{Leave, closing, send_at_once, serve_to_the_end},
    requests,
};
use crate::{
    limit::{Limit, Permit},
    operation::Port,
};

/// Out of file descriptors or memory: some connections must end first.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// What hyper holds of a request that it has not handed on, and of an answer that is not sent, at
/// most; the rest waits in the socket.
const BUFFER_BYTES: usize = 64 << 10;

/// Handshakes under way at one port. Each takes a few milliseconds; one more makes the oldest leave.
const MOST_HANDSHAKES: usize = 256;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The answer on a connection for which there is no place.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

/// A port, and what the other end of a connection must prove.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) port: Port,
    pub(crate) listener: TcpListener,
    /// `None`: nothing, connections are not authenticated.
    pub(crate) proof: Option<Acceptor>,
}

/// Serves the connections of one port until `closed`, then lets requests under way end.
pub(crate) async fn listen(entrance: Entrance, app: Arc<App>, mut closed: watch::Receiver<bool>) {
    let Entrance {
        port,
        listener,
        proof,
    } = entrance;
    // One for each port: handshakes that hang on this port push none out on another.
    let crowd = Crowd::new(MOST_HANDSHAKES);
    let connections = TaskTracker::new();
    loop {
        // Both only wait: what is not taken now comes again.
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing(&mut closed) => break,
        };
        match accepted {
            Ok((socket, address)) => {
                let (app, closed) = (Arc::clone(&app), closed.clone());
                match &proof {
                    None if port == Port::Api && app.tls.is_some() => {
                        let place = crowd.enter();
                        connections.spawn(encrypted(socket, address, place, app, closed));
                    }
                    None => {
                        connections.spawn(connection(socket, address, port, app, closed));
                    }
                    Some(acceptor) => {
                        let (acceptor, place) = (acceptor.clone(), crowd.enter());
                        let peer = Peer::at(address);
                        connections.spawn(proven(socket, peer, acceptor, place, port, app, closed));
                    }
                }
            }
            Err(error) if is_about_the_client(&error) => {}
            Err(error) => {
                tracing::warn!("no connection can be accepted now: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Whether one client is gone again, rather than accepting being impossible.
fn is_about_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// The place of a connection among those of its port.
enum Admitted {
    /// It keeps the place for as long as it wants.
    Counted { _permit: Permit<Arc<Limit>> },
    /// It makes room when it is the oldest of too many.
    Crowded(Place),
    /// It makes room when it waits for a request for longest.
    Client(Open),
}

impl Admitted {
    fn to(app: &App, port: Port, address: SocketAddr, phase: &Arc<Phase>) -> Option<Self> {
        let gates = &app.gates;
        let limit = match port {
            Port::Api => {
                let open = gates.connections.admit(address.ip(), phase)?;
                return Some(Self::Client(open));
            }
            Port::Members => &gates.member_connections,
            Port::Admin => &gates.admin_connections,
            // That port is not authenticated, and probes must not be kept waiting.
            Port::Watch => return Some(Self::Crowded(gates.watchers.enter())),
        };
        let permit = Permit::take(Arc::clone(limit), 1)?;
        Some(Self::Counted { _permit: permit })
    }

    /// Waits until another connection needs the place.
    async fn pushed_out(&mut self) {
        match self {
            Self::Counted { .. } => std::future::pending().await,
            Self::Crowded(place) => place.pushed_out().await,
            Self::Client(open) => open.given_up().await,
        }
    }

    /// Whether nothing is lost when a connection that makes room ends at once.
    fn may_be_cut(&self, phase: &Phase) -> bool {
        match self {
            // A page that is half sent is asked for again.
            Self::Counted { .. } | Self::Crowded(_) => true,
            Self::Client(_) => phase.idle_since().is_some(),
        }
    }
}

/// A connection on which nothing is proven.
async fn connection(
    socket: TcpStream,
    address: SocketAddr,
    port: Port,
    app: Arc<App>,
    closed: watch::Receiver<bool>,
) {
    let phase = Phase::new();
    let Some(admitted) = Admitted::to(&app, port, address, &phase) else {
        // It fits into the socket's buffer; a client that is refused is not waited for.
        let _ = socket.try_write(FULL);
        return;
    };
    send_at_once(&socket);
    let peer = Peer::at(address);
    serve(socket, peer, admitted, phase, port, app, closed).await;
}

/// A connection of a client over TLS.
async fn encrypted(
    socket: TcpStream,
    address: SocketAddr,
    mut place: Place,
    app: Arc<App>,
    mut closed: watch::Receiver<bool>,
) {
    let phase = Phase::new();
    let admitted = Admitted::to(&app, Port::Api, address, &phase);
    let (Some(tls), Some(admitted)) = (app.tls.clone(), admitted) else {
        return;
    };
    send_at_once(&socket);
    // Nothing is kept of a handshake that does not come to its end.
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)) => shaken.ok().flatten(),
        () = place.pushed_out() => None,
        () = closing(&mut closed) => return,
    };
    drop(place);
    match shaken {
        Some((socket, certificate)) => {
            let peer = Peer {
                address,
                certificate,
            };
            serve(socket, peer, admitted, phase, Port::Api, app, closed).await;
        }
        None => tls.failed(),
    }
}

/// A connection that is served once its other end has proven what it is.
async fn proven(
    socket: TcpStream,
    peer: Peer,
    acceptor: Acceptor,
    mut place: Place,
    port: Port,
    app: Arc<App>,
    mut closed: watch::Receiver<bool>,
) {
    send_at_once(&socket);
    // Nothing is kept of a handshake that does not come to its end.
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)) => shaken.ok(),
        () = place.pushed_out() => None,
        () = closing(&mut closed) => return,
    };
    drop(place);
    let socket = match shaken {
        Some(Ok((socket, _))) => socket,
        Some(Err(error)) => {
            app.metrics.unproven(port);
            tracing::debug!("a connection was refused: {}", crate::store::chain(&error));
            return;
        }
        None => {
            app.metrics.unproven(port);
            return;
        }
    };
    let phase = Phase::new();
    if let Some(admitted) = Admitted::to(&app, port, peer.address, &phase) {
        serve(socket, peer, admitted, phase, port, app, closed).await;
    }
}

/// Answers the requests of a connection until it ends.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    socket: S,
    peer: Peer,
    mut admitted: Admitted,
    phase: Arc<Phase>,
    port: Port,
    app: Arc<App>,
    mut closed: watch::Receiver<bool>,
) {
    let peer = Arc::new(peer);
    let socket = TimedSocket::new(socket, Arc::clone(&phase), &app.gates.limits);
    let max_header_bytes = app.gates.limits.max_header_bytes;
    let idle = Arc::clone(&phase);
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let (app, peer, phase) = (Arc::clone(&app), Arc::clone(&peer), Arc::clone(&phase));
        async move {
            let response = requests::answer(app, port, &peer, request).await;
            phase.idle();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        // `TimedSocket` times the head, and more than the head.
        .header_read_timeout(None)
        .max_header_size(max_header_bytes)
        .max_buf_size(BUFFER_BYTES.max(max_header_bytes))
        .serve_connection(TokioIo::new(socket), service);
    let leave = async {
        admitted.pushed_out().await;
        match admitted.may_be_cut(&idle) {
            true => Leave::AtOnce,
            // A request came meanwhile.
            false => Leave::Answered,
        }
    };
    serve_to_the_end(connection, &mut closed, leave).await;
}
