//! The whole engine against the naive reference: operations one by one and many together, reads,
//! evictions, a store that fails, loses answers and writes late, flushes, stops and crashes, in random
//! order on a paused clock.
//!
//! What is held: what was acknowledged is what is read, at any time and after every planned stop; a
//! version is never handed out twice and never goes back, whatever crashed; after a crash a user is as
//! it was at some time before.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use futures::future::{BoxFuture, FutureExt, join_all};
use parking_lot::Mutex;
use proptest::prelude::*;
use rand::{Rng as _, SeedableRng, rngs::StdRng};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

use super::*;
use crate::{
    block::reference::{NaiveUser, operation},
    store::{MemoryStore, StoreError, Stored},
};

/// Few users with few channels in less room than they need, so that they push each other out.
const USERS: u64 = 8;
const CHANNELS: std::ops::Range<u64> = 1..5;
const CAPACITY: u64 = 10;
const INTERVAL: Duration = Duration::from_secs(30);
/// After this no write of a dead process is under way.
const SETTLED: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
enum Step {
    /// Asked at once, each by a client of its own.
    Together(Vec<(u64, Vec<Operation>)>),
    /// Asked in one call.
    Many(Vec<(u64, Operation)>, Touch),
    Read(u64),
    Store(Mood),
    Wait(Duration),
    Flush,
    Capacity(u64),
    /// A planned stop, and a new process.
    Restart,
    /// The process dies, and a new one starts.
    Crash,
}

#[derive(Debug, Clone, Copy)]
enum Mood {
    Healthy,
    /// Loads take longer than any caller waits.
    Slow,
    LoadsFail,
    SavesFail,
    /// Writes arrive, some of them late, and their answers are lost.
    SavesUnanswered,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let user = || 1..=USERS;
    let change = || (user(), proptest::collection::vec(operation(), 1..4));
    let touch = prop_oneof![Just(Touch::Online), Just(Touch::Mention)];
    let mood = prop_oneof![
        3 => Just(Mood::Healthy),
        1 => Just(Mood::Slow),
        1 => Just(Mood::LoadsFail),
        1 => Just(Mood::SavesFail),
        1 => Just(Mood::SavesUnanswered),
    ];
    let step = prop_oneof![
        8 => proptest::collection::vec(change(), 1..10).prop_map(Step::Together),
        4 => (proptest::collection::vec((user(), operation()), 1..30), touch)
            .prop_map(|(operations, touch)| Step::Many(operations, touch)),
        3 => user().prop_map(Step::Read),
        4 => mood.prop_map(Step::Store),
        4 => (1_u64..40_000).prop_map(|millis| Step::Wait(Duration::from_millis(millis))),
        2 => Just(Step::Flush),
        1 => (1_u64..20).prop_map(Step::Capacity),
        1 => Just(Step::Restart),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..40)
}

/// A store with moods, whose writes may arrive long after their caller has gone.
#[derive(Debug)]
struct MoodyStore {
    inner: Arc<MemoryStore>,
    mood: AtomicU8,
    dice: Mutex<StdRng>,
}

impl MoodyStore {
    fn is(&self, mood: Mood) -> bool {
        self.mood.load(Ordering::SeqCst) == mood as u8
    }

    fn up_to(&self, most: Duration) -> Duration {
        most.mul_f64(self.dice.lock().random())
    }
}

impl Store for MoodyStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            let most = Duration::from_millis(if self.is(Mood::Slow) { 8000 } else { 50 });
            tokio::time::sleep(self.up_to(most)).await;
            if self.is(Mood::LoadsFail) {
                return Err(StoreError::new("load a block", "not now"));
            }
            self.inner.load(user).await
        }
        .boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if self.is(Mood::SavesFail) {
                return Err(StoreError::new("write a block", "not now"));
            }
            let unanswered = self.is(Mood::SavesUnanswered);
            let most = Duration::from_millis(if unanswered { 30_000 } else { 50 });
            let (inner, delay) = (Arc::clone(&self.inner), self.up_to(most));
            // Goes on when the caller dies or gives up.
            let arrives = tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                inner.save(user, bytes, stamp).await
            });
            if unanswered {
                tokio::time::sleep(Duration::from_secs(5)).await;
                return Err(StoreError::new("write a block", "no answer"));
            }
            arrives
                .await
                .map_err(|error| StoreError::new("write a block", error))?
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

/// What a user should be, and was.
#[derive(Debug, Default)]
struct Expected {
    now: NaiveUser,
    /// It changed since its version was seen.
    changed: bool,
    /// A crash took changes away, and no other has come since: its version is an old one.
    lost: bool,
    /// The version seen last: none up to it may be handed out again.
    version: u64,
    /// As it was at each version that was seen.
    past: HashMap<u64, NaiveUser>,
    /// As it was at versions that were never shown.
    unseen: Vec<NaiveUser>,
}

struct World {
    store: Arc<MoodyStore>,
    engine: Arc<Engine>,
    flusher: JoinHandle<()>,
    started_micros: u64,
    users: BTreeMap<u64, Expected>,
}

/// (last message, mention count, flags, last viewed, last pin) of a channel.
type Scalars = (u64, u32, u32, u16, u64);
/// A version, and what each channel was then.
type Seen = (u64, Vec<Option<Scalars>>);

fn start(store: &Arc<MoodyStore>, started_micros: u64) -> (Arc<Engine>, JoinHandle<()>) {
    let process = Process {
        incarnation: started_micros,
        started_micros,
    };
    let store: Arc<dyn Store> = Arc::clone(store) as _;
    Engine::start(process, CAPACITY, INTERVAL, store, Arc::new(Metrics::new()))
}

