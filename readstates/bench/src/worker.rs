//! One thread of the generator: an event loop over its connections.
//!
//! A request that is due is sent on the connection that has been free for longest. When none is free it
//! waits, and its latency counts from the time it was due. The loop sleeps in the kernel until the next request is
//! due or an answer comes, to the nanosecond: a timer that ticks in milliseconds, as runtimes have, would
//! add up to a millisecond to every latency.

use std::{
    collections::VecDeque,
    io,
    num::NonZeroU64,
    os::fd::OwnedFd,
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventFlags},
    },
    time::{ClockId, clock_gettime},
};

use crate::{
    answer::{Answer, Failure},
    connection::{Connection, Ended, InFlight, Route},
    operation::Operation,
    schedule::{Nanos, Next, SECOND, Schedule},
    source::Source,
    windows::{Window, Windows, histogram},
};

/// What has no event of its own (time-outs, lost connections, finished windows) is looked after this often.
const SWEEP: Nanos = SECOND / 20;
/// A connection that was lost or refused is tried again after this long.
const RECONNECT_AFTER: Nanos = SECOND / 5;
/// A connection rests this long after a refusal of what must be sent until it succeeds.
const REST: Nanos = SECOND / 50;
/// Longest: without an operation that succeeds, filling and settling ends.
const PATIENCE: Nanos = 30 * SECOND;
const EVENTS: usize = 256;

/// What a thread is to do.
pub(crate) struct Task {
    /// Where its connections go, one each.
    pub(crate) routes: Vec<Route>,
    /// Requests on a connection at once.
    pub(crate) depth: usize,
    /// When requests are due.
    pub(crate) schedule: Schedule,
    /// What is due before this is not booked.
    pub(crate) warmup: Nanos,
    /// How long a request may take.
    pub(crate) timeout: Nanos,
    /// Whether what fails is sent until it succeeds.
    pub(crate) insist: bool,
    /// The operations.
    pub(crate) source: Box<dyn Source>,
    /// Where finished windows go.
    pub(crate) windows: Sender<(usize, Window)>,
    /// The thread's number.
    pub(crate) thread: usize,
}

/// How a thread fared.
pub(crate) struct Done {
    /// Its source, with what it remembers.
    pub(crate) source: Box<dyn Source>,
    /// Nanoseconds by which requests left late though a connection was free: the generator's own fault.
    pub(crate) late: Histogram<u64>,
    /// Requests that waited for a free connection.
    pub(crate) waited: u64,
    /// Connections that were lost or not made.
    pub(crate) reconnects: u64,
    /// Processor time.
    pub(crate) busy: Duration,
    /// Time.
    pub(crate) took: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    connection: usize,
    since: Nanos,
}

pub(crate) struct Worker {
    task: Task,
    start: Instant,
    epoll: OwnedFd,
    events: Vec<Event>,
    connections: Vec<Connection>,
    idle: VecDeque<Slot>,
    resting: VecDeque<Slot>,
    windows: Windows,
    ended: Vec<Ended>,
    unflushed: Vec<usize>,
    spare_operations: Vec<Vec<Operation>>,
    spare_answers: Vec<Vec<Answer>>,
    in_flight: usize,
    next_sweep: Nanos,
    last_success: Nanos,
    exhausted: bool,
    late: Histogram<u64>,
    waited: u64,
    reconnects: u64,
}

