//! Stop signal for threads that pause between rounds; it ends their pause.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

/// Lets SIGTERM end a program that has nothing to end in order. The first process of a container is not ended by it
/// otherwise.
///
/// # Errors
/// When the signal cannot be waited for.
pub fn end_on_sigterm() -> io::Result<()> {
    const STATUS: i32 = 128 + signal_hook::consts::SIGTERM;
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGTERM, STATUS, always)?;
    Ok(())
}

/// Shared by the thread that requests the stop and those that wait for it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    inner: Arc<(Mutex<bool>, Condvar)>,
}

impl Stop {
    /// Says it, to all, for good.
    pub fn say(&self) {
        let (said, changed) = &*self.inner;
        *said.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether it was said.
    #[must_use]
    pub fn said(&self) -> bool {
        self.pause(Duration::ZERO)
    }

    /// Waits that long, or until it is said; whether it was.
    #[must_use]
    pub fn pause(&self, at_most: Duration) -> bool {
        let (said, changed) = &*self.inner;
        let guard = said.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _) = changed
            .wait_timeout_while(guard, at_most, |said| !*said)
            .unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;

    #[test]
    fn a_pause_ends_when_stop_is_said() {
        let stop = Stop::default();
        assert!(!stop.said());
        let other = stop.clone();
        let began = Instant::now();
        let waiting = thread::spawn(move || other.pause(Duration::from_secs(60)));
        stop.say();
        assert!(waiting.join().unwrap());
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
