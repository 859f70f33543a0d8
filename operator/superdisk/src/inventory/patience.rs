//! Reads with a time limit: a device that does not answer in time counts as unreadable.
//!
//! A read that hangs cannot be cancelled, so it is left to a thread. While it hangs, nothing else is read from that
//! device; when it returns, the device can be read again.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// The kernel gives a request to an NVMe device up after 30 s, and then resets the device.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Devices with a read that hangs, by path.
static STUCK: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn stuck() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    STUCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices that have not answered yet; this process ends once they do.
#[must_use]
pub fn silent() -> Vec<PathBuf> {
    stuck().iter().cloned().collect()
}

fn no_answer(time: Duration) -> io::Error {
    let text = format!("it does not answer within {} s", time.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Reads the device at `path` by `read`, for `time` at most.
pub(crate) fn read_within(
    time: Duration,
    path: &Path,
    read: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
) -> io::Result<Vec<u8>> {
    if stuck().contains(path) {
        return Err(no_answer(time));
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let of = path.to_owned();
    // Not joined: it ends with its read, or with the process.
    thread::Builder::new().spawn(move || {
        // The receiver is gone when the read comes too late.
        let _ = sender.send(read());
        stuck().remove(&of);
    })?;
    if let Ok(result) = receiver.recv_timeout(time) {
        return result;
    }
    let mut stuck = stuck();
    // It may have come just now: then its thread waits for the list that is held here, or has been past it.
    receiver.try_recv().unwrap_or_else(|_| {
        stuck.insert(path.to_owned());
        Err(no_answer(time))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_hangs_is_asked_nothing_until_it_answers() {
        let path = Path::new("/dev/hangs");
        let (answer, hangs) = mpsc::channel::<()>();
        let read = move || {
            hangs.recv().unwrap();
            Ok(vec![1])
        };
        let error = read_within(Duration::ZERO, path, read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let asked = || panic!("nothing is asked");
        let error = read_within(PATIENCE, path, asked).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Others are.
        let other = read_within(PATIENCE, Path::new("/dev/other"), || Ok(vec![2]));
        assert_eq!(other.unwrap(), [2]);
        answer.send(()).unwrap();
        while stuck().contains(path) {
            thread::yield_now();
        }
        assert_eq!(read_within(PATIENCE, path, || Ok(vec![3])).unwrap(), [3]);
    }
}