impl Worker {
    /// Does the task; `start` is the moment 0 of its schedule.
    pub(crate) fn run(task: Task, start: Instant) -> io::Result<Done> {
        let connections: Vec<_> = task
            .routes
            .iter()
            .cloned()
            .enumerate()
            .map(|(index, route)| Connection::new(index, route))
            .collect();
        let mut worker = Self {
            windows: Windows::new(task.warmup),
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
            idle: VecDeque::with_capacity(connections.len() * task.depth),
            resting: VecDeque::new(),
            ended: Vec::new(),
            unflushed: Vec::new(),
            spare_operations: Vec::new(),
            spare_answers: Vec::new(),
            in_flight: 0,
            next_sweep: 0,
            last_success: 0,
            exhausted: false,
            late: histogram(),
            waited: 0,
            reconnects: 0,
            start,
            connections,
            task,
        };
        // The kernel's default lets timers of ordinary threads slip by 50 µs.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        worker.work()?;
        Ok(worker.done())
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    fn work(&mut self) -> io::Result<()> {
        while !self.is_over() {
            let now = self.now();
            if now >= self.next_sweep {
                self.next_sweep = now + SWEEP;
                self.sweep(now);
            }
            while let Some(slot) = self.resting.pop_front_if(|slot| slot.since <= now) {
                self.idle.push_back(slot);
            }
            self.send_what_is_due();
            self.flush();
            self.wait()?;
            self.settle();
        }
        Ok(())
    }

    fn sweep(&mut self, now: Nanos) {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            let since = connection.waiting_since();
            if since.is_some_and(|since| now.saturating_sub(since) > self.task.timeout) {
                self.lose(index, Failure::Timeout);
            } else if connection.wants_to_connect(now)
                && connection.connect(&self.epoll, now).is_err()
            {
                self.lose(index, Failure::ConnectionLost);
            }
        }
        let until = match self.task.schedule.next(now) {
            Next::Due(at) | Next::At(at) => at.min(now),
            Next::Over => self.task.schedule.end(),
        };
        for window in self.windows.close(until) {
            // The receiver may have gone.
            let _ = self.task.windows.send((self.task.thread, window));
        }
    }

    fn send_what_is_due(&mut self) {
        while let Some(slot) = self.idle.front().copied() {
            let now = self.now();
            let (due, scheduled) = match self.due(now) {
                _ if self.exhausted => return,
                Next::Due(due) => (due, true),
                // What is owed is sent after the end too.
                Next::Over if self.task.source.owes() => (now, false),
                Next::At(_) | Next::Over => return,
            };
            let Some(request) = self.draw(due, now, scheduled) else {
                return;
            };
            self.idle.pop_front();
            if scheduled && due >= self.task.warmup {
                if slot.since > due {
                    self.waited += 1;
                } else {
                    self.late.saturating_record(now - due);
                }
            }
            self.connections[slot.connection].queue(request);
            self.unflushed.push(slot.connection);
        }
    }

    /// What the schedule says, except that nothing is sent when the run has been over for longer than a request
    /// may take.
    fn due(&self, now: Nanos) -> Next {
        let end = self.task.schedule.end();
        if now > end.saturating_add(self.task.timeout) {
            return Next::Over;
        }
        self.task.schedule.next(now)
    }

    /// The next request of the source, booked as in flight.
    fn draw(&mut self, due: Nanos, now: Nanos, scheduled: bool) -> Option<InFlight> {
        let mut operations = self.spare_operations.pop().unwrap_or_default();
        if !self.task.source.next(&mut operations) {
            self.exhausted = true;
            return None;
        }
        if scheduled {
            self.task.schedule.take();
            self.windows.begin(due);
        }
        self.in_flight += 1;
        Some(InFlight {
            due,
            sent: now,
            booked: scheduled,
            operations,
        })
    }

