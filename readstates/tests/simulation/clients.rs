//! Clients that keep books, and a member's front: serve or forward, as HTTP does it, over the simulated network.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::{
    block::{BlockRef, Operation, Outcome, Visit},
    cache::{Refused, Touch},
    engine::{NotDone, Rests},
    load::LoadError,
    ownership::Way,
};
use readstates_ledger::{AMOUNTS, Answer, Book, Call, Finding, Found, Status, What};
use readstates_ring::Slot;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    events::{CLIENTS, stop_for_long},
    network::travel,
    process::Process,
    world::{World, at_once, found},
};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often an operation without an acknowledgement is sent again before the client goes on to the next.
const ATTEMPTS: u32 = 10;
/// How often a member looks for the owner.
const LOOKS: usize = 4;
/// The user of all clients.
pub(crate) const HOT: u64 = 1;
const OWN_USERS: u64 = 4;
/// All of them.
pub(crate) const USERS: std::ops::RangeInclusive<u64> = HOT..=1 + CLIENTS * OWN_USERS;

/// What is asked about a user; `None` to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) user: u64,
    pub(crate) change: Option<Operation>,
}

impl Job {
    /// What its client hears when it may not be told.
    fn without_answer(self) -> Reply {
        match self.change {
            Some(_) => Reply::Unknown,
            None => Reply::Nothing,
        }
    }
}

/// What a client hears.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Done(Seen),
    /// It was refused: nothing was done.
    Nothing,
    /// The outcome is unknown.
    Unknown,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) applied: bool,
    pub(crate) version: u64,
    pub(crate) states: Vec<Found>,
    /// When it was decided that this may be answered.
    at: Duration,
}

impl Seen {
    /// The states, as a history has them.
    pub(crate) fn as_states(&self) -> Answer {
        let states = self.states.iter();
        Answer::States {
            states: states.map(|it| (it.channel, it.last_message)).collect(),
            version: self.version,
        }
    }
}

/// Sends a job to any member and waits.
pub(crate) async fn ask(world: &Arc<World>, job: Job) -> Reply {
    let reply = ask_somebody(world, job).await;
    world.say(|| format!("{job:?}: {reply:?}"));
    reply
}

async fn ask_somebody(world: &Arc<World>, job: Job) -> Reply {
    let living = world.living();
    if living.is_empty() {
        sleep(Duration::from_millis(100)).await;
        return Reply::Nothing;
    }
    let process = Arc::clone(&living[world.draw(0, living.len() as u64) as usize]);
    let (answer, answered) = oneshot::channel();
    let world = Arc::clone(world);
    tokio::spawn(async move {
        world.pass(0, 10).await;
        if world.befalls(2.0) {
            return;
        }
        let serving = Box::pin(serve(&world, &process, job, false));
        let reply = tokio::select! {
            biased;
            reply = serving => reply,
            () = process.life.death() => return,
        };
        process.life.boundary().await;
        world.pass(0, 10).await;
        if !world.befalls(2.0) && !world.are_answers_lost() {
            // The client may have given up.
            let _ = answer.send(reply);
        }
    });
    match timeout(PATIENCE, answered).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) | Err(_) => Reply::Unknown,
    }
}

