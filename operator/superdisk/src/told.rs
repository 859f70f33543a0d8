//! Progress messages of commands that take long: a read from a disk that does not answer cannot be cancelled.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::stop::Stop;

/// How long a command may take without a word.
const SILENCE: Duration = Duration::from_secs(30);

/// Does a command's work, and says every half minute that it is not done.
pub fn told<R>(say: fn(&str), work: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let word = || {
        let seconds = begun.elapsed().as_secs();
        say(&format!(
            "not done after {seconds} s: a disk does not answer, or much is copied, written or watched"
        ));
    };
    while_said(SILENCE, &word, work)
}

/// Does `work`, and lets `word` be said this often while it does.
pub(crate) fn while_said<R>(
    every: Duration,
    word: &(dyn Fn() + Sync),
    work: impl FnOnce() -> R,
) -> R {
    let end = End(Stop::default());
    thread::scope(|scope| {
        let stop = end.0.clone();
        scope.spawn(move || {
            while !stop.pause(every) {
                word();
            }
        });
        // However the work ends.
        let _end = end;
        work()
    })
}

struct End(Stop);

impl Drop for End {
    fn drop(&mut self) {
        self.0.say();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        mpsc::{self, Sender},
    };

    use super::*;

    #[test]
    fn a_word_is_said_again_and_again_until_the_work_ends() {
        let (said, hears) = mpsc::channel();
        let said: Mutex<Sender<()>> = Mutex::new(said);
        let word = || said.lock().unwrap().send(()).unwrap();
        let done = while_said(Duration::from_millis(1), &word, || {
            hears.recv().unwrap();
            hears.recv().unwrap();
            7
        });
        assert_eq!(done, 7);
    }

    #[test]
    fn what_is_done_at_once_ends_at_once() {
        assert_eq!(told(|_| (), || 7), 7);
    }
}
