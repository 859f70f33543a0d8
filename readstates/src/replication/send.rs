//! Carries an owner's frames to one backup: the next leaves when the one before is acknowledged.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use readstates_ring::Incarnation;
use tokio::time::{sleep, timeout};

use super::{owner::Owner, wire::Said};

/// Without anything to send, a frame leaves after this: it permits answers, and says that the owner lives.
const IDLE: Duration = Duration::from_millis(250);
/// Between two attempts with the same frame.
const AGAIN: Duration = Duration::from_millis(20);
/// How long one attempt may take. An owner gives a backup up earlier.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way to one backup.
pub(crate) trait Carry: Send + Sync + 'static {
    /// Carries a frame; returns what the backup says, if it says anything.
    fn carry(&self, frame: Vec<u8>) -> BoxFuture<'_, Option<Said>>;
}

/// Sends until the process is forgotten.
pub(crate) async fn keep_sending(owner: Arc<Owner>, to: Incarnation, way: impl Carry) {
    loop {
        // Cancel-safe: what has gathered is taken by the next frame.
        let _ = timeout(IDLE, owner.gathered(to)).await;
        let Some(frame) = owner.leave(to) else {
            return;
        };
        loop {
            // Not cancel-safe: the backup may have accepted it. It acknowledges it again.
            let said = timeout(PATIENCE, way.carry(frame.bytes.clone())).await;
            if owner.acknowledged(to, &frame, said.unwrap_or_default().as_ref()) {
                break;
            }
            sleep(AGAIN).await;
        }
    }
}
