//! The network between processes: messages about slots that are late, lost, doubled and out of order.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use readstates::ownership::{Destination, PeerError, Peers};
use readstates_ring::Incarnation;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{late::Kind, process::Life, world::World};

/// Of so many messages of a process that is starved one is late.
const ONE_LATE_OF: u64 = 6;

/// After this long a sender takes a message for lost.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct SimPeers {
    world: Arc<World>,
    life: Arc<Life>,
}

impl SimPeers {
    pub(crate) fn new(world: &Arc<World>, life: &Arc<Life>) -> Self {
        Self {
            world: Arc::clone(world),
            life: Arc::clone(life),
        }
    }
}

impl Peers for SimPeers {
    fn send(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        let (world, life, to) = (Arc::clone(&self.world), Arc::clone(&self.life), to.clone());
        async move {
            life.boundary().await;
            let (answer, answered) = oneshot::channel();
            let delivery = deliver(
                Arc::clone(&world),
                life.incarnation,
                to.member.incarnation(),
                message,
                answer,
            );
            // Once it is on its way, it arrives or not whatever the sender does.
            tokio::spawn(delivery);
            let came = timeout(PATIENCE, answered).await;
            life.boundary().await;
            let silent = |reason| PeerError::new(to.name(), reason);
            match came {
                Ok(Ok(answer)) => answer.map_err(|reason| PeerError::new(to.name(), reason)),
                Ok(Err(_)) => Err(silent("nobody is there")),
                Err(_) => Err(silent("silence")),
            }
        }
        .boxed()
    }
}

async fn deliver(
    world: Arc<World>,
    from: Incarnation,
    to: Incarnation,
    message: Bytes,
    answer: oneshot::Sender<Result<Bytes, String>>,
) {
    if let Some(batch) = world.late.takes(Kind::Messages { from, to }) {
        world.late.arrival(batch).await;
    }
    travel(&world, from, to).await;
    if world.befalls(3.0) {
        // A second copy, some time later; its answer goes to no process.
        let (world, message, wait) = (Arc::clone(&world), message.clone(), world.draw(1, 5_000));
        tokio::spawn(async move {
            sleep(Duration::from_millis(wait)).await;
            arrive(&world, to, &message).await
        });
    }
    let said = arrive(&world, to, &message).await;
    world.say(|| {
        let said = said.as_ref().map(|said| said.as_ref().map(Bytes::len));
        format!("{from} sent {to} {} bytes: {said:?}", message.len())
    });
    travel(&world, to, from).await;
    if let Some(said) = said {
        // An error means that the sender waits no more: the answer is lost.
        let _ = answer.send(said);
    }
}

/// The answer of the process that a message is for.
async fn arrive(world: &World, to: Incarnation, message: &[u8]) -> Option<Result<Bytes, String>> {
    let process = world.find(to)?;
    process.life.boundary().await;
    let receive = process.ownership.receive(message);
    // A process that dies meanwhile says nothing.
    tokio::select! {
        biased;
        said = receive => {
            process.life.boundary().await;
            Some(said.map_err(|error| error.to_string()))
        }
        () = process.life.death() => None,
    }
}

/// The way from one process to another: it takes a while, or never ends.
pub(crate) async fn travel(world: &World, from: Incarnation, to: Incarnation) {
    let slow = world.befalls(3.0);
    world.pass(0, if slow { 900 } else { 12 }).await;
    let late_by = world.late_by(from).or_else(|| world.late_by(to));
    if let Some(late_by) = late_by.filter(|_| world.draw(0, ONE_LATE_OF) == 0) {
        world.pass(late_by.start, late_by.end).await;
    }
    if world.befalls(2.0) || world.is_broken(from, to) {
        std::future::pending::<()>().await;
    }
}
