//! The end of connections: their own, or that of the port to which they were made.

use std::{convert::Infallible, pin::pin};

use hyper::{body::Incoming, server::conn::http1::Connection, service::HttpService};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
};

use super::Body;

/// Waits until the port no longer listens.
pub(crate) async fn closing(closed: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is as good as closed.
    let _ = closed.wait_for(|&closed| closed).await;
}

/// Answers are small and complete: waiting for more to send only delays them.
pub(crate) fn send_at_once(socket: &TcpStream) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY was refused: {error}");
    }
}

/// How a connection makes room for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    AtOnce,
    /// The request under way is its last one.
    Answered,
}

/// Serves a connection until it ends, the port closes or the connection is to leave. A request under way is answered.
pub(crate) async fn serve_to_the_end<S, H>(
    connection: Connection<TokioIo<S>, H>,
    closed: &mut watch::Receiver<bool>,
    leave: impl Future<Output = Leave>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    H: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let mut connection = pin!(connection);
    // The connection goes on where it was when another branch has told it to end.
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = closing(closed) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        leave = leave => {
            if leave == Leave::AtOnce {
                return;
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients come and go as they like.
        tracing::debug!("a connection ended: {}", crate::store::chain(&error));
    }
}
