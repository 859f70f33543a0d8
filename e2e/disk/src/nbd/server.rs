//! Serves one [`Disk`] on a unix socket: two threads per connection, one that accepts requests and one that answers
//! each when it is due.
//!
//! Latency is counted from a request's arrival, so concurrent requests take no longer than one, as on a network disk. A
//! request that is not answered when the connection ends was never done: what is in flight at a power cut is not on the
//! disk.

use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::Instant,
};

use super::protocol::{
    Command, Negotiation, OPTION_HEADER, OptionHeader, ProtocolError, REQUEST_HEADER, Request,
    decode_client_flags, greeting, reply,
};
use crate::disk::Disk;

/// Requests taken in and not answered yet; QEMU has at most 16 in flight.
const QUEUE: usize = 64;
/// In a reply: what was asked for makes no sense.
const EINVAL: u32 = 22;

/// A socket on which a disk is served, until this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    socket: PathBuf,
}

/// A request with its data, as it came in.
struct Arrived {
    request: Request,
    data: Vec<u8>,
    at: Instant,
}

impl Server {
    /// Begins to listen; connections are served by threads that end with them.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn start(disk: &Disk, socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let disk = disk.clone();
        // Ends with the process: an accept cannot be told to stop, and holds nothing but the socket.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let disk = disk.clone();
                thread::spawn(move || {
                    if let Err(error) = serve(&disk, stream) {
                        eprintln!("disk {}: {error}", disk.name());
                    }
                });
            }
        });
        Ok(Self {
            socket: socket.to_owned(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already when the test's folder is.
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn serve(disk: &Disk, mut stream: UnixStream) -> io::Result<()> {
    if !negotiate(disk, &mut stream)? {
        return Ok(());
    }
    let (queue, due) = mpsc::sync_channel(QUEUE);
    let gone = Arc::new(AtomicBool::new(false));
    let answering = thread::spawn({
        let (disk, stream, gone) = (disk.clone(), stream.try_clone()?, gone.clone());
        move || answer(&disk, stream, &due, &gone)
    });
    let taken = take_in(stream, &queue);
    gone.store(true, Ordering::Release);
    drop(queue);
    // The other side's going away is how every connection ends.
    let _ = answering.join();
    match taken {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
        Err(_) | Ok(()) => Ok(()),
    }
}

/// True when requests follow.
fn negotiate(disk: &Disk, stream: &mut UnixStream) -> io::Result<bool> {
    stream.write_all(&greeting())?;
    let flags = decode_client_flags(read_array(stream)?).map_err(invalid)?;
    loop {
        let header: [u8; OPTION_HEADER] = read_array(stream)?;
        let OptionHeader { option, length } = OptionHeader::decode(&header).map_err(invalid)?;
        io::copy(&mut stream.take(length.into()), &mut io::sink())?;
        stream.write_all(&option.answer(disk.size(), flags))?;
        match option {
            Negotiation::Go | Negotiation::ExportName => return Ok(true),
            Negotiation::Abort => return Ok(false),
            Negotiation::Other(_) => {}
        }
    }
}

/// Until the connection ends.
fn take_in(mut stream: UnixStream, queue: &SyncSender<Arrived>) -> io::Result<()> {
    loop {
        let header: [u8; REQUEST_HEADER] = read_array(&mut stream)?;
        let request = Request::decode(&header).map_err(invalid)?;
        let mut data = Vec::new();
        match request.command {
            Command::Write { length, .. } => {
                data.resize(length as usize, 0);
                stream.read_exact(&mut data)?;
            }
            Command::Disconnect => return Ok(()),
            Command::Read { .. } | Command::Flush => {}
        }
        let arrived = Arrived {
            request,
            data,
            at: Instant::now(),
        };
        if queue.send(arrived).is_err() {
            return Ok(());
        }
    }
}

/// Does each request when it is due, unless the connection is gone by then.
fn answer(disk: &Disk, mut stream: UnixStream, due: &Receiver<Arrived>, gone: &AtomicBool) {
    // Nothing is ever sent here: a wait with a precise end, which the kernel's timers give.
    let (_never, clock) = mpsc::channel::<()>();
    while let Ok(Arrived { request, data, at }) = due.recv() {
        if let Some(wait) = (at + disk.latency()).checked_duration_since(Instant::now())
            && !matches!(clock.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
        {
            return;
        }
        disk.wait_while_hung(|| gone.load(Ordering::Acquire));
        if gone.load(Ordering::Acquire) {
            return;
        }
        let done = perform(disk, request.command, &data);
        let (error, content) = match done {
            Ok(content) => (0, content),
            Err(errno) => (errno, Vec::new()),
        };
        let message = [&reply(request.cookie, error)[..], &content].concat();
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

fn perform(disk: &Disk, command: Command, data: &[u8]) -> Result<Vec<u8>, u32> {
    match command {
        Command::Read { offset, length } => disk.read(offset, length),
        Command::Write { offset, fua, .. } => disk.write(offset, data, fua).map(|()| Vec::new()),
        Command::Flush => disk.flush().map(|()| Vec::new()),
        Command::Disconnect => Err(EINVAL),
    }
}

fn read_array<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(error: ProtocolError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::disk::WriteCache;

    /// A client as small as one can be: it has the server's disk in its hand, too.
    struct Client {
        _folder: tempfile::TempDir,
        _server: Server,
        disk: Disk,
        stream: UnixStream,
    }

    impl Client {
        fn connected() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let disk = Disk::blank(
                "d",
                &folder.path().join("d.img"),
                1 << 20,
                WriteCache::Through,
            )
            .unwrap();
            let server = Server::start(&disk, &folder.path().join("d.sock")).unwrap();
            let mut stream = UnixStream::connect(server.socket()).unwrap();
            let _greeting: [u8; 18] = read_array(&mut stream).unwrap();
            stream.write_all(&3_u32.to_be_bytes()).unwrap();
            let go = [&b"IHAVEOPT"[..], &[0, 0, 0, 7, 0, 0, 0, 6], &[0; 6]].concat();
            stream.write_all(&go).unwrap();
            let _answer: [u8; 52] = read_array(&mut stream).unwrap();
            Self {
                _folder: folder,
                _server: server,
                disk,
                stream,
            }
        }

        fn send(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) {
            let message = [
                &0x2560_9513_u32.to_be_bytes()[..],
                &0_u16.to_be_bytes(),
                &kind.to_be_bytes(),
                &offset.to_be_bytes(), // the cookie tells us which one is answered
                &offset.to_be_bytes(),
                &length.to_be_bytes(),
                data,
            ]
            .concat();
            self.stream.write_all(&message).unwrap();
        }

        /// The error and the cookie of the next reply.
        fn reply(&mut self) -> (u32, u64) {
            let bytes: [u8; 16] = read_array(&mut self.stream).unwrap();
            let (head, cookie) = bytes.split_at(8);
            (
                u32::from_be_bytes(head[4..].try_into().unwrap()),
                u64::from_be_bytes(cookie.try_into().unwrap()),
            )
        }
    }

    #[test]
    fn what_is_written_is_read_and_what_is_lost_is_an_error() {
        let mut client = Client::connected();
        client.send(1, 8192, 4, b"disk");
        assert_eq!(client.reply(), (0, 8192));
        client.send(0, 8192, 4, &[]);
        assert_eq!(client.reply(), (0, 8192));
        assert_eq!(&read_array::<4>(&mut client.stream).unwrap(), b"disk");
        client.disk.lose(8192..8193);
        client.send(0, 8192, 4, &[]);
        assert_eq!(client.reply(), (5, 8192));
        client.send(3, 0, 0, &[]);
        assert_eq!(client.reply(), (0, 0));
    }

    #[test]
    fn requests_at_the_same_time_wait_at_the_same_time() {
        let mut client = Client::connected();
        client.disk.slow_down(Duration::from_millis(100));
        let started = Instant::now();
        for page in 0..8 {
            client.send(1, page * 4096, 1, &[1]);
        }
        for page in 0..8 {
            assert_eq!(client.reply(), (0, page * 4096));
        }
        let spent = started.elapsed();
        assert!(spent >= Duration::from_millis(100), "{spent:?}");
        assert!(spent < Duration::from_millis(500), "{spent:?}");
    }

    #[test]
    fn a_hanging_disk_answers_when_it_comes_back_and_forgets_who_left() {
        let mut client = Client::connected();
        client.disk.hang(true);
        client.send(1, 0, 1, &[9]);
        client
            .stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        assert!(read_array::<16>(&mut client.stream).is_err());
        client.stream.set_read_timeout(None).unwrap();
        client.disk.hang(false);
        assert_eq!(client.reply(), (0, 0));

        client.disk.hang(true);
        client.send(1, 0, 1, &[10]);
        client.stream.shutdown(std::net::Shutdown::Both).unwrap();
        let (_never, clock) = mpsc::channel::<()>();
        let _ = clock.recv_timeout(Duration::from_millis(600));
        client.disk.hang(false);
        assert_eq!(client.disk.peek(0, 1).unwrap(), [9]);
    }
}
