//! The ring of all members: what it is and was, who is told of its changes, and how it goes back.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    stream::{self, BoxStream, StreamExt},
};
use readstates::ownership::store::{RingStore, RingStoreError, Swapped, Version};
use readstates_ring::{RingTable, Slot, SlotConfig};

use super::World;
use crate::{clients::USERS, process::UNIX_MICROS};

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

/// The slots that got a backup, or another one.
fn named(before: &RingTable, now: &RingTable) -> impl Iterator<Item = Slot> {
    let is_named = move |(slot, config): &(Slot, SlotConfig)| {
        let old = before.config(*slot).and_then(|old| old.backup());
        config.backup().is_some_and(|it| old != Some(it))
    };
    now.configs().filter(is_named).map(|(slot, _)| slot)
}

impl World {
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
            let named = named(&before, &now.table);
            self.state(|state| named.for_each(|slot| *state.named.entry(slot).or_default() += 1));
            self.swapped.notify_waiters();
        }
        swapped
    }

    /// The most that any slot got a backup, or another one, since this was asked last.
    pub(crate) fn most_named(&self) -> u64 {
        let named = self.state(|state| std::mem::take(&mut state.named));
        named.into_values().max().unwrap_or_default()
    }

    /// How far the highest epoch is ahead of the time.
    pub(crate) fn ahead(&self) -> Duration {
        let table = self.table().unwrap_or_default();
        let highest = table.configs().map(|(_, it)| it.epoch().number()).max();
        let begins = highest.unwrap_or(0) << 24;
        let now = UNIX_MICROS + self.now().as_micros() as i64;
        Duration::from_micros((begins - now).max(0).unsigned_abs())
    }

    /// The ring as it is, at this moment.
    pub(crate) fn table(&self) -> Option<Arc<RingTable>> {
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

    /// Keeps what the ring is now: it may be restored to that.
    pub(crate) fn back_up(&self) {
        let table = self.table();
        self.state(|state| state.past.extend(table));
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
}