/// The front of a member.
async fn serve(world: &Arc<World>, process: &Arc<Process>, job: Job, forwarded: bool) -> Reply {
    process.life.boundary().await;
    let slot = Slot::of_user(job.user);
    let mut refreshed = false;
    for _ in 0..LOOKS {
        let Ok(way) = process.ownership.way(slot).await else {
            return Reply::Nothing;
        };
        match way {
            Way::Here(pass) => {
                let worked = work(process, job).await;
                // It may be stopped between any two instructions; so here.
                if job.change.is_some() && process.stops_at_work.swap(false, Ordering::Relaxed) {
                    world.say(|| format!("{process:?} has worked on {job:?}"));
                    tokio::spawn(stop_for_long(Arc::clone(world), Arc::clone(process)));
                }
                process.life.boundary().await;
                let rests = match job.change {
                    Some(_) => Rests::OnChange,
                    None => Rests::OnRead,
                };
                let settled = process.engine.settled(job.user, rests).await;
                match worked {
                    Ok(_) if !settled || !pass.may_acknowledge() => {
                        return job.without_answer();
                    }
                    Ok(mut seen) => {
                        if job.change.is_some() {
                            world.acknowledges(&process.life, slot, pass.epoch());
                        }
                        seen.at = world.now();
                        return Reply::Done(seen);
                    }
                    Err(
                        NotDone::Refused(Refused::NotHere) | NotDone::NotLoaded(LoadError::Moved),
                    ) => {}
                    Err(NotDone::Unknown) => return Reply::Unknown,
                    Err(_) => return Reply::Nothing,
                }
            }
            Way::There(routes, owner) => {
                if forwarded && refreshed {
                    return Reply::Nothing;
                }
                if !forwarded {
                    let (me, to) = (process.life.incarnation, routes.peers()[owner].incarnation);
                    travel(world, me, to).await;
                    let Some(owner) = world.find(to) else {
                        return Reply::Nothing;
                    };
                    let reply = Box::pin(serve(world, &owner, job, true)).await;
                    if owner.life.is_dead() {
                        return Reply::Unknown;
                    }
                    owner.life.boundary().await;
                    travel(world, to, me).await;
                    let behind = owner.ownership.routes().number() > routes.number();
                    if !matches!(reply, Reply::Nothing) || !behind || refreshed {
                        return reply;
                    }
                }
                process.ownership.refresh().await;
                refreshed = true;
            }
        }
    }
    Reply::Nothing
}

async fn work(process: &Process, job: Job) -> Result<Seen, NotDone> {
    let seen = |applied, block: BlockRef<'_>| Seen {
        applied,
        version: block.version(),
        states: Vec::new(),
        at: Duration::ZERO,
    };
    let Some(change) = job.change else {
        let view = move |block: BlockRef<'_>| Seen {
            states: found(block),
            ..seen(false, block)
        };
        return process.engine.read(job.user, view).await;
    };
    let view = move |block: BlockRef<'_>, outcomes: &[Outcome]| {
        seen(outcomes.contains(&Outcome::Applied), block)
    };
    let touch = match change {
        Operation::Mention { .. } => Touch::Mention,
        _ => Touch::Online,
    };
    process
        .engine
        .change(job.user, &[change], touch, view)
        .await
}

