//! An engine without a server, on the runtime's clock: a test that pauses it runs ten minutes at once.

use std::{sync::Arc, time::Duration};

use readstates::{
    block::{BlockRef, Operation, Outcome, Visit},
    cache::{Flushing, Process, Touch},
    engine::{Engine, NotDone},
    metrics::Metrics,
    store::Store,
};
use tokio::task::JoinHandle;

pub struct World {
    pub engine: Arc<Engine>,
    pub metrics: Arc<Metrics>,
    flusher: JoinHandle<()>,
}

pub const INTERVAL: Duration = Duration::from_secs(30);
pub const CAPACITY: u64 = 1_000_000;

/// An engine that writes each user when [`INTERVAL`] is over.
pub fn start(store: Arc<dyn Store>, capacity: u64) -> World {
    start_with(store, capacity, INTERVAL.into())
}

pub fn start_with(store: Arc<dyn Store>, capacity: u64, flushing: Flushing) -> World {
    let metrics = Arc::new(Metrics::new());
    let process = Process {
        incarnation: rand::random(),
        started_micros: u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap(),
    };
    let (engine, flusher) = Engine::start(process, capacity, flushing, store, Arc::clone(&metrics));
    World {
        engine,
        metrics,
        flusher,
    }
}

impl World {
    /// Sets the last message, in either direction: what is left tells which came last.
    pub async fn manual(&self, user: u64, channel: u64, message: u64) -> Result<Outcome, NotDone> {
        self.one(user, manual(channel, message), Touch::Online)
            .await
    }

    pub async fn mention(&self, user: u64, message: u64) -> Result<Outcome, NotDone> {
        self.one(user, mention(message), Touch::Mention).await
    }

    pub async fn one(
        &self,
        user: u64,
        operation: Operation,
        touch: Touch,
    ) -> Result<Outcome, NotDone> {
        let first = |_: BlockRef<'_>, outcomes: &[Outcome]| outcomes[0];
        self.engine.change(user, &[operation], touch, first).await
    }

    /// The last message of a channel; 0 when there is none.
    pub async fn last(&self, user: u64, channel: u64) -> Result<u64, NotDone> {
        let view =
            move |block: BlockRef<'_>| block.state(channel).map_or(0, |state| state.last_message);
        self.engine.read(user, view).await
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.render(&self.engine.totals(), 0, true);
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.split(' ').next_back().unwrap().parse().unwrap()
    }

    /// Writes everything and ends.
    pub async fn stop(self) {
        self.engine.seal();
        self.engine.drain().await;
        self.engine.stop();
        self.flusher.await.unwrap();
    }
}

pub fn manual(channel: u64, message: u64) -> Operation {
    Operation::Manual {
        channel,
        message,
        mention_count: 0,
        visit: Visit::default(),
    }
}

pub fn ack(channel: u64, message: u64) -> Operation {
    Operation::Ack {
        channel,
        message,
        visit: Visit::default(),
    }
}

pub fn mention(message: u64) -> Operation {
    Operation::Mention {
        channel: 10,
        message,
        count: 1,
    }
}
