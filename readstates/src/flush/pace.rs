//! How many writes may be under way: as many as the database takes without slowing down.
//!
//! Pure: comes in how writes ended, goes out a limit. Writes are looked at in windows. A window in
//! which any failed halves the limit; one that was slower than [`TOLERANCE`] times the database's
//! usual time shrinks it in that proportion; one that was neither, and in which the limit held writes
//! back, lets it grow by its square root (as the gradient limiters of Netflix's concurrency-limits do).
//! The usual time is what a write takes when few are under way: that is measured again now and then,
//! because a database that is always busy would otherwise pass for one that is slow by nature.

use std::time::{Duration, Instant};

/// The limit per database shard: its start, and its bounds.
const START: usize = 32;
const FLOOR: usize = 4;
const CEILING: usize = 128;
/// How much more may be under way when it is urgent: then throughput is worth latency.
const URGENT_FACTOR: usize = 2;

/// A window is this many writes, and as many as the limit, so that one slow write decides nothing.
const LEAST_WINDOW: usize = 16;
/// And it lasts this long: between two decisions their effect must show.
const WINDOW_TIME: Duration = Duration::from_millis(50);
/// Slower than this many times the usual is too slow.
const TOLERANCE: f64 = 2.0;
/// Differences below this are noise on any database.
const NOISE: Duration = Duration::from_millis(1);
/// After this many windows the usual time is measured again, at a quarter of the limit: ten seconds or
/// more, so that it costs little.
const REMEASURE_AFTER: u32 = 128;
const MEASURING_FRACTION: f64 = 0.25;

/// How pressing it is to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// What is due is written in its time.
    Calm,
    /// Memory is near its bound, or a caller waits for everything to be written.
    Urgent,
}

/// The limit, and what it follows from.
#[derive(Debug)]
pub struct Pace {
    shards: usize,
    limit: f64,
    /// Seconds that a write usually takes; `None` before the first window.
    usual: Option<f64>,
    /// Writes failed in the last window.
    failing: bool,
    phase: Phase,
    window: Window,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The limit applies; this many windows since the usual time was measured.
    Steady(u32),
    /// A fraction of the limit applies; writes begun before that still end.
    Settling,
    /// A fraction of the limit applies, and what writes take is the usual time.
    Measuring,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    succeeded: usize,
    failed: usize,
    /// Seconds of all that succeeded.
    seconds: f64,
    /// The limit was reached.
    held_back: bool,
}

impl Window {
    fn new(since: Instant) -> Self {
        Self {
            since,
            succeeded: 0,
            failed: 0,
            seconds: 0.0,
            held_back: false,
        }
    }
}

impl Pace {
    /// The pace for a database of this many shards.
    #[must_use]
    pub fn new(shards: usize, now: Instant) -> Self {
        let shards = shards.max(1);
        Self {
            shards,
            limit: (START * shards) as f64,
            usual: None,
            failing: false,
            phase: Phase::Steady(0),
            window: Window::new(now),
        }
    }

    /// The database has this many shards by now.
    pub fn shards(&mut self, shards: usize) {
        let shards = shards.max(1);
        if shards != self.shards {
            self.limit *= shards as f64 / self.shards as f64;
            self.shards = shards;
        }
    }

    /// How many writes may be under way.
    #[must_use]
    pub fn limit(&self, urgency: Urgency) -> usize {
        let fraction = match self.phase {
            Phase::Steady(_) => 1.0,
            Phase::Settling | Phase::Measuring => MEASURING_FRACTION,
        };
        // Below the ceiling of some shards: no number that a usize does not hold.
        let limit = ((self.limit * fraction) as usize).max(FLOOR);
        match urgency {
            Urgency::Calm => limit,
            // A limit that shrank because the database is busy with loads must not fill the memory:
            // then it is for the loads to wait. One that shrank because writes fail stays low.
            Urgency::Urgent if !self.failing => (limit * URGENT_FACTOR).max(START * self.shards),
            Urgency::Urgent => limit * URGENT_FACTOR,
        }
    }

    /// How many places there are at most when nothing is urgent.
    #[must_use]
    pub fn ceiling(&self) -> usize {
        CEILING * self.shards
    }

    /// What a write usually takes; nothing before that is known.
    #[must_use]
    pub fn usual(&self) -> Duration {
        Duration::from_secs_f64(self.usual.unwrap_or_default())
    }

    /// Notes that more would have been written had the limit been higher.
    pub fn held_back(&mut self) {
        self.window.held_back = true;
    }

    /// Books the end of a write and how long it took.
    pub fn ended(&mut self, succeeded: bool, took: Duration, now: Instant) {
        let window = &mut self.window;
        if succeeded {
            window.succeeded += 1;
            window.seconds += took.as_secs_f64();
        } else {
            window.failed += 1;
        }
        let ended = window.succeeded + window.failed;
        let whole = ended >= LEAST_WINDOW.max(self.limit as usize);
        let waited = now.saturating_duration_since(window.since) >= WINDOW_TIME;
        // What fails is heard at once: each of a full window would wait for its time limit.
        if waited && (whole || self.window.failed > 0) {
            self.decide();
            self.window = Window::new(now);
        }
    }

