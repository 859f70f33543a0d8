//! What everything in the simulation shares: random numbers, time, weather, the ring, processes, and the books.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hasher},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{
    FutureExt,
    stream::{self, BoxStream, StreamExt},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::{
    block::BlockRef,
    codec,
    ownership::store::{MemoryRing, RingStore, RingStoreError, Swapped, Version},
    store::{MemoryStore, Store},
};
use readstates_ledger::{Book, Call, Finding, Found, History, What};
use readstates_ring::{Incarnation, RingTable, Slot};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{clients::USERS, historians, process::Process};

/// What was done before a process was stopped may be told a moment later.
const LAST_WORD: Duration = Duration::from_millis(100);
/// Lines of a trace that are kept: the last ones before the end.
const KEPT_LINES: usize = 200_000;

/// Everything around the members.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) began: Instant,
    pub(crate) ring: Arc<MemoryRing>,
    pub(crate) blocks: Arc<MemoryStore>,
    /// The ring has changed. Members are told in the order in which they began to wait; the watch of a [`MemoryRing`]
    /// itself would tell them in an order that no seed rules.
    swapped: Notify,
    /// Swaps that were held are carried out now.
    pub(crate) let_swaps_go: Notify,
    random: Mutex<StdRng>,
    trace: Mutex<Trace>,
    state: Mutex<State>,
}

/// What happened. The same seed leaves the same.
#[derive(Debug, Default)]
struct Trace {
    lines: Vec<String>,
    hash: DefaultHasher,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing goes wrong any more.
    calm: bool,
    /// Links that carry nothing, from and to.
    broken: HashSet<(Incarnation, Incarnation)>,
    /// Processes that cannot reach the ring.
    cut_off: HashSet<Incarnation>,
    /// No process can reach the ring; or it is slow.
    ring_away: bool,
    ring_slow: bool,
    /// Whether swaps are not carried out yet, and how many these are.
    late: bool,
    late_swaps: u32,
    /// What the ring was at some moments before.
    past: Vec<Arc<RingTable>>,
    /// It is what it was, or was deleted: it may name others than those that serve.
    ring_went_back: bool,
    database_away: bool,
    processes: Vec<Arc<Process>>,
    /// The process that acknowledged, by slot and epoch.
    acknowledged: HashMap<(Slot, i64), Incarnation>,
    /// The greatest version of a user that a client was told, and when.
    versions: HashMap<u64, (u64, Duration)>,
    /// The change that a version of a user was told for: its channel and message.
    changes: HashMap<(u64, u64), (u64, u64)>,
    wrong: Vec<String>,
    /// What was lost with members that died, or that were stopped until the others had to take them for dead: users
    /// and channels, with the times.
    losses: HashMap<(u64, u64), Duration>,
    /// Users of whom a dead member knew a version that the database did not have.
    lost_versions: HashSet<u64>,
    book: Book,
    history: History,
}

/// A call that was decided at this moment: the simulation knows when.
pub(crate) fn at_once(at: Duration) -> Call {
    let (sent, answered) = (at, at);
    Call { sent, answered }
}

