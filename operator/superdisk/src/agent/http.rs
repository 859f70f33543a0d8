//! Answers probes, Prometheus and the operator: five paths, GET only, one request a connection.
//!
//! Written on `std::net` because that is all it takes: one reader at a time, answers of a few kilobytes made
//! from a value in memory, no bodies, no TLS, no keep-alive. It never looks at a disk, so that it answers when
//! all of them hang.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use crate::{metrics, status::Report};

/// Longest request that is read: a line and some headers.
const REQUEST_BYTES: u64 = 8 << 10;
/// How long a conversation may take: a client holds up all others.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the answers are made of.
pub trait Source {
    /// The newest report; `None` before the first.
    fn report(&self) -> Option<Report>;
    /// Whether the agent still looks at the disks. False asks for its restart.
    fn is_alive(&self) -> bool;
    /// Whether the agent is stopping the super-disk.
    fn is_stopping(&self) -> bool;
}

/// Serves until the process ends. Errors of single connections concern their clients only.
pub fn serve(listener: &TcpListener, source: &dyn Source) {
    for stream in listener.incoming().flatten() {
        let _ = converse(&stream, source, PATIENCE);
    }
}

/// A connection that can be used up to a moment, however often.
#[derive(Clone, Copy)]
struct Until<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Until<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn converse(stream: &TcpStream, source: &dyn Source, patience: Duration) -> io::Result<()> {
    let end = Instant::now() + patience;
    let mut stream = Until { stream, end };
    let mut lines = BufReader::new(stream.take(REQUEST_BYTES)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // To the end of the head: a connection closed with unread bytes is reset, and the answer lost.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let Response { status, kind, body } = answer(&first, source);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: &'static str,
    kind: &'static str,
    body: String,
}

const TEXT: &str = "text/plain; charset=utf-8";
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

fn answer(request: &str, source: &dyn Source) -> Response {
    let mut words = request.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if method != Some("GET") {
        return text("405 Method Not Allowed", "only GET\n");
    }
    let report = source.report();
    match target.split('?').next().unwrap_or_default() {
        "/livez" if source.is_alive() => text("200 OK", "alive\n"),
        "/livez" => text(
            "503 Service Unavailable",
            "the disks have not been looked at for long\n",
        ),
        "/startup" => probe(report.as_ref(), "not mounted", |report| report.mounted),
        "/readyz" if source.is_stopping() => text("503 Service Unavailable", "stopping\n"),
        "/readyz" => probe(report.as_ref(), "not ready", |report| report.ready),
        "/metrics" => match report {
            Some(report) => Response {
                status: "200 OK",
                kind: METRICS,
                body: metrics::text(&report),
            },
            None => text("503 Service Unavailable", "not looked yet\n"),
        },
        "/state" => match report.map(|report| serde_json::to_string(&report)) {
            Some(Ok(body)) => Response {
                status: "200 OK",
                kind: "application/json",
                body,
            },
            Some(Err(error)) => text("500 Internal Server Error", &error.to_string()),
            None => text("503 Service Unavailable", "not looked yet\n"),
        },
        _ => text("404 Not Found", "/livez /readyz /startup /metrics /state\n"),
    }
}

/// 200 or 503, and in which condition.
fn probe(report: Option<&Report>, no: &str, good: impl Fn(&Report) -> bool) -> Response {
    match report {
        Some(report) if good(report) => text("200 OK", &format!("{}\n", report.condition.word())),
        Some(report) => {
            let refusal = report.refusal.as_ref();
            let why = refusal.map_or(report.condition.word(), |refusal| refusal.code.as_str());
            text("503 Service Unavailable", &format!("{no}: {why}\n"))
        }
        None => text("503 Service Unavailable", "not looked yet\n"),
    }
}

fn text(status: &'static str, body: &str) -> Response {
    Response {
        status,
        kind: TEXT,
        body: body.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Shutdown, thread};

    use super::*;
    use crate::{
        heal::memory::Memory,
        status::tests::{lost, sample},
        stop::Stop,
    };

    struct Fixed {
        report: Option<Report>,
        alive: bool,
        stopping: bool,
    }

    impl Source for Fixed {
        fn report(&self) -> Option<Report> {
            self.report.clone()
        }

        fn is_alive(&self) -> bool {
            self.alive
        }

        fn is_stopping(&self) -> bool {
            self.stopping
        }
    }

    fn fixed(report: Option<Report>) -> Fixed {
        Fixed {
            report,
            alive: true,
            stopping: false,
        }
    }

    fn asked(path: &str, source: &Fixed) -> (&'static str, String) {
        let answer = answer(&format!("GET {path} HTTP/1.1"), source);
        (&answer.status[..3], answer.body)
    }

    #[test]
    fn probes_follow_the_report() {
        let good = fixed(Some(sample(&Memory::default())));
        let bad = fixed(Some(lost()));
        let none = fixed(None);
        for (path, source, status, body) in [
            ("/startup", &good, "200", "healthy\n"),
            ("/readyz", &good, "200", "healthy\n"),
            ("/startup", &bad, "200", "durable-lost\n"),
            ("/readyz", &bad, "503", "not ready: durable-lost\n"),
            ("/livez", &bad, "200", "alive\n"),
            ("/startup", &none, "503", "not looked yet\n"),
            ("/metrics", &none, "503", "not looked yet\n"),
            (
                "/nothing",
                &good,
                "404",
                "/livez /readyz /startup /metrics /state\n",
            ),
        ] {
            assert_eq!(asked(path, source), (status, body.to_owned()), "{path}");
        }
        let stuck = Fixed {
            alive: false,
            ..fixed(None)
        };
        assert_eq!(asked("/livez", &stuck).0, "503");
        let stopping = Fixed {
            stopping: true,
            ..fixed(Some(sample(&Memory::default())))
        };
        assert_eq!(
            asked("/readyz", &stopping),
            ("503", "stopping\n".to_owned())
        );
        assert_eq!(
            answer("POST /state HTTP/1.1", &good).status,
            "405 Method Not Allowed"
        );
        assert_eq!(answer("", &good).status, "405 Method Not Allowed");
    }

    #[test]
    fn a_client_gets_its_answer_and_a_slow_one_does_not_stop_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the tests' process.
        thread::spawn(move || serve(&listener, &fixed(Some(sample(&Memory::default())))));
        let idle = TcpStream::connect(address).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client
            .write_all(b"GET /state HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        idle.shutdown(Shutdown::Both).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json"),
            "{head}"
        );
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(json["ready"], true);
    }

    #[test]
    fn a_client_that_goes_on_byte_by_byte_is_hung_up_on_when_its_time_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let (patience, stop) = (Duration::from_millis(200), Stop::default());
        thread::scope(|scope| {
            let other = stop.clone();
            scope.spawn(move || {
                // A head has no end as long as its lines have none.
                while !other.pause(patience / 10) && client.write_all(b"x").is_ok() {}
            });
            let source = fixed(None);
            let conversing = scope.spawn(move || converse(&stream, &source, patience));
            let began = Instant::now();
            while !conversing.is_finished() && began.elapsed() < 20 * patience {
                thread::yield_now();
            }
            let is_over = conversing.is_finished();
            stop.say();
            assert!(is_over, "it takes as long as the client likes");
            conversing.join().unwrap().unwrap_err();
        });
    }
}
