//! The mirror's two ports: callers, and Prometheus.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::sleep,
};
use tokio_util::task::TaskTracker;

use super::{
    error::MirrorError,
    proxy::{self, Mirror, text},
    tee::{Body, whole},
};

/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 1024;
/// Open connections of callers; further ones wait in the backlog.
const MOST_CALLERS: usize = 8192;
const MOST_WATCHERS: usize = 64;
/// For the head of a request, and between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Out of file descriptors or memory: some connections must end first.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Which of the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Callers,
    Watch,
}

impl Port {
    fn flag(self) -> &'static str {
        match self {
            Self::Callers => "--listen",
            Self::Watch => "--watch",
        }
    }

    fn most(self) -> usize {
        match self {
            Self::Callers => MOST_CALLERS,
            Self::Watch => MOST_WATCHERS,
        }
    }
}

/// Listens, and says where.
pub(super) fn bound(
    port: Port,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), MirrorError> {
    let listen = || -> io::Result<_> {
        let listener = readstates_listen::listen(address, BACKLOG)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| MirrorError::Listen {
        flag: port.flag(),
        address,
        source,
    })
}

/// Serves a port until `closed`, then lets requests under way end.
pub(super) async fn serve(
    port: Port,
    listener: TcpListener,
    mirror: Arc<Mirror>,
    mut closed: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(port.most()));
    let connections = TaskTracker::new();
    loop {
        // All only wait: what is not taken now comes again.
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = closing(&mut closed) => break,
        };
        match accepted {
            Ok((socket, place)) => {
                let (mirror, closed) = (Arc::clone(&mirror), closed.clone());
                connections.spawn(async move {
                    connection(port, socket, mirror, closed).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("no connection can be accepted now: {error}");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (socket, _) = listener.accept().await?;
    Ok((socket, place))
}

async fn closing(closed: &mut watch::Receiver<bool>) {
    // An error means that the process ends, which is as good as closed.
    let _ = closed.wait_for(|&closed| closed).await;
}

async fn connection(
    port: Port,
    socket: TcpStream,
    mirror: Arc<Mirror>,
    mut closed: watch::Receiver<bool>,
) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY was refused: {error}");
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let mirror = Arc::clone(&mirror);
        async move {
            Ok::<_, Infallible>(match port {
                Port::Callers => proxy::answer(&mirror, request).await,
                Port::Watch => watched(&mirror, &request),
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
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
        // Callers come and go as they like.
        tracing::debug!("a connection ended: {}", crate::store::chain(&error));
    }
}

fn watched(mirror: &Mirror, request: &Request<Incoming>) -> Response<Body> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let mut page = Response::new(whole(mirror.page()));
            let of_text = HeaderValue::from_static("text/plain; version=0.0.4");
            page.headers_mut().insert(header::CONTENT_TYPE, of_text);
            page
        }
        (&Method::GET, "/livez") => text(StatusCode::OK, "alive"),
        _ => text(StatusCode::NOT_FOUND, "here are /metrics and /livez"),
    }
}