/// How many slots moved between which processes, and which of them have users.
fn moved(before: &RingTable, now: &RingTable) -> String {
    let mut moved: BTreeMap<_, (u32, Vec<String>)> = BTreeMap::new();
    for (slot, config) in now.configs() {
        let old = before.config(slot);
        if old.is_some_and(|old| old.epoch() == config.epoch()) {
            continue;
        }
        let owner = old.map(|old| old.owner());
        let (count, used) = moved.entry((owner, config.owner())).or_default();
        *count += 1;
        if USERS.map(Slot::of_user).any(|of_user| of_user == slot) {
            used.push(slot.to_string());
        }
    }
    let each = moved.iter().map(|((from, to), (count, used))| {
        let from = from.map_or_else(|| "nobody".to_owned(), |from| from.to_string());
        format!("{count} from {from} to {to} [{}]", used.join(" "))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The states of a block.
pub(crate) fn found(block: BlockRef<'_>) -> Vec<Found> {
    let states = block.states().map(|state| Found {
        channel: state.channel,
        last_message: state.last_message,
        mention_count: state.mention_count,
    });
    states.collect()
}

impl World {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            seed,
            began: Instant::now(),
            ring: Arc::default(),
            blocks: Arc::default(),
            swapped: Notify::new(),
            let_swaps_go: Notify::new(),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            trace: Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap())
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Writes a line into the trace.
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        let line = format!("{:>10.3?} {}", self.now(), what());
        let mut trace = self.trace.lock().unwrap();
        trace.hash.write(line.as_bytes());
        if trace.lines.len() < KEPT_LINES {
            trace.lines.push(line);
        }
    }

    /// Drops the processes, which hold this world in turn: thousands of seeds would fill the memory.
    pub(crate) fn end(&self) {
        let processes = std::mem::take(&mut self.state.lock().unwrap().processes);
        drop(processes);
    }

    /// The trace, and a number that stands for it.
    pub(crate) fn trace(&self) -> (Vec<String>, u64) {
        let trace = self.trace.lock().unwrap();
        (trace.lines.clone(), trace.hash.finish())
    }

    /// Swaps the ring.
    pub(crate) async fn swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> Result<Swapped, RingStoreError> {
        let before = self.table().unwrap_or_default();
        let swapped = self.ring.compare_and_swap(expected, next).await;
        if let Ok(Swapped::Taken(now)) = &swapped {
            self.say(|| {
                let (number, moved) = (now.table.number(), moved(&before, &now.table));
                format!("the ring is {number}: {moved}")
            });
            self.swapped.notify_waiters();
        }
        swapped
    }

    /// The ring as it is, at this moment.
    fn table(&self) -> Option<Arc<RingTable>> {
        let current = self.ring.get().now_or_never()?.ok()??;
        Some(current.table)
    }

    /// The ring, now and whenever it has changed.
    pub(crate) fn tables(self: &Arc<Self>) -> BoxStream<'static, Arc<RingTable>> {
        let next = |(world, known): (Arc<Self>, Option<Arc<RingTable>>)| async move {
            loop {
                let swapped = world.swapped.notified();
                let table = world.table().filter(|table| Some(table) != known.as_ref());
                if let Some(table) = table {
                    let known = Some(Arc::clone(&table));
                    return Some((table, (Arc::clone(&world), known)));
                }
                swapped.await;
            }
        };
        stream::unfold((Arc::clone(self), None), next).boxed()
    }

    /// A random number between two, the second one excluded.
    pub(crate) fn draw(&self, from: u64, to: u64) -> u64 {
        self.random.lock().unwrap().random_range(from..to)
    }

    /// Whether something befalls that does so in `percent` of the cases; nothing does when all is calm.
    pub(crate) fn befalls(&self, percent: f64) -> bool {
        let drawn = self.random.lock().unwrap().random_bool(percent / 100.0);
        drawn && !self.is_calm()
    }

    /// Some milliseconds pass.
    pub(crate) async fn pass(&self, from: u64, to: u64) {
        let millis = self.draw(from, to);
        sleep(Duration::from_millis(millis)).await;
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.state(|state| state.calm)
    }

    pub(crate) fn calm_down(&self) {
        self.state(|state| {
            state.calm = true;
            state.broken.clear();
            state.cut_off.clear();
            (state.ring_away, state.ring_slow) = (false, false);
            state.database_away = false;
        });
    }

    pub(crate) fn break_link(&self, from: Incarnation, to: Incarnation, broken: bool) {
        self.state(|state| match broken {
            true => state.broken.insert((from, to)),
            false => state.broken.remove(&(from, to)),
        });
    }

    pub(crate) fn is_broken(&self, from: Incarnation, to: Incarnation) -> bool {
        self.state(|state| state.broken.contains(&(from, to)))
    }

    pub(crate) fn cut_off(&self, who: Incarnation, off: bool) {
        self.state(|state| match off {
            true => state.cut_off.insert(who),
            false => state.cut_off.remove(&who),
        });
    }

    pub(crate) fn is_cut_off(&self, who: Incarnation) -> bool {
        self.state(|state| state.ring_away || state.cut_off.contains(&who))
    }

    /// Whether a process can not reach the ring that others may reach.
    pub(crate) fn is_anybody_cut_off(&self) -> bool {
        self.state(|state| !state.cut_off.is_empty())
    }

    pub(crate) fn set_ring_away(&self, away: bool) {
        self.state(|state| state.ring_away = away);
    }

    pub(crate) fn set_ring_slow(&self, slow: bool) {
        self.state(|state| state.ring_slow = slow);
    }

    /// Milliseconds that the ring takes in each direction, less than.
    pub(crate) fn ring_takes(&self) -> u64 {
        self.state(|state| if state.ring_slow { 900 } else { 15 })
    }

    /// In every third seed some clocks are wrong.
    pub(crate) fn has_wrong_clocks(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// In three of four seeds the ring may be restored from seconds ago, or be deleted.
    pub(crate) fn has_restores(&self) -> bool {
        !self.seed.is_multiple_of(4)
    }

    /// Keeps what the ring is now: it may be restored to that.
    pub(crate) fn back_up(&self) {
        let table = self.table();
        self.state(|state| state.past.extend(table));
    }

    /// Swaps are told to have failed, and are carried out in their order once this is asked not to be so.
    pub(crate) fn hold_swaps(&self, held: bool) {
        self.state(|state| (state.late, state.late_swaps) = (held, 0));
        self.let_swaps_go.notify_waiters();
    }

    /// How many swaps are held.
    pub(crate) fn held_swaps(&self) -> u32 {
        self.state(|state| state.late_swaps)
    }

    /// Whether a swap is held; it is counted.
    pub(crate) fn holds_swap(&self) -> bool {
        self.state(|state| {
            state.late_swaps += u32::from(state.late);
            state.late
        })
    }

    /// Puts a table in the place of the ring, as a person with access to the store can.
    pub(crate) async fn put_back(&self, table: RingTable) {
        self.state(|state| state.ring_went_back = true);
        let current = self.ring.get().await.ok().flatten();
        let version = current.map(|current| current.version);
        self.say(|| {
            let (number, slots) = (table.number(), table.configs().count());
            format!("the ring is restored to {number}, with {slots} slots")
        });
        // At one moment: no process can have swapped in between.
        let swapped = self.ring.compare_and_swap(version, table).await;
        if !matches!(swapped, Ok(Swapped::Taken(_))) {
            self.wrong("the ring was not restored".to_owned());
        }
        self.swapped.notify_waiters();
    }

    /// How many slots the living processes own.
    pub(crate) fn owned(&self) -> u32 {
        let living = self.living().into_iter();
        living
            .map(|process| u32::from(process.ownership.status().owned))
            .sum()
    }

    /// The ring is again what it was at some moment, or is deleted.
    pub(crate) async fn restore(&self) {
        let count = self.state(|state| state.past.len()) as u64;
        if count == 0 {
            return;
        }
        let which = self.draw(0, count + 2);
        if which > count {
            self.state(|state| state.ring_went_back = true);
            self.say(|| "the ring is deleted".to_owned());
            self.ring.delete();
            return;
        }
        let number = self.table().map_or(0, |table| table.number());
        let past = self.state(|state| state.past.get(which as usize).cloned());
        // A person deletes it, and the operator makes an empty one.
        let past = past.map_or_else(|| RingTable::empty(number + 1), Arc::unwrap_or_clone);
        self.put_back(past).await;
    }

    pub(crate) fn set_database_away(&self, away: bool) {
        self.state(|state| state.database_away = away);
    }

    pub(crate) fn is_database_away(&self) -> bool {
        self.state(|state| state.database_away)
    }

    /// The processes that live, stopped ones included.
    pub(crate) fn living(&self) -> Vec<Arc<Process>> {
        let all = self.state(|state| state.processes.clone());
        all.into_iter()
            .filter(|process| !process.life.is_dead())
            .collect()
    }

    pub(crate) fn add(&self, process: Arc<Process>) {
        self.state(|state| state.processes.push(process));
    }

    pub(crate) fn find(&self, incarnation: Incarnation) -> Option<Arc<Process>> {
        let mut living = self.living().into_iter();
        living.find(|process| process.life.incarnation == incarnation)
    }

    /// A process acknowledges a change of a slot at an epoch.
    pub(crate) fn acknowledges(&self, who: Incarnation, slot: Slot, epoch: i64) {
        self.say(|| format!("{who} acknowledges a change of slot {slot} at epoch {epoch}"));
        let config = self.table().and_then(|table| table.config(slot));
        if let Some(config) = config
            && config.epoch().number() > epoch
            && config.owner() != who
            && self.serves(config.owner(), slot)
        {
            let owner = config.owner();
            self.wrong(format!(
                "{who} acknowledged slot {slot} at epoch {epoch}, which is {owner}'s by now"
            ));
        }
        let first = self.state(|state| *state.acknowledged.entry((slot, epoch)).or_insert(who));
        if first != who {
            self.wrong(format!(
                "{first} and {who} both acknowledged slot {slot} at epoch {epoch}"
            ));
        }
    }

    /// Whether the process that the ring names serves a slot: in a ring that went back it may be dead, or may have
    /// taken the slot and wait for the others to see that.
    fn serves(&self, owner: Incarnation, slot: Slot) -> bool {
        let there = || self.find(owner);
        !self.state(|state| state.ring_went_back)
            || there().is_some_and(|owner| owner.ownership.enter(slot).is_some())
    }

    /// The greatest version of a user that a client was told, and when.
    pub(crate) fn version(&self, user: u64) -> (u64, Duration) {
        self.state(|state| state.versions.get(&user).copied().unwrap_or_default())
    }

    fn told_version(&self, user: u64, told: (u64, Duration)) {
        self.state(|state| {
            let known = state.versions.entry(user).or_default();
            if told.0 > known.0 {
                *known = told;
            }
        });
    }

    /// Takes in a read that began when `floor` was known. Only a death may make its version lower than that.
    pub(crate) fn told_read(&self, user: u64, floor: (u64, Duration), told: (u64, Duration)) {
        if told.0 < floor.0 {
            let (channel, message, call) = (0, 0, at_once(floor.1));
            let what = What::ReadBehind;
            self.note(Finding {
                user,
                channel,
                message,
                what,
                call,
            });
        }
        self.told_version(user, told);
    }

    /// Takes in the answer to a change that was sent when `floor` was known; `applied`: the change, if it was applied
    /// by this attempt.
    pub(crate) fn told_change(
        &self,
        user: u64,
        floor: (u64, Duration),
        told: (u64, Duration),
        applied: Option<(u64, u64)>,
    ) {
        let version = told.0;
        if version < floor.0 {
            let floor = floor.0;
            self.wrong(format!(
                "user {user} went back from version {floor} to {version}"
            ));
        }
        if let Some(change) = applied {
            let first = self.state(|state| *state.changes.entry((user, version)).or_insert(change));
            if first != change {
                self.wrong(format!(
                    "version {version} of user {user} was handed out twice: for {first:?} and for {change:?}"
                ));
            }
        }
        self.told_version(user, told);
    }

    /// Something is wrong, whatever happened before.
    pub(crate) fn wrong(&self, what: String) {
        self.say(|| format!("WRONG: {what}"));
        let what = format!("{what}, at {:?}", self.now());
        self.state(|state| state.wrong.push(what));
    }

    /// Something is wrong, unless it is excused.
    pub(crate) fn note(&self, finding: Finding) {
        self.say(|| format!("found: {finding:?}"));
        self.state(|state| state.book.note(finding));
    }

    /// A process is over with what it has in memory: what of that is not in the database may be lost, and nothing
    /// else.
    pub(crate) async fn is_over(&self, process: &Process) {
        let (mut lost, mut versions) = (Vec::new(), Vec::new());
        for user in USERS.chain(historians::USERS) {
            let all = |block: BlockRef<'_>| (found(block), block.version());
            let Some((cached, version)) = process.engine.cache().read(user, all) else {
                continue;
            };
            let (stored, written) = self.stored_block(user).await;
            if version > written {
                // An answer that nothing was changed may have told it.
                versions.push(user);
            }
            let of = |state: &Found| {
                stored
                    .iter()
                    .find(|it| it.channel == state.channel)
                    .copied()
            };
            let unwritten = cached.iter().filter(|state| of(state) != Some(**state));
            lost.extend(unwritten.map(|state| (user, state.channel)));
            // What was deleted here and is there yet.
            let kept = |state: &&Found| cached.iter().any(|it| it.channel == state.channel);
            let gone = stored.iter().filter(|state| !kept(state));
            lost.extend(gone.map(|state| (user, state.channel)));
        }
        let now = self.now();
        self.say(|| format!("{process:?} takes with it: {lost:?}"));
        self.state(|state| {
            for page in lost {
                state.losses.insert(page, now);
            }
            state.lost_versions.extend(versions);
        });
    }

    /// What the database has of a user.
    pub(crate) async fn stored(&self, user: u64) -> Vec<Found> {
        self.stored_block(user).await.0
    }

    /// What the database has of a user, and at which version.
    async fn stored_block(&self, user: u64) -> (Vec<Found>, u64) {
        let stored = self.blocks.load(user).await.ok().flatten();
        let stored = stored.map(|stored| {
            codec::decode(&stored.bytes).map(|it| (found(it.block), it.block.version()))
        });
        stored.transpose().ok().flatten().unwrap_or_default()
    }

    /// Whether a finding is what a death cost.
    pub(crate) fn is_excused(&self, finding: &Finding) -> bool {
        let lost_at =
            |user, channel| self.state(|state| state.losses.get(&(user, channel)).copied());
        // A version that was told although nothing was changed is in memory alone, too.
        let any = || {
            self.state(|state| {
                let states = state.losses.keys().any(|&(user, _)| user == finding.user);
                states || state.lost_versions.contains(&finding.user)
            })
        };
        match finding.what {
            // What it still said at that moment counts.
            What::Lost | What::LostMeanwhile | What::NotSeen => {
                let until = lost_at(finding.user, finding.channel);
                until.is_some_and(|until| finding.call.answered <= until + LAST_WORD)
            }
            // Of the user as a whole.
            What::ReadBehind => any(),
            What::Doubled | What::Phantom | What::VersionWentBack => false,
        }
    }

    pub(crate) fn hand_in(&self, book: Book) {
        self.state(|state| state.book.take(book));
    }

    pub(crate) fn hand_in_history(&self, history: History) {
        self.state(|state| state.history.take(history));
    }

    /// What was asked and answered, and the users of the historians that no death concerns.
    pub(crate) fn history(&self) -> (History, Vec<u64>) {
        self.state(|state| {
            let lost = |user: &u64| {
                let states = state.losses.keys().any(|(of, _)| of == user);
                states || state.lost_versions.contains(user)
            };
            let whole = historians::USERS.filter(|user| !lost(user)).collect();
            (state.history.clone(), whole)
        })
    }

    /// The books of all clients, and what was seen to be wrong on the way.
    pub(crate) fn books(&self) -> (Book, Vec<String>) {
        self.state(|state| (state.book.clone(), state.wrong.clone()))
    }
}
