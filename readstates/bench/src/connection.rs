//! One connection: its socket, what is on its way out, what has come in, and the requests that wait for an
//! answer, in order. It never waits: the worker calls it when the kernel says that there is something to do.
//!
//! ```text
//!        connect            ready
//! Down ──────────▶ Connecting ─────▶ Up
//!   ▲                  │              │
//!   └──────────────────┴──────────────┘ refused, lost, unreadable, timed out
//! ```

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::fd::OwnedFd,
    sync::Arc,
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
};

use rustls::ClientConnection;

use crate::{
    answer::{Answer, Failure},
    operation::Operation,
    protocol::{Protocol, Read},
    schedule::Nanos,
    secure::Tls,
};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// When it was due.
    pub(crate) due: Nanos,
    /// When it was sent.
    pub(crate) sent: Nanos,
    /// Whether it is booked in a window: what is sent again after the end is not.
    pub(crate) booked: bool,
    /// What it does.
    pub(crate) operations: Vec<Operation>,
}

/// A request and its outcome.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) connection: usize,
    pub(crate) request: InFlight,
    pub(crate) answers: Vec<Answer>,
}

/// Where a connection goes, and what is spoken there.
#[derive(Debug, Clone)]
pub struct Route {
    pub address: SocketAddr,
    /// The language.
    pub protocol: Arc<dyn Protocol>,
    /// What it is spoken over; `None`: TCP alone.
    pub tls: Option<Tls>,
}

#[derive(Debug)]
enum State {
    Down { retry_at: Nanos },
    Connecting { stream: TcpStream, since: Nanos },
    Up { stream: TcpStream },
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Its place among the connections of its worker, and the token of its events.
    index: usize,
    route: Route,
    state: State,
    /// What TLS knows of the connection, from its beginning on.
    session: Option<Box<ClientConnection>>,
    input: Vec<u8>,
    output: Vec<u8>,
    in_flight: VecDeque<InFlight>,
}

impl Connection {
    /// On this route, not connected yet.
    pub(crate) fn new(index: usize, route: Route) -> Self {
        Self {
            index,
            route,
            state: State::Down { retry_at: 0 },
            session: None,
            input: Vec::with_capacity(CHUNK),
            output: Vec::with_capacity(4096),
            in_flight: VecDeque::new(),
        }
    }

    /// Whether it is time to connect.
    pub(crate) fn wants_to_connect(&self, now: Nanos) -> bool {
        matches!(self.state, State::Down { retry_at } if retry_at <= now)
    }

    /// Whether requests can be sent.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Since when the oldest thing that it waits for has been under way.
    pub(crate) fn waiting_since(&self) -> Option<Nanos> {
        match &self.state {
            State::Down { .. } => None,
            State::Connecting { since, .. } => Some(*since),
            State::Up { .. } => self.in_flight.front().map(|request| request.sent),
        }
    }

    /// Begins to connect; the worker hears of the end as an event of its index.
    pub(crate) fn connect(&mut self, epoll: &OwnedFd, now: Nanos) -> io::Result<()> {
        let family = match self.route.address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &self.route.address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        // Told once of each change, so that an answer costs one read and no change of interest.
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(
            epoll,
            &stream,
            EventData::new_u64(self.index as u64),
            interest,
        )?;
        let tls = self.route.tls.as_ref();
        self.session = tls.map(Tls::session).transpose()?.map(Box::new);
        self.state = State::Connecting { stream, since: now };
        Ok(())
    }

    /// The kernel has told something of a connection that was being made: `true` when it is up now.
    pub(crate) fn connected(&mut self) -> io::Result<bool> {
        let State::Connecting { stream, .. } = &mut self.state else {
            return Ok(false);
        };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Some(session) = &mut self.session
            && !shake(session, stream)?
        {
            return Ok(false);
        }
        let down = State::Down { retry_at: 0 };
        if let State::Connecting { stream, .. } = std::mem::replace(&mut self.state, down) {
            self.state = State::Up { stream };
        }
        Ok(true)
    }

    /// Puts a request in line; [`Connection::flush`] sends what is in line.
    pub(crate) fn queue(&mut self, request: InFlight) {
        self.route
            .protocol
            .write(&request.operations, &mut self.output);
        self.in_flight.push_back(request);
    }

