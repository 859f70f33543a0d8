//! States that a service acknowledged, to be read again later.

use std::{cell::Cell, time::Duration};

use anyhow::{Result, ensure};
use tokio::time::interval;

use crate::{
    http::{Http, ReadState},
    users::{CHANNEL, MESSAGE, Users},
};

/// Between two acknowledgements of the traffic that goes on meanwhile.
const BETWEEN: Duration = Duration::from_millis(20);

/// Users with what the service acknowledged for each.
#[derive(Debug)]
pub struct Told(Vec<(u64, ReadState)>);

impl Told {
    /// Writes states of `count` new users through a service.
    ///
    /// # Errors
    /// When it does not acknowledge one.
    pub async fn by(service: &Http, count: u64) -> Result<Self> {
        let mut told = Vec::new();
        for (user, message) in Users::fresh().take(count).into_iter().zip(MESSAGE..) {
            told.push((user, service.ack(user, CHANNEL, message).await?));
        }
        Ok(Self(told))
    }

    /// Tells a service of new users, one after another, while something else happens.
    ///
    /// # Errors
    /// When it does not acknowledge one, or the change fails.
    pub async fn during(service: &Http, change: impl Future<Output = Result<()>>) -> Result<Self> {
        let told = beside(change, async |over| {
            let mut users = Users::fresh();
            let mut told = Vec::new();
            let mut ticks = interval(BETWEEN);
            while !over.get() {
                ticks.tick().await;
                let user = users.one();
                told.push((user, service.ack(user, CHANNEL, MESSAGE).await?));
            }
            Ok(Self(told))
        })
        .await?;
        println!("    {} users were acknowledged meanwhile", told.0.len());
        Ok(told)
    }

    /// Tells a service of later messages of the same users, one after another, while something else happens. They are
    /// in its memory, so its database may be away meanwhile.
    ///
    /// # Errors
    /// When it does not acknowledge one, or the change fails.
    pub async fn again_during(
        mut self,
        service: &Http,
        change: impl Future<Output = Result<()>>,
    ) -> Result<Self> {
        let last = |state: &ReadState| state.last_message_id.as_deref()?.parse().ok();
        let latest = self.0.iter().filter_map(|(_, state)| last(state)).max();
        let first: u64 = latest.unwrap_or(MESSAGE) + 1;
        let next = beside(change, async |over| {
            let mut next = first;
            let mut ticks = interval(BETWEEN);
            while !over.get() {
                for (user, state) in &mut self.0 {
                    ticks.tick().await;
                    *state = service.ack(*user, CHANNEL, next).await?;
                    next += 1;
                }
            }
            Ok(next)
        })
        .await?;
        println!("    {} messages were acknowledged meanwhile", next - first);
        Ok(self)
    }

    #[must_use]
    pub fn users(&self) -> Vec<u64> {
        self.0.iter().map(|(user, _)| *user).collect()
    }

    /// Makes sure that a service still says the same.
    ///
    /// # Errors
    /// With the first user whose state differs, or cannot be read.
    pub async fn holds(&self, service: &Http) -> Result<()> {
        for (user, state) in &self.0 {
            let read = service.read(*user).await?;
            ensure!(
                read == [state.clone()],
                "user {user}: told {state:?}, now {read:?}"
            );
        }
        Ok(())
    }

    /// Makes sure that another service has none of these users.
    ///
    /// # Errors
    /// With the first user that it has, or when one cannot be read.
    pub async fn is_unknown_to(&self, service: &Http) -> Result<()> {
        for (user, _) in &self.0 {
            let read = service.read(*user).await?;
            ensure!(read.is_empty(), "user {user} is not to be there: {read:?}");
        }
        Ok(())
    }

    /// Makes sure that another service has each of these users as it is here, or not at all; how many it has.
    ///
    /// # Errors
    /// With the first user that differs, or when one cannot be read.
    pub async fn holds_or_is_unknown_to(&self, service: &Http) -> Result<usize> {
        let mut held = 0;
        for (user, state) in &self.0 {
            let read = service.read(*user).await?;
            ensure!(
                read.is_empty() || read == [state.clone()],
                "user {user}: told {state:?}, now {read:?}"
            );
            held += usize::from(!read.is_empty());
        }
        Ok(held)
    }
}

/// Something that happens, and traffic that goes on until it is over.
async fn beside<T>(
    change: impl Future<Output = Result<()>>,
    traffic: impl AsyncFnOnce(&Cell<bool>) -> Result<T>,
) -> Result<T> {
    let over = Cell::new(false);
    let change = async {
        let changed = change.await;
        over.set(true);
        changed
    };
    let (told, changed) = tokio::join!(traffic(&over), change);
    changed?;
    told
}
