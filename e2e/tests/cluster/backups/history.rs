//! What happens to a cluster around a backup, and so what a cluster that begins with that backup has to hold.

use anyhow::{Result, ensure};
use e2e::{CHANNEL, Http, MESSAGE, Told, Users};

/// Users of each part of it.
const USERS: u64 = 60;

/// Changes that were acknowledged before a backup, during it and after it.
pub(super) struct History {
    before: Told,
    meanwhile: Told,
    after: Told,
    /// Users who have read one message before it, and another after it.
    crowd: Vec<u64>,
    /// Versions of their second changes, of which the backup knows nothing.
    versions: Vec<u64>,
}

impl History {
    /// Makes the changes through a service, while `backup` is made between them.
    pub(super) async fn around(
        service: &Http,
        backup: impl Future<Output = Result<()>>,
    ) -> Result<Self> {
        let before = Told::by(service, USERS).await?;
        // Users of a later millisecond: others than those.
        let crowd = Users::fresh().take(USERS);
        changed(service, &crowd, MESSAGE).await?;
        let meanwhile = Told::during(service, backup).await?;
        let versions = changed(service, &crowd, MESSAGE + 9).await?;
        Ok(Self {
            before,
            meanwhile,
            after: Told::by(service, USERS).await?,
            crowd,
            versions,
        })
    }

    /// How many users the backup must have at least.
    pub(super) fn users(&self) -> i64 {
        i64::try_from(self.before.users().len() + self.crowd.len()).unwrap_or(i64::MAX)
    }

    /// Makes sure that a cluster begins with the backup: everything acknowledged before is there, nothing of what came
    /// after, and no version is given twice.
    pub(super) async fn is_restored_in(&self, restored: &Http) -> Result<()> {
        self.before.holds(restored).await?;
        self.after.is_unknown_to(restored).await?;
        let of_meanwhile = self.meanwhile.holds_or_is_unknown_to(restored).await?;
        println!("    {of_meanwhile} users of meanwhile are in the backup");
        for user in &self.crowd {
            let states = restored.read(*user).await?;
            let last = states.first().and_then(|s| s.last_message_id.clone());
            ensure!(last == Some(MESSAGE.to_string()), "user {user}: {states:?}");
        }
        let again = changed(restored, &self.crowd, MESSAGE + 5).await?;
        for (told, now) in self.versions.iter().zip(&again) {
            ensure!(now > told, "version {now} after {told} was handed out");
        }
        Ok(())
    }

    /// Makes sure that a restored cluster still has what was acknowledged before the backup.
    pub(super) async fn stays_in(&self, restored: &Http) -> Result<()> {
        self.before.holds(restored).await
    }

    /// Makes sure that the cluster that was backed up goes on as before.
    pub(super) async fn goes_on_in(&self, service: &Http) -> Result<()> {
        self.before.holds(service).await?;
        self.after.holds(service).await
    }
}

/// Versions by which clients may know what a user has read, of each user's last change.
async fn changed(service: &Http, users: &[u64], message: u64) -> Result<Vec<u64>> {
    let mut versions = Vec::new();
    for user in users {
        let state = service.ack(*user, CHANNEL, message).await?;
        versions.push(state.version.parse()?);
    }
    Ok(versions)
}
