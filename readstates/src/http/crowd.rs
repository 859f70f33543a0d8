//! A limit on unauthenticated connections: at the limit a new one pushes the oldest out.
//!
//! Refusing the newest would let an attacker with enough silent connections keep all others out for as
//! long as a connection may stay silent. A connection that is served within milliseconds is never the oldest.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Unauthenticated connections, and how many there may be at once.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    /// The oldest first. A sender that is dropped tells its connection to leave.
    inside: Mutex<VecDeque<(u64, oneshot::Sender<()>)>>,
    next: AtomicU64,
    pushed_out: AtomicU64,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    leave: oneshot::Receiver<()>,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            inside: Mutex::default(),
            next: AtomicU64::new(0),
            pushed_out: AtomicU64::new(0),
        })
    }

    /// Lets a connection in; at the limit the oldest leaves.
    pub(super) fn enter(self: &Arc<Self>) -> Place {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (stay, leave) = oneshot::channel();
        let mut inside = self.inside.lock();
        if inside.len() >= self.most {
            inside.pop_front();
            self.pushed_out.fetch_add(1, Ordering::Relaxed);
        }
        inside.push_back((number, stay));
        drop(inside);
        Place {
            crowd: Arc::clone(self),
            number,
            leave,
        }
    }

    /// How many connections were pushed out.
    pub(super) fn pushed_out(&self) -> u64 {
        self.pushed_out.load(Ordering::Relaxed)
    }
}

impl Place {
    /// Waits until another connection needs the place.
    pub(super) async fn pushed_out(&mut self) {
        // Nothing is ever sent: the sender goes when the place does.
        let _ = (&mut self.leave).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.crowd.inside.lock();
        // Numbers grow from front to back, or nearly: two that come at once may be in either order.
        if let Some(at) = inside.iter().position(|(number, _)| *number == self.number) {
            inside.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_too_many_makes_the_oldest_leave_and_whoever_left_makes_room() {
        let crowd = Crowd::new(2);
        let (mut first, mut second) = (crowd.enter(), crowd.enter());
        assert!(first.pushed_out().now_or_never().is_none());
        let third = crowd.enter();
        first.pushed_out().await;
        drop(first);
        drop(third);
        let mut fourth = crowd.enter();
        assert!(second.pushed_out().now_or_never().is_none());
        assert!(fourth.pushed_out().now_or_never().is_none());
        assert_eq!(crowd.pushed_out(), 1);
    }
}
