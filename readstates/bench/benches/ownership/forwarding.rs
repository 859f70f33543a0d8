//! The way from one member to another: HTTP/1.1 over a pool of connections, which members use, beside HTTP/2 over
//! one connection and over four.
//!
//! Only the protocol is measured: the answer is made without work. Client and server are in this process, so
//! what a request costs is what both sides spend on it.

use std::{
    convert::Infallible,
    error::Error,
    fmt::Write as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::try_join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

use super::median;

const AT_ONCE: [usize; 3] = [1, 8, 64];
/// Requests of a round, over all that are under way.
const REQUESTS: usize = 20_000;
/// Of about the size that an acknowledgement and its answer have.
const REQUEST: &[u8] = br#"{"message_id":"1234567890123456789"}"#;
const ANSWER: &[u8] = br#"{"applied":true,"version":"12","read_state":{"channel_id":"1234567890123456789","last_message_id":"1234567890123456789","mention_count":0,"flags":0}}"#;

#[derive(Clone, Copy)]
enum Way {
    Http1,
    /// With this many connections.
    Http2(usize),
}

const WAYS: [Way; 3] = [Way::Http1, Way::Http2(1), Way::Http2(4)];

impl Way {
    fn name(self) -> String {
        match self {
            Self::Http1 => "HTTP/1.1, pooled".to_owned(),
            Self::Http2(1) => "HTTP/2, 1 connection".to_owned(),
            Self::Http2(connections) => format!("HTTP/2, {connections} connections"),
        }
    }

    fn clients(self) -> Result<Vec<reqwest::Client>, reqwest::Error> {
        let client = || reqwest::Client::builder().no_proxy().tls_certs_only([]);
        match self {
            Self::Http1 => Ok(vec![client().pool_max_idle_per_host(64).build()?]),
            Self::Http2(connections) => (0..connections)
                .map(|_| client().http2_prior_knowledge().build())
                .collect(),
        }
    }
}

/// A table.
pub(crate) fn measure(runtime: &Runtime, rounds: usize) -> Result<String, Box<dyn Error>> {
    let mut out = String::from(
        "One request after the other for each that is under way; microseconds of processor for a request, client \
         and server together, and requests per second: medians of the rounds, which take turns.\n\n\
         | protocol | under way | requests/s | CPU µs | × HTTP/1.1 |\n|---|---|--:|--:|--:|\n",
    );
    for at_once in AT_ONCE {
        let mut seen = WAYS.map(|_| (Vec::new(), Vec::new()));
        for _ in 0..rounds {
            for (way, (rates, costs)) in WAYS.iter().zip(&mut seen) {
                let (rate, cost) = runtime.block_on(round(*way, at_once))?;
                rates.push(rate);
                costs.push(cost);
            }
        }
        let seen = seen.map(|(rates, costs)| (median(rates), median(costs)));
        let (_, first) = seen[0];
        for (way, (rate, cost)) in WAYS.iter().zip(seen) {
            let (name, ratio) = (way.name(), cost / first);
            writeln!(
                out,
                "| {name} | {at_once} | {rate:.0} | {cost:.1} | {ratio:.2} |"
            )?;
        }
    }
    Ok(out)
}

/// Requests per second, and microseconds of processor for each.
async fn round(way: Way, at_once: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener, way));
    let clients = way.clients()?;
    let run = async |requests: usize| {
        let workers = (0..at_once).map(|worker| {
            let client = clients[worker % clients.len()].clone();
            let worker = send_all(client, address, requests / at_once);
            async move {
                tokio::spawn(worker)
                    .await
                    .map_err(|error| error.to_string())?
            }
        });
        try_join_all(workers).await
    };
    // The connections are made.
    run(at_once * 10).await?;
    let (started, spent) = (Instant::now(), spent_micros());
    let done: usize = run(REQUESTS).await?.into_iter().sum();
    let (took, spent) = (started.elapsed(), spent_micros() - spent);
    server.abort();
    let done = done as f64;
    Ok((done / took.as_secs_f64(), spent / done))
}

async fn send_all(
    client: reqwest::Client,
    address: SocketAddr,
    requests: usize,
) -> Result<usize, String> {
    let url = format!("http://{address}/v1/users/1234567890123456789/read-states/9876543210/ack");
    for _ in 0..requests {
        let request = client
            .post(&url)
            .header("content-type", "application/json")
            .body(REQUEST)
            .timeout(Duration::from_secs(6));
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let answer = answer.bytes().await.map_err(|error| error.to_string())?;
        if answer != ANSWER {
            return Err("another answer than was sent".to_owned());
        }
    }
    Ok(requests)
}

async fn serve(listener: TcpListener, way: Way) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(connection(socket, way));
    }
}

async fn connection(socket: TcpStream, way: Way) -> Result<(), Box<dyn Error + Send + Sync>> {
    socket.set_nodelay(true)?;
    let service = service_fn(answer);
    let io = TokioIo::new(socket);
    match way {
        Way::Http1 => http1::Builder::new().serve_connection(io, service).await?,
        Way::Http2(_) => {
            let builder = http2::Builder::new(TokioExecutor::new());
            builder.serve_connection(io, service).await?;
        }
    }
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // Read, as an owner reads it.
    let body = request.into_body().collect().await;
    let answer = body.map_or(&[][..], |body| {
        if body.to_bytes() == REQUEST {
            ANSWER
        } else {
            &[]
        }
    });
    Ok(Response::new(Full::new(Bytes::from_static(answer))))
}

/// What this process has spent of processors, in microseconds.
pub(crate) fn spent_micros() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}