    fn flush(&mut self) {
        while let Some(index) = self.unflushed.pop() {
            if let Err(failure) = self.connections[index].flush() {
                self.lose(index, failure);
            }
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        let now = self.now();
        let next = match self.due(now) {
            Next::Due(at) | Next::At(at) if !self.idle.is_empty() && !self.exhausted => at,
            Next::Due(_) | Next::At(_) | Next::Over => Nanos::MAX,
        };
        let rested = self.resting.front().map_or(Nanos::MAX, |slot| slot.since);
        let until = next.min(rested).min(self.next_sweep);
        let wait = Duration::from_nanos(until.saturating_sub(now));
        let timeout = Timespec {
            tv_sec: wait.as_secs().cast_signed(),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let (flags, index) = (event.flags, event.data.u64() as usize);
            self.hear(index, flags);
        }
        self.events = events;
        Ok(())
    }

    fn hear(&mut self, index: usize, flags: EventFlags) {
        let connection = &mut self.connections[index];
        if !connection.is_up() {
            match connection.connected() {
                Ok(true) => {
                    let since = self.start.elapsed().as_nanos() as Nanos;
                    let slot = Slot {
                        connection: index,
                        since,
                    };
                    self.idle.extend(std::iter::repeat_n(slot, self.task.depth));
                }
                Ok(false) => {}
                Err(_) => self.lose(index, Failure::ConnectionLost),
            }
            return;
        }
        let over = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        let hangup = flags.intersects(over);
        let received = connection
            .receive(hangup, &mut self.spare_answers, &mut self.ended)
            .and_then(|()| connection.flush());
        if let Err(failure) = received {
            self.lose(index, failure);
        }
    }

    /// Ends a connection and what is in flight on it.
    fn lose(&mut self, index: usize, failure: Failure) {
        let retry_at = self.now() + RECONNECT_AFTER;
        self.reconnects += 1;
        self.connections[index].give_up(failure, retry_at, &mut self.ended);
        self.idle.retain(|slot| slot.connection != index);
        self.resting.retain(|slot| slot.connection != index);
    }

    /// Books the requests that have ended, and frees their slots.
    fn settle(&mut self) {
        let mut all = std::mem::take(&mut self.ended);
        for ended in all.drain(..) {
            let Ended {
                connection,
                request,
                mut answers,
            } = ended;
            let InFlight {
                due,
                sent: _,
                booked,
                mut operations,
            } = request;
            let now = self.now();
            self.in_flight -= 1;
            if booked {
                self.windows.end(due, now - due, &answers);
            }
            self.task.source.answered(&operations, &answers);
            if self.task.source.owes() {
                self.exhausted = false;
            }
            let failed = |answer: &Answer| matches!(answer, Answer::Failed(_));
            if !answers.iter().all(failed) {
                self.last_success = now;
            }
            // One that was lost gets new slots when it is back.
            if self.connections[connection].is_up() {
                let rests = self.task.insist && answers.iter().any(failed);
                let since = if rests { now + REST } else { now };
                let slots = if rests {
                    &mut self.resting
                } else {
                    &mut self.idle
                };
                slots.push_back(Slot { connection, since });
            }
            operations.clear();
            answers.clear();
            self.spare_operations.push(operations);
            self.spare_answers.push(answers);
        }
        self.ended = all;
    }

    fn is_over(&self) -> bool {
        let now = self.now();
        let end = self.task.schedule.end();
        let nothing_due = self.exhausted || self.due(now) == Next::Over;
        if nothing_due && self.in_flight == 0 && !self.task.source.owes() {
            return true;
        }
        if self.task.insist {
            // Without an end it ends when there is nothing left to send, or no success.
            let stalled = now.saturating_sub(self.last_success) > PATIENCE;
            return stalled && (nothing_due || end == Nanos::MAX);
        }
        now > end.saturating_add(self.task.timeout)
    }

    /// What has no answer is booked with the time that it has waited so far, and so is what was due and never sent.
    fn done(mut self) -> Done {
        for connection in &mut self.connections {
            connection.give_up(Failure::Timeout, Nanos::MAX, &mut self.ended);
        }
        self.settle();
        let now = self.now();
        let end = self.task.schedule.end();
        while self.task.schedule.is_planned()
            && let Next::Due(due) = self.task.schedule.next(now.min(end))
        {
            let Some(request) = self.draw(due, now, true) else {
                break;
            };
            let answers = vec![Answer::Failed(Failure::Unsent); request.operations.len()];
            let connection = 0;
            self.ended.push(Ended {
                connection,
                request,
                answers,
            });
            self.settle();
        }
        let busy = clock_gettime(ClockId::ThreadCPUTime);
        let thread = self.task.thread;
        for window in self.windows.finish(now.min(end)) {
            let _ = self.task.windows.send((thread, window));
        }
        Done {
            source: self.task.source,
            late: self.late,
            waited: self.waited,
            reconnects: self.reconnects,
            busy: Duration::new(
                busy.tv_sec.cast_unsigned(),
                u32::try_from(busy.tv_nsec).unwrap_or(0),
            ),
            took: self.start.elapsed(),
        }
    }
}
