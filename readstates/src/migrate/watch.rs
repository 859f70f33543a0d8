//! `GET /progress`: how far a move is, as JSON. It tells numbers and nothing about users.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use readstates_api::admin::MigrationProgress;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
    time::sleep,
};

use super::MigrateError;

const BACKLOG: i32 = 16;
/// Open connections; further ones wait in the backlog.
const MOST: usize = 16;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Out of file descriptors or memory: some connections must end first.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What is shown at the moment; nothing before the first pass.
pub(super) type Shown = Arc<Mutex<Option<MigrationProgress>>>;

/// The port, which is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    task: JoinHandle<()>,
    pub(super) address: SocketAddr,
}

impl Watch {
    /// Listens, and answers with what is shown.
    pub(super) fn start(address: SocketAddr, shown: Shown) -> Result<Self, MigrateError> {
        let listen = || -> io::Result<TcpListener> {
            let listener = readstates_listen::listen(address, BACKLOG)?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let failed = |source| MigrateError::Listen { address, source };
        let listener = listen().map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let task = tokio::spawn(serve(listener, shown));
        Ok(Self { task, address })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Until it is aborted; connections end by themselves.
async fn serve(listener: TcpListener, shown: Shown) {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((socket, _)) => {
                let shown = Arc::clone(&shown);
                tokio::spawn(async move {
                    connection(socket, shown).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("no connection can be accepted now: {error}");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, shown: Shown) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &shown);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service)
        .await;
    if let Err(error) = served {
        // Callers come and go as they like.
        tracing::debug!("a connection ended: {}", crate::store::chain(&error));
    }
}

fn answer(request: &Request<Incoming>, shown: &Shown) -> Response<Full<Bytes>> {
    let (status, type_, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/progress") => {
            let now = shown.lock().clone();
            // Numbers and strings: nothing that JSON cannot say.
            let body = serde_json::to_vec(&now).unwrap_or_default();
            (StatusCode::OK, "application/json", body)
        }
        _ => {
            let body = b"here is /progress\n".to_vec();
            (StatusCode::NOT_FOUND, "text/plain", body)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let type_ = HeaderValue::from_static(type_);
    response.headers_mut().insert(header::CONTENT_TYPE, type_);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn progress_is_told_until_the_move_is_over() {
        let shown = Shown::default();
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let watch = Watch::start(free, Arc::clone(&shown)).unwrap();
        let address = watch.address;
        assert!(get(address, "/progress").await.ends_with("\r\n\r\nnull"));
        *shown.lock() = Some(MigrationProgress {
            what: "pass 2".to_owned(),
            verifies: false,
            share: Some(0.5),
            users: 3000,
            lacking: 7,
            users_per_second: 750,
        });
        let told = get(address, "/progress").await;
        assert!(
            told.ends_with(
                r#"{"what":"pass 2","verifies":false,"share":0.5,"users":3000,"lacking":7,"users_per_second":750}"#
            ),
            "{told}"
        );
        assert!(get(address, "/users").await.starts_with("HTTP/1.1 404"));
        drop(watch);
        // The task is told to end, and ends at its next turn.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn an_address_in_use_is_refused_by_its_flag() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = Watch::start(taken.local_addr().unwrap(), Shown::default()).unwrap_err();
        assert!(
            refused.to_string().starts_with("--progress-listen: "),
            "{refused}"
        );
    }
}