impl World {
    fn new(seed: u64) -> Self {
        let store = Arc::new(MoodyStore {
            inner: Arc::default(),
            mood: AtomicU8::new(Mood::Healthy as u8),
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
        });
        let started_micros = 1 << 50;
        let (engine, flusher) = start(&store, started_micros);
        let users = (1..=USERS).map(|user| (user, Expected::default()));
        Self {
            store,
            engine,
            flusher,
            started_micros,
            users: users.collect(),
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Together(changes) => self.together(changes).await,
            Step::Many(operations, touch) => self.many(operations, touch).await,
            Step::Read(user) => self.read(user).await,
            Step::Store(mood) => self.store.mood.store(mood as u8, Ordering::SeqCst),
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Flush => drop(self.engine.flush_all().await),
            Step::Capacity(states) => self.engine.set_capacity(states),
            Step::Restart => self.restart().await,
            Step::Crash => self.crash().await,
        }
    }

    async fn together(&mut self, changes: Vec<(u64, Vec<Operation>)>) {
        let asked = changes.iter().map(|(user, operations)| {
            self.engine
                .change(*user, operations, Touch::Online, |block, outcomes| {
                    (block.version(), outcomes.to_vec())
                })
        });
        let answers = join_all(asked).await;
        for ((user, operations), answer) in changes.into_iter().zip(answers) {
            // Refused: nothing changed.
            let Ok((version, outcomes)) = answer else {
                continue;
            };
            let expected = self.users.get_mut(&user).unwrap();
            let applied = operations
                .iter()
                .map(|operation| expected.now.apply(operation));
            assert_eq!(outcomes, applied.collect::<Vec<_>>(), "user {user}");
            expected.changed |= outcomes.contains(&Outcome::Applied);
            expected.saw(version);
        }
    }

    async fn many(&mut self, operations: Vec<(u64, Operation)>, touch: Touch) {
        let outcomes = self.engine.change_many(&operations, touch).await;
        for ((user, operation), outcome) in operations.iter().zip(outcomes) {
            let expected = self.users.get_mut(user).unwrap();
            if let Ok(outcome) = outcome {
                assert_eq!(outcome, expected.now.apply(operation), "user {user}");
                expected.changed |= outcome == Outcome::Applied;
            }
        }
        // What was changed without a look at it is looked at, where that can be.
        for (user, _) in operations {
            self.read(user).await;
            let expected = self.users.get_mut(&user).unwrap();
            expected.unseen.push(expected.now.clone());
        }
    }

    async fn look(&self, user: u64) -> Result<Seen, NotDone> {
        let look = self.engine.read(user, |block| {
            let channels = CHANNELS.map(|channel| {
                block.state(channel).map(|state| {
                    (
                        state.last_message,
                        state.mention_count,
                        state.flags,
                        state.last_viewed,
                        state.last_pin_millis,
                    )
                })
            });
            (block.version(), channels.collect())
        });
        look.await
    }

    async fn read(&mut self, user: u64) {
        let Ok((version, seen)) = self.look(user).await else {
            return;
        };
        let expected = self.users.get_mut(&user).unwrap();
        assert_eq!(seen, channels_of(&expected.now), "user {user}");
        expected.saw(version);
    }

    /// Everything is written, and a new process finds it.
    async fn restart(&mut self) {
        self.step_mood(Mood::Healthy);
        self.engine.seal();
        self.engine.drain().await;
        self.engine.stop();
        (&mut self.flusher).await.unwrap();
        self.next_process();
        for user in 1..=USERS {
            self.read(user).await;
        }
    }

    async fn crash(&mut self) {
        self.step_mood(Mood::Healthy);
        // Before it dies the versions that were handed out are known.
        for user in 1..=USERS {
            self.read(user).await;
        }
        self.flusher.abort();
        let _ = (&mut self.flusher).await;
        tokio::time::sleep(SETTLED).await;
        self.next_process();
        for user in 1..=USERS {
            let (version, seen) = self.look(user).await.unwrap();
            let expected = self.users.get_mut(&user).unwrap();
            let never = NaiveUser::default();
            let seen_then = expected.past.get(&version);
            let mut candidates = seen_then.into_iter().chain(&expected.unseen);
            let before = match version {
                0 => Some(&never),
                _ => candidates.find(|then| channels_of(then) == seen),
            };
            let before = before.expect("a user is as it was at some time").clone();
            assert_eq!(seen, channels_of(&before), "user {user} after a crash");
            expected.now = before;
            expected.lost = version < expected.version;
        }
    }

    fn step_mood(&self, mood: Mood) {
        self.store.mood.store(mood as u8, Ordering::SeqCst);
    }

    fn next_process(&mut self) {
        // Ten seconds later.
        self.started_micros += 10_000_000;
        (self.engine, self.flusher) = start(&self.store, self.started_micros);
    }
}

impl Expected {
    /// A version was seen, of the user as it is now.
    fn saw(&mut self, version: u64) {
        if self.changed {
            assert!(version > self.version, "{version} after {}", self.version);
            self.past.insert(version, self.now.clone());
            (self.version, self.changed, self.lost) = (version, false, false);
        } else if !self.lost || version > self.version {
            // A process may put a block that it took over under a version of its own.
            assert!(version >= self.version, "{version} after {}", self.version);
            self.past.insert(version, self.now.clone());
            (self.version, self.lost) = (version, false);
        }
    }
}

fn channels_of(user: &NaiveUser) -> Vec<Option<Scalars>> {
    CHANNELS.map(|channel| user.seen(channel)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_that_was_acknowledged_is_lost_and_no_version_comes_twice(
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed);
            for step in steps {
                world.step(step).await;
            }
            world.restart().await;
            world.restart().await;
        });
    }
}