pub(crate) struct Client {
    world: Arc<World>,
    number: u64,
    /// The first channel for its mentions.
    first: u64,
    random: StdRng,
    book: Book,
    /// The channel that takes the mentions of a user now, and how many it has.
    channels: BTreeMap<u64, (u64, usize)>,
    message: u64,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, number: u64) -> Self {
        Self {
            world: Arc::clone(world),
            number,
            first: (number + 1) << 20,
            random: StdRng::seed_from_u64(world.seed.wrapping_mul(1000) + number),
            book: Book::default(),
            channels: BTreeMap::new(),
            message: 0,
        }
    }

    /// Another one with the same users, after as many others; its channels are its own.
    pub(crate) fn shifted(world: &Arc<World>, number: u64, shift: u64) -> Self {
        let client = Self::new(world, number);
        Self {
            first: client.first + (shift << 50),
            ..client
        }
    }

    /// Works until then, and hands its book in.
    pub(crate) async fn run(mut self, until: Duration) {
        while self.world.now() < until {
            let pause = self.random.random_range(5..60);
            sleep(Duration::from_millis(pause)).await;
            let own = self.number * OWN_USERS + 2 + self.random.random_range(0..OWN_USERS);
            let user = if self.random.random_bool(0.3) {
                HOT
            } else {
                own
            };
            match self.random.random_range(0..100) {
                0..50 => self.mention(user).await,
                50..75 => self.ack(user).await,
                75..90 => self.read(user).await,
                _ => self.send_again(user).await,
            }
        }
        self.end();
    }

    /// Hands its book in.
    pub(crate) fn end(self) {
        self.world.hand_in(self.book);
    }

    /// A client's own channel of a user; no other client has it.
    fn channel(&self, user: u64) -> (u64, usize) {
        self.channels.get(&user).copied().unwrap_or((self.first, 0))
    }

    async fn mention(&mut self, user: u64) {
        let (channel, index) = self.channel(user);
        self.message += 1;
        for _ in 0..ATTEMPTS {
            let status = self.send(user, self.message).await;
            if matches!(status, Status::Acknowledged(_)) {
                break;
            }
        }
        let next = match index + 1 {
            AMOUNTS => (channel + 1, 0),
            index => (channel, index),
        };
        self.channels.insert(user, next);
    }

    /// Sends the latest mention of a user once, and writes down what came of it.
    pub(crate) async fn send(&mut self, user: u64, message: u64) -> Status {
        let (channel, index) = self.channel(user);
        let change = mention(channel, message, index);
        let status = self.change(user, change, (channel, message)).await;
        self.book.mentioned(user, channel, message, status);
        status
    }

    async fn ack(&mut self, user: u64) {
        let channel = self.first >> 20;
        self.message += 1;
        let message = self.message;
        let change = Operation::Ack {
            channel,
            message,
            visit: Visit::default(),
        };
        for _ in 0..ATTEMPTS {
            let status = self.change(user, change, (channel, message)).await;
            self.book.acked(user, channel, message, status);
            if matches!(status, Status::Acknowledged(_)) {
                break;
            }
        }
    }

    async fn change(&mut self, user: u64, change: Operation, what: (u64, u64)) -> Status {
        let floor = self.world.version(user);
        let job = Job {
            user,
            change: Some(change),
        };
        match ask(&self.world, job).await {
            Reply::Done(seen) => {
                let applied = seen.applied.then_some(what);
                self.world
                    .told_change(user, floor, (seen.version, seen.at), applied);
                Status::Acknowledged(at_once(seen.at))
            }
            Reply::Nothing => {
                self.world.pass(20, 200).await;
                Status::NothingDone
            }
            Reply::Unknown => Status::Unknown,
        }
    }

    /// An acknowledged mention once more: it is known.
    async fn send_again(&mut self, user: u64) {
        let (channel, _) = self.channel(user);
        let known = self.book.acknowledged_mentions(user, channel);
        if known.is_empty() {
            return;
        }
        let (index, message, call) = known[self.random.random_range(0..known.len())];
        let floor = self.world.version(user);
        let job = Job {
            user,
            change: Some(mention(channel, message, index)),
        };
        if let Reply::Done(seen) = ask(&self.world, job).await {
            let applied = seen.applied.then_some((channel, message));
            self.world
                .told_change(user, floor, (seen.version, seen.at), applied);
            if seen.applied {
                self.find(user, channel, message, What::LostMeanwhile, call);
            }
        }
    }

    /// A read shows what was acknowledged before it began.
    pub(crate) async fn read(&mut self, user: u64) {
        let (channel, _) = self.channel(user);
        let known = self.book.acknowledged_mentions(user, channel);
        let floor = self.world.version(user);
        let Reply::Done(seen) = ask(&self.world, Job { user, change: None }).await else {
            return;
        };
        self.world.told_read(user, floor, (seen.version, seen.at));
        let state = seen.states.iter().find(|state| state.channel == channel);
        let count = state.map_or(0, |state| state.mention_count);
        for (index, message, call) in known {
            if count >> (2 * index) & 3 == 0 {
                self.find(user, channel, message, What::NotSeen, call);
            }
        }
    }

    fn find(&mut self, user: u64, channel: u64, message: u64, what: What, call: Call) {
        self.world.note(Finding {
            user,
            channel,
            message,
            what,
            call,
        });
    }
}

fn mention(channel: u64, message: u64, index: usize) -> Operation {
    Operation::Mention {
        channel,
        message,
        count: Book::amount(index),
    }
}
