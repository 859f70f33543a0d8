//! Accepting connections, and what becomes of each.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::task::TaskTracker;

use super::{
    App,
    access::Peer,
    answer,
    connection::{Patient, Phase},
    route::Port,
};
use crate::limit::Permit;

/// Out of file descriptors or memory: some connections must end first.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// What hyper holds of a request that it has not handed on, and of an answer that is not sent, at
/// most; the rest waits in the socket.
const BUFFER_BYTES: usize = 64 << 10;

/// What a client gets that comes when there are as many as may be.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

/// Answers the clients of one listener until `closed`, then lets requests under way end.
pub(crate) async fn listen(
    listener: TcpListener,
    port: Port,
    app: Arc<App>,
    mut closed: watch::Receiver<bool>,
) {
    let connections = TaskTracker::new();
    loop {
        // Both only wait: what is not taken now comes again.
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing(&mut closed) => break,
        };
        match accepted {
            Ok((socket, address)) => {
                let app = Arc::clone(&app);
                connections.spawn(connection(socket, address, port, app, closed.clone()));
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

/// Waits until the member stops listening.
async fn closing(closed: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is as good as closed.
    let _ = closed.wait_for(|&closed| closed).await;
}

/// Whether one client is gone again, rather than accepting being impossible.
fn is_about_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn connection(
    socket: TcpStream,
    address: SocketAddr,
    port: Port,
    app: Arc<App>,
    closed: watch::Receiver<bool>,
) {
    // The operator is let in also when clients take all there is.
    let _permit = match port {
        Port::Admin => None,
        Port::Public => match Permit::take(Arc::clone(&app.gates.connections), 1) {
            Some(permit) => Some(permit),
            None => {
                if app.tls.is_none() {
                    // As much as fits, which is all; whoever is refused is not waited for.
                    let _ = socket.try_write(FULL);
                }
                return;
            }
        },
    };
    // Answers are small and complete: waiting for more to send only delays them.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY was refused: {error}");
    }
    let plain = Peer {
        address,
        certificate: None,
    };
    let tls = match port {
        Port::Public => app.tls.clone(),
        Port::Admin => None,
    };
    match tls {
        None => serve(socket, plain, port, app, closed).await,
        Some(tls) => {
            let patience = app.gates.limits.header_timeout;
            if let Some((socket, certificate)) = tls.accept(socket, patience).await {
                let peer = Peer {
                    certificate,
                    ..plain
                };
                serve(socket, peer, port, app, closed).await;
            }
        }
    }
}

/// Answers the requests of a connection until it ends.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    socket: S,
    peer: Peer,
    port: Port,
    app: Arc<App>,
    mut closed: watch::Receiver<bool>,
) {
    let peer = Arc::new(peer);
    let phase = Phase::new();
    let socket = Patient::new(socket, Arc::clone(&phase), &app.gates.limits);
    let max_header_bytes = app.gates.limits.max_header_bytes;
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let (app, peer, phase) = (Arc::clone(&app), Arc::clone(&peer), Arc::clone(&phase));
        async move {
            let response = answer(app, port, &peer, request).await;
            phase.idle();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        // `Patient` times the head, and more than the head.
        .header_read_timeout(None)
        .max_header_size(max_header_bytes)
        .max_buf_size(BUFFER_BYTES.max(max_header_bytes))
        .serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    // The connection goes on where it was when the other branch has told it to end.
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = closing(&mut closed) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients come and go as they like.
        tracing::debug!("a connection ended: {}", crate::store::chain(&error));
    }
}
