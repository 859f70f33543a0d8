//! Members that serve while their table moves: nothing that they acknowledged is missing on the target.

use std::{sync::Arc, time::Duration};

use readstates_ring::Stamp;

use super::{MigrateWorld, Shaky, Steps, memory, rows};
use crate::{
    block::{BlockRef, Operation, Visit},
    cache::{Process, Touch},
    engine::Engine,
    metrics::Metrics,
    store::{MemoryStore, MovingStore, Store},
};

const USERS: u64 = 600;

struct Member {
    engine: Arc<Engine>,
    flusher: tokio::task::JoinHandle<()>,
}

/// A member that starts at this second of a day.
fn member(store: Arc<dyn Store>, second: u64) -> Member {
    let process = Process {
        incarnation: second,
        started_micros: 1_790_000_000_000_000 + second * 1_000_000,
    };
    let interval = Duration::from_secs(30);
    let metrics = Arc::new(Metrics::new());
    let (engine, flusher) = Engine::start(process, 1_000_000, interval, store, metrics);
    Member { engine, flusher }
}

impl Member {
    async fn ack(&self, user: u64, message: u64) {
        let operations = [Operation::Ack {
            channel: 10,
            message,
            visit: Visit::default(),
        }];
        let nothing = |_: BlockRef<'_>, _: &[_]| ();
        let done = self
            .engine
            .change(user, &operations, Touch::Online, nothing);
        done.await.unwrap();
    }

    async fn last(&self, user: u64) -> u64 {
        let last = |block: BlockRef<'_>| block.state(10).map_or(0, |state| state.last_message);
        self.engine.read(user, last).await.unwrap()
    }

    async fn stop(self) {
        self.engine.seal();
        self.engine.drain().await;
        self.engine.stop();
        self.flusher.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_pause_the_target_has_every_acknowledged_change() {
    let world = MigrateWorld::new();
    let (source, target) = (memory(), memory());
    let before = member(source.clone(), 0);
    for user in 1..=USERS {
        before.ack(user, 1000 + user).await;
    }
    before.stop().await;

    let both = || Arc::new(MovingStore::new(source.clone(), target.clone()));
    let moving = member(both(), 100);
    for user in (1..=USERS).step_by(3) {
        moving.ack(user, 2000 + user).await;
    }
    moving.engine.flush_all().await;
    for user in (1..=USERS).step_by(7) {
        moving.ack(user, 3000 + user).await;
    }
    world.copy(&source, &target).await.unwrap();
    world.verify(&source, &target).await.unwrap();
    // After the last pass, too.
    for user in (USERS - 50)..=USERS + 50 {
        moving.ack(user, 4000 + user).await;
    }
    moving.stop().await;
    assert_eq!(rows(&*target).await, rows(&*source).await);

    let after = member(target.clone(), 200);
    for user in 1..=USERS + 50 {
        let expected = match user {
            user if user >= USERS - 50 => 4000 + user,
            user if user % 7 == 1 => 3000 + user,
            user if user % 3 == 1 => 2000 + user,
            user => 1000 + user,
        };
        assert_eq!(after.last(user).await, expected, "user {user}");
    }
    after.stop().await;
}

#[tokio::test]
async fn the_source_never_has_what_a_target_that_fails_lacks() {
    let (source, target) = (memory(), Shaky::on(&Steps::left(usize::MAX)));
    let both = MovingStore::new(source.clone(), Arc::clone(&target) as Arc<dyn Store>);
    target.failing.store(1, std::sync::atomic::Ordering::SeqCst);
    let stamp = Stamp::from_database(5);
    let failed = both.save(1, b"one".to_vec(), stamp).await.unwrap_err();
    assert!(
        crate::store::chain(&failed).contains("--moving-to"),
        "{failed}"
    );
    assert_eq!(source.load(1).await.unwrap(), None);
    both.save(1, b"one".to_vec(), stamp).await.unwrap();
    for store in [&*source as &MemoryStore, &target.inner] {
        assert!(store.load(1).await.unwrap().is_some());
    }
}
