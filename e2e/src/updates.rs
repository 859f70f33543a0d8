//! Consent to what another operator would make differently of a cluster's pods.

use anyhow::Result;
use readstates_operator_api::labels;

use crate::{
    cluster::{COMES_UP, Cluster},
    wait::{Look, until},
};

impl Cluster {
    /// Allows the update that the operator asks about by this annotation; whether it asks for one.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn allow_update(&self, key: &str) -> Result<bool> {
        let asked = self.condition("RequiresUpdate").await?.message;
        let Some(name) = update_named(&asked, key) else {
            return Ok(false);
        };
        self.annotate(key, name).await?;
        Ok(true)
    }

    /// Allows every update, and waits until all pods are as this operator makes them.
    ///
    /// # Errors
    /// When that takes too long: with what the operator says about it.
    pub async fn updated(&self) -> Result<()> {
        let what = format!("pods of {} are this operator's", self.name);
        let seen = until(&what, COMES_UP, async || {
            // That of the cache may be told of after that of the database.
            for key in [labels::UPDATE_CACHE, labels::UPDATE_DATABASE] {
                self.allow_update(key).await?;
            }
            let update = self.condition("RequiresUpdate").await?;
            let progressing = self.condition("Progressing").await?;
            let done = update.status == "False" && progressing.status == "False";
            Ok(match done {
                true => Look::Done(()),
                false => Look::NotYet(format!("{}; {}", update.message, progressing.message)),
            })
        })
        .await;
        match seen {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.describe().await?)),
        }
    }
}

/// The update that a message wants allowed by the annotation `key`.
fn update_named<'a>(message: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!("{key}="))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_allowed_by_the_names_that_the_operator_tells() {
        let message = "once the annotation readstates.dev/update-database=77c01e2b is set; once the annotation \
                       readstates.dev/update-cache=3f9a12cd is set";
        let named = |key| update_named(message, key);
        assert_eq!(named(labels::UPDATE_CACHE), Some("3f9a12cd"));
        assert_eq!(named(labels::UPDATE_DATABASE), Some("77c01e2b"));
        assert_eq!(named(labels::KEEP_LEG), None);
    }
}
