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
        let over = Cell::new(false);
        let traffic = async {
            let mut users = Users::fresh();
            let mut told = Vec::new();
            let mut ticks = interval(BETWEEN);
            while !over.get() {
                ticks.tick().await;
                let user = users.one();
                told.push((user, service.ack(user, CHANNEL, MESSAGE).await?));
            }
            anyhow::Ok(Self(told))
        };
        let change = async {
            let changed = change.await;
            over.set(true);
            changed
        };
        let (told, changed) = tokio::join!(traffic, change);
        changed?;
        let told = told?;
        println!("    {} users were acknowledged meanwhile", told.0.len());
        Ok(told)
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
