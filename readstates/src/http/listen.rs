//! Accepting connections, and what becomes of each.

use std::{io, sync::Arc, time::Duration};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::task::TaskTracker;

use super::{
    App, answer,
    connection::{Patient, Phase},
    connections::Open,
    route::Port,
};

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
            Ok((socket, _)) => {
                connections.spawn(connection(socket, port, Arc::clone(&app), closed.clone()));
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

/// Waits until the place of a connection was given to another.
async fn given_up(open: Option<&Open>) {
    match open {
        Some(open) => open.given_up().await,
        None => std::future::pending().await,
    }
}

async fn connection(
    socket: TcpStream,
    port: Port,
    app: Arc<App>,
    mut closed: watch::Receiver<bool>,
) {
    let phase = Phase::new();
    // The operator is let in also when clients take all there is.
    let open = match port {
        Port::Admin => None,
        Port::Public => {
            // Without an address it is gone already.
            let Ok(peer) = socket.peer_addr() else { return };
            let Some(open) = app.gates.connections.admit(peer.ip(), &phase) else {
                // As much as fits, which is all; whoever is refused is not waited for.
                let _ = socket.try_write(FULL);
                return;
            };
            Some(open)
        }
    };
    // Answers are small and complete: waiting for more to send only delays them.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY was refused: {error}");
    }
    let socket = Patient::new(socket, Arc::clone(&phase), &app.gates.limits);
    let max_header_bytes = app.gates.limits.max_header_bytes;
    let idle = Arc::clone(&phase);
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let (app, phase) = (Arc::clone(&app), Arc::clone(&phase));
        async move {
            let response = answer(app, port, request).await;
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
        () = given_up(open.as_ref()) => {
            if idle.idle_since().is_some() {
                return;
            }
            // A request came meanwhile: its answer is the last one.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients come and go as they like.
        tracing::debug!("a connection ended: {}", crate::store::chain(&error));
    }
}
