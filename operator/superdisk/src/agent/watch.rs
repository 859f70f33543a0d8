//! Sleeps until there is something to look at: md changed a state, a device came or went, a signal, a word from
//! another thread, or the time is over. One `poll(2)` for all.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    SigId,
    consts::{SIGINT, SIGTERM},
};

use crate::{heal::facts::Facts, uevent::Uevents};

/// What ended the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Time to look.
    Look,
    /// Told to end.
    Stop,
}

/// Everything that is slept on.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    signals: UnixStream,
    words: UnixStream,
    /// `None` where the kernel lets us not listen: the timer has to do then.
    uevents: Option<Uevents>,
    files: Vec<File>,
    _registered: Vec<SigId>,
}

/// Wakes the sleeper. Cheap; any number of them.
#[derive(Debug)]
pub struct Waker(UnixStream);

impl Waker {
    /// There is something to look at.
    pub fn wake(&self) {
        use std::io::Write;
        // Full: the sleeper will wake anyway. Closed: there is no sleeper any more.
        let _ = (&self.0).write(&[1]);
    }

    pub fn another(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

impl Watch {
    /// Begins to listen to SIGTERM and SIGINT, to devices, and to wakers.
    pub fn new(root: &Path) -> io::Result<(Self, Waker)> {
        let (signals, from_handler) = UnixStream::pair()?;
        let (words, waker) = UnixStream::pair()?;
        for stream in [&signals, &words, &waker] {
            stream.set_nonblocking(true)?;
        }
        let mut registered = Vec::new();
        for signal in [SIGTERM, SIGINT] {
            let pipe = from_handler.try_clone()?;
            registered.push(signal_hook::low_level::pipe::register(signal, pipe)?);
        }
        let watch = Self {
            root: root.to_owned(),
            signals,
            words,
            uevents: Uevents::listen().ok(),
            files: Vec::new(),
            _registered: registered,
        };
        Ok((watch, Waker(waker)))
    }

    /// From now on changes of these arrays end the sleep. To be called before they are looked at: what changes
    /// after this ends the next sleep.
    pub fn arm(&mut self, facts: Option<&Facts>) {
        let read = |path: PathBuf| {
            let mut file = File::open(path).ok()?;
            // sysfs tells of changes since the last read.
            file.read_to_end(&mut Vec::new()).ok()?;
            Some(file)
        };
        let files = facts.map(|facts| files(&self.root, facts));
        self.files = files.into_iter().flatten().filter_map(read).collect();
    }

    pub fn sleep(&mut self, at_most: Duration) -> io::Result<Woken> {
        let timeout = Timespec::try_from(at_most).map_err(io::Error::other)?;
        let mut waiting = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.words, PollFlags::IN),
        ];
        waiting.extend(
            self.uevents
                .iter()
                .map(|uevents| PollFd::new(uevents.socket(), PollFlags::IN)),
        );
        let files = self.files.iter();
        waiting.extend(files.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI)));
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(waiting);
        if let Some(uevents) = &self.uevents {
            uevents.about_disks()?;
        }
        drain(&mut self.words)?;
        Ok(if drain(&mut self.signals)? {
            Woken::Stop
        } else {
            Woken::Look
        })
    }
}

/// Reads what has come; whether anything has.
fn drain(stream: &mut UnixStream) -> io::Result<bool> {
    let mut any = false;
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(any),
            Ok(_) => any = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The files that md marks when they change; see Documentation/admin-guide/md.rst of Linux.
fn files(root: &Path, facts: &Facts) -> Vec<PathBuf> {
    let md = |name: &str| root.join("sys/block").join(name).join("md");
    let mut files = Vec::new();
    if let Some(mirror) = &facts.mirror {
        let folder = md(&mirror.name);
        files.extend(["array_state", "sync_action", "degraded"].map(|file| folder.join(file)));
        let legs = mirror.durable.iter().chain(&mirror.fast);
        files.extend(legs.map(|leg| folder.join(format!("dev-{}/state", leg.device))));
    }
    if let Some(stripe) = &facts.stripe {
        files.push(md(&stripe.name).join("array_state"));
    }
    files
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::heal::tests::healthy;

    #[test]
    fn a_word_ends_the_sleep_and_time_does() {
        let (mut watch, waker) = Watch::new(Path::new("/")).unwrap();
        waker.another().unwrap().wake();
        let began = Instant::now();
        assert_eq!(watch.sleep(Duration::from_secs(60)).unwrap(), Woken::Look);
        assert!(began.elapsed() < Duration::from_secs(30));
        watch.sleep(Duration::from_millis(1)).unwrap();
    }

    #[test]
    fn both_arrays_and_both_legs_are_watched() {
        let names: Vec<String> = files(Path::new("/"), &healthy())
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(
            names,
            [
                "/sys/block/md101/md/array_state",
                "/sys/block/md101/md/sync_action",
                "/sys/block/md101/md/degraded",
                "/sys/block/md101/md/dev-sdb/state",
                "/sys/block/md101/md/dev-md100/state",
                "/sys/block/md100/md/array_state",
            ]
        );
    }
}
