//! The ring itself: reading it, changing it, and what follows when it is another one.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::StreamExt;
use readstates_ring::{
    Epoch, RingMember, RingTable, Slot, Succession,
    mutant::{self, Rule},
    record::NotSwapped,
};

use super::{
    Ownership, Routes,
    store::{RingStoreError, Swapped, Versioned},
};
use crate::store::chain;

/// Between two questions to a ring that does not answer, or whose swaps others win.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(1);

impl Ownership {
    /// Takes a table in: routes first, so that whoever is let go by a door finds the way.
    pub(super) fn adopt(&self, table: &Arc<RingTable>) {
        let _turn = self.adopting.lock();
        let before = self.routes.load_full();
        if table.number() > before.number() {
            let most = self.config.max_per_member;
            let routes = Routes::new(Arc::clone(table), Some(&before), most);
            self.routes.store(Arc::new(routes));
        }
        for slot in self.slots.learn(table) {
            self.gate.look_again(slot);
        }
        let number = self.routes.load().number();
        self.number.send_if_modified(|known| {
            let newer = number > *known;
            *known = number;
            newer
        });
    }

    /// Follows the ring for as long as the store yields it.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut tables = self.store.watch();
        while let Some(table) = tables.next().await {
            self.adopt(&table);
        }
    }

    /// Reads the ring itself.
    pub(super) async fn read(&self) -> Result<Option<Versioned>, RingStoreError> {
        let current = self.store.get().await?;
        if let Some(current) = &current {
            self.adopt(&current.table);
        }
        Ok(current)
    }

    /// Reads the ring because somebody is in doubt; those who are so at the same time read it once, and it
    /// is read a few times a second at most.
    pub async fn refresh(&self) {
        let read = async {
            if let Err(error) = self.read().await {
                tracing::debug!("the ring was not read: {}", chain(&error));
            }
        };
        self.outdated.settle(read).await;
    }

    /// Asks the ring to name `owner` for those of the slots that are still at the epochs given, until
    /// it is known for each of them what the ring says. `ahead` is the ring as it was read when the
    /// slots were at these epochs already: most often nobody has swapped since, and it need not be read.
    pub(super) async fn swap(
        &self,
        mut asked: Vec<(Slot, Option<Epoch>)>,
        owner: &RingMember,
        succession: Succession,
        mut ahead: Option<Versioned>,
    ) {
        let mut wait = FIRST_RETRY;
        while !asked.is_empty() {
            let ahead = ahead.take();
            let guessed = ahead.is_some();
            match self.try_swap(&mut asked, owner, succession, ahead).await {
                Ok(Swapped::Taken(taken)) => return self.adopt(&taken.table),
                Ok(Swapped::Conflict) if guessed => continue,
                Ok(Swapped::Conflict) => {}
                Err(problem) => {
                    tracing::warn!(slots = asked.len(), "the ring did not answer: {problem}");
                }
            }
            let share = 1.0 - self.lots.share() / 2.0;
            tokio::time::sleep(wait.mul_f64(share)).await;
            wait = (wait * 2).min(LAST_RETRY);
        }
    }

    async fn try_swap(
        &self,
        asked: &mut Vec<(Slot, Option<Epoch>)>,
        owner: &RingMember,
        succession: Succession,
        ahead: Option<Versioned>,
    ) -> Result<Swapped, String> {
        let current = match ahead {
            Some(read) => Some(read),
            None => self.read().await.map_err(|error| chain(&error))?,
        };
        let (table, version) = match current {
            Some(Versioned { table, version }) => (table, Some(version)),
            None => (Arc::default(), None),
        };
        let epoch = |slot| table.config(slot).map(|config| config.epoch());
        asked.retain(|&(slot, expected)| epoch(slot) == expected || mutant::drops(Rule::R10));
        if asked.is_empty() {
            return Ok(Swapped::Conflict);
        }
        let next = table
            .swap(asked, owner, succession, self.config.unix_clock.micros())
            .map_err(|refused| match refused {
                NotSwapped::Conflict { .. } | NotSwapped::TooFarAhead { .. } => refused.to_string(),
            })?;
        let swapped = self.store.compare_and_swap(version, next).await;
        swapped.map_err(|error| chain(&error))
    }

    /// Takes slots that are sealed here under a new epoch, with what is in memory of them.
    pub(super) async fn retake(&self, slots: Vec<(Slot, Epoch)>) {
        if slots.is_empty() {
            return;
        }
        tracing::info!(slots = slots.len(), "taking slots again, under a new epoch");
        let count = slots.len() as u64;
        self.counters.retaken.fetch_add(count, Ordering::Relaxed);
        let asked = slots.into_iter().map(|(slot, at)| (slot, Some(at)));
        self.swap(asked.collect(), &self.me, Succession::Handed, None)
            .await;
    }
}
