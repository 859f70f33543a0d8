//! A distance between processes of one machine: a relay that hands on every byte after half a round trip.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    num::NonZeroU64,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Chunks that are on their way in a direction at once; then the sender waits, as it would for a full window.
const UNDER_WAY: usize = 1024;

/// Relays connections from `listen` to `to` until the process ends. Out: where it listens.
///
/// # Errors
/// When it cannot listen there.
pub fn relay(listen: SocketAddr, to: SocketAddr, round_trip: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // Where nobody listens, the connection is closed at once: the caller sees that.
            if let Ok(far) = TcpStream::connect(to) {
                let _ = join(near, far, round_trip / 2);
            }
        }
    });
    Ok(address)
}

/// The time that a byte takes through a relay and back: the median, and the longest of 99 in a hundred.
///
/// # Errors
/// When there is no connection.
pub fn measured(round_trip: Duration) -> io::Result<[Duration; 2]> {
    const TRIPS: usize = 500;
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let echo = TcpListener::bind(here)?;
    let relayed = relay(here, echo.local_addr()?, round_trip)?;
    let mut near = TcpStream::connect(relayed)?;
    near.set_nodelay(true)?;
    let (mut far, _) = echo.accept()?;
    far.set_nodelay(true)?;
    thread::spawn(move || {
        let mut byte = [0];
        while far.read_exact(&mut byte).is_ok() && far.write_all(&byte).is_ok() {}
    });
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let begun = Instant::now();
        near.write_all(&[0])?;
        near.read_exact(&mut [0])?;
        trips.push(begun.elapsed());
    }
    trips.sort_unstable();
    Ok([trips[TRIPS / 2], trips[TRIPS * 99 / 100]])
}

fn join(near: TcpStream, far: TcpStream, delay: Duration) -> io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    direction(near.try_clone()?, far.try_clone()?, delay);
    direction(far, near, delay);
    Ok(())
}

fn direction(from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, receiver) = sync_channel(UNDER_WAY);
    thread::spawn(move || take(from, &sender, delay));
    thread::spawn(move || hand_on(to, &receiver));
}

fn take(mut from: TcpStream, sender: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + delay;
        if sender.send((due, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    // Closed already, perhaps.
    let _ = from.shutdown(Shutdown::Read);
}

#[expect(
    clippy::disallowed_methods,
    reason = "a distance is nothing but time that passes"
)]
fn hand_on(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    // The kernel wakes others up to 50 µs late, to save power. Where it does not take this, the measured round trip says so.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    for (due, bytes) in receiver {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Closed already, perhaps.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_whole_in_order_and_no_earlier_than_the_distance_allows() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(here).unwrap();
        let round_trip = Duration::from_millis(40);
        let relayed = relay(here, listener.local_addr().unwrap(), round_trip).unwrap();
        let mut near = TcpStream::connect(relayed).unwrap();
        let begun = Instant::now();
        let sent: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let expected = sent.clone();
        let sender = thread::spawn(move || {
            near.write_all(&sent).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let (mut far, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        assert!(begun.elapsed() >= round_trip / 2);
        assert!(got == expected, "{} bytes", got.len());
        sender.join().unwrap();
    }

    #[test]
    fn a_round_trip_takes_no_less_than_it_should() {
        let round_trip = Duration::from_millis(2);
        let [median, most] = measured(round_trip).unwrap();
        assert!(
            round_trip <= median && median <= most,
            "{median:?} {most:?}"
        );
    }
}