    /// Sends as much as the kernel takes.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let State::Up { stream } = &mut self.state else {
            return Ok(());
        };
        if let Some(session) = &mut self.session {
            // Into memory, which takes everything.
            let taken = session.writer().write_all(&self.output);
            self.output.clear();
            let sent = taken.and_then(|()| send(session, stream));
            return sent.map_err(|_| Failure::ConnectionLost);
        }
        let mut written = 0;
        while written < self.output.len() {
            match stream.write(&self.output[written..]) {
                Ok(0) => return Err(Failure::ConnectionLost),
                Ok(n) => written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Failure::ConnectionLost),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    /// Takes what has come in; `hangup` when the kernel says that no more will. Appends the requests that
    /// are answered to `ended`, also when it fails.
    pub(crate) fn receive(
        &mut self,
        hangup: bool,
        spare: &mut Vec<Vec<Answer>>,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Failure> {
        let State::Up { stream } = &mut self.state else {
            return Ok(());
        };
        let mut lost = false;
        if let Some(session) = &mut self.session {
            lost = hear(session, stream, &mut self.input)?;
            let last = self.parse(spare, ended)?;
            return match lost || last {
                true => Err(Failure::ConnectionLost),
                false => Ok(()),
            };
        }
        loop {
            self.input.reserve(CHUNK);
            let room = self.input.capacity() - self.input.len();
            match rustix::io::read(&*stream, spare_capacity(&mut self.input)) {
                Ok(0) => lost = true,
                // Less than there was room for: the kernel has no more, and will tell when it has.
                Ok(n) if n < room && !hangup => {}
                Ok(_) | Err(Errno::INTR) => continue,
                Err(error) => lost = error != Errno::AGAIN,
            }
            break;
        }
        let last = self.parse(spare, ended)?;
        match lost || last {
            true => Err(Failure::ConnectionLost),
            false => Ok(()),
        }
    }

    /// Whether the server has said that it closes.
    fn parse(
        &mut self,
        spare: &mut Vec<Vec<Answer>>,
        ended: &mut Vec<Ended>,
    ) -> Result<bool, Failure> {
        let mut parsed = 0;
        let mut closes = false;
        while let Some(request) = self.in_flight.front() {
            let mut answers = spare.pop().unwrap_or_default();
            let input = &self.input[parsed..];
            match self
                .route
                .protocol
                .read(&request.operations, input, &mut answers)
            {
                Ok(Read::Whole { length, last }) => {
                    parsed += length;
                    closes |= last;
                }
                Ok(Read::Incomplete) => {
                    spare.push(answers);
                    break;
                }
                Err(_) => return Err(Failure::Unreadable),
            }
            if let Some(request) = self.in_flight.pop_front() {
                let connection = self.index;
                ended.push(Ended {
                    connection,
                    request,
                    answers,
                });
            }
        }
        if self.in_flight.is_empty() && parsed < self.input.len() {
            // An answer to no request.
            return Err(Failure::Unreadable);
        }
        self.input.drain(..parsed);
        Ok(closes)
    }

    /// Gives the connection up until `retry_at`. Its requests end with this failure.
    pub(crate) fn give_up(&mut self, failure: Failure, retry_at: Nanos, ended: &mut Vec<Ended>) {
        self.state = State::Down { retry_at };
        self.session = None;
        self.input.clear();
        self.output.clear();
        for request in self.in_flight.drain(..) {
            let answers = vec![Answer::Failed(failure); request.operations.len()];
            ended.push(Ended {
                connection: self.index,
                request,
                answers,
            });
        }
    }
}

/// Goes on with a handshake: `true` when it is over.
fn shake(session: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<bool> {
    loop {
        send(session, stream)?;
        if !session.is_handshaking() {
            return Ok(true);
        }
        match session.read_tls(stream) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                session.process_new_packets().map_err(io::Error::other)?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends as much of what is encrypted as the kernel takes.
fn send(session: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while session.wants_write() {
        match session.write_tls(stream) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes what has come in, without the encryption. Whether the connection is lost.
fn hear(
    session: &mut ClientConnection,
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
) -> Result<bool, Failure> {
    loop {
        // What the handshake has left over comes first.
        match session.reader().read_to_end(input) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Ok(true),
        }
        match session.read_tls(stream) {
            Ok(0) => return Ok(true),
            Ok(_) => {
                let processed = session.process_new_packets();
                processed.map_err(|_| Failure::Unreadable)?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Ok(true),
        }
    }
}