    fn decide(&mut self) {
        let Window {
            since: _,
            succeeded,
            failed,
            seconds,
            held_back,
        } = self.window;
        let mean = (succeeded > 0).then(|| seconds / succeeded as f64);
        self.phase = match (self.phase, mean) {
            (Phase::Steady(windows), _) if windows < REMEASURE_AFTER => Phase::Steady(windows + 1),
            (Phase::Steady(_), _) => Phase::Settling,
            (Phase::Settling, _) => Phase::Measuring,
            (Phase::Measuring, mean) => {
                self.usual = mean.or(self.usual);
                Phase::Steady(0)
            }
        };
        self.failing = failed > 0;
        if self.failing {
            self.limit /= 2.0;
        } else if let (Phase::Steady(1..), Some(mean)) = (self.phase, mean) {
            let usual = self.usual.map_or(mean, |usual| usual.min(mean));
            self.usual = Some(usual);
            let allowed = (usual * TOLERANCE).max(usual + NOISE.as_secs_f64());
            if mean > allowed {
                self.limit *= (allowed / mean).max(0.5);
            } else if held_back {
                self.limit += self.limit.sqrt();
            }
        }
        let (floor, ceiling) = (FLOOR * self.shards, CEILING * self.shards);
        self.limit = self.limit.clamp(floor as f64, ceiling as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database that takes `capacity` writes at once in `best` and queues what is above.
    #[derive(Debug)]
    struct Database {
        pace: Pace,
        now: Instant,
    }

    impl Database {
        fn new(shards: usize) -> Self {
            let now = Instant::now();
            Self {
                pace: Pace::new(shards, now),
                now,
            }
        }

        fn limit(&self) -> usize {
            self.pace.limit(Urgency::Calm)
        }

        /// One window at the limit, each write of which takes so long.
        fn window(&mut self, succeeded: bool, took: Duration) {
            self.pace.held_back();
            self.now += WINDOW_TIME;
            for _ in 0..self.limit().max(LEAST_WINDOW) {
                self.pace.ended(succeeded, took, self.now);
            }
        }

        fn run(&mut self, windows: usize, best: Duration, capacity: usize) {
            for _ in 0..windows {
                let queued = (self.limit() as f64 / capacity as f64).max(1.0);
                self.window(true, best.mul_f64(queued));
            }
        }
    }

    const FAST: Duration = Duration::from_millis(2);

    #[test]
    fn it_starts_with_32_for_each_shard_and_doubles_when_it_is_urgent() {
        for shards in [1, 3, 48] {
            let database = Database::new(shards);
            assert_eq!(database.limit(), 32 * shards);
            assert_eq!(database.pace.limit(Urgency::Urgent), 64 * shards);
        }
        assert_eq!(
            Database::new(0).limit(),
            32,
            "no shard is known: there is one"
        );
    }

    #[test]
    fn a_database_that_keeps_up_gets_more_up_to_the_ceiling() {
        let mut database = Database::new(2);
        database.run(100, FAST, usize::MAX);
        assert_eq!(database.limit(), CEILING * 2);
        // That the usual time is measured now and then changes nothing of it.
        database.run(1000, FAST, usize::MAX);
        assert_eq!(database.pace.limit, (CEILING * 2) as f64);
    }

    #[test]
    fn nothing_grows_while_the_limit_holds_nobody_back() {
        let mut database = Database::new(1);
        for _ in 0..10_000 {
            database.now += Duration::from_millis(1);
            database.pace.ended(true, FAST, database.now);
        }
        assert_eq!(database.limit(), START);
    }

    #[test]
    fn it_settles_where_the_database_begins_to_queue() {
        let mut database = Database::new(1);
        database.run(300, FAST, 40);
        let settled = database.limit();
        assert!(
            (40..=110).contains(&settled),
            "{settled} for a capacity of 40"
        );
    }

    #[test]
    fn a_database_that_becomes_slow_gets_less_and_is_believed_when_it_stays_so() {
        let mut database = Database::new(1);
        database.run(50, FAST, usize::MAX);
        assert_eq!(database.limit(), CEILING);
        database.run(5, FAST * 10, usize::MAX);
        assert!(database.limit() <= CEILING / 16, "{}", database.limit());
        database.run(400, FAST * 10, usize::MAX);
        assert_eq!(
            database.limit(),
            CEILING,
            "ten times slower is the new usual"
        );
    }

    #[test]
    fn failures_halve_it_down_to_the_floor_and_it_recovers() {
        let mut database = Database::new(1);
        database.window(true, FAST);
        let before = database.limit();
        database.now += WINDOW_TIME;
        database.pace.ended(false, FAST, database.now);
        assert_eq!(database.limit(), before / 2, "one failure is enough");
        for _ in 0..20 {
            database.window(false, FAST);
        }
        assert_eq!(database.limit(), FLOOR);
        database.run(60, FAST, usize::MAX);
        assert!(database.limit() > START);
    }

    #[test]
    fn when_it_is_urgent_a_busy_database_gets_as_many_as_at_the_start_and_a_failing_one_does_not() {
        let mut database = Database::new(1);
        database.run(5, FAST, usize::MAX);
        database.run(20, FAST * 50, usize::MAX);
        assert_eq!(database.limit(), FLOOR);
        assert_eq!(database.pace.limit(Urgency::Urgent), START);
        database.window(false, FAST);
        assert_eq!(database.pace.limit(Urgency::Urgent), FLOOR * URGENT_FACTOR);
    }

    #[test]
    fn shards_that_come_and_go_scale_it() {
        let mut database = Database::new(1);
        database.pace.shards(48);
        assert_eq!(database.limit(), 32 * 48);
        database.pace.shards(0);
        assert_eq!(database.limit(), 32);
    }
}
