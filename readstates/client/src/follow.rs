//! Following the ring: one task of a client that waits for the next one.
//!
//! ```text
//! GET /v1/ring?after=N ── 200 ──▶ adopt, wait for the one after it
//!        │        ▲  └─── 304 ──▶ the same again
//!        │        └─── a hint (421, x-readstates-ring): ask the member that gave it, now
//!        └─ no answer, a refusal ──▶ a pause, another seed
//! ```
//! There is one such task, so however many requests meet a stale ring, it is fetched once.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use readstates_api::RingDocument;
use tokio::{sync::watch, time::sleep};

use crate::{
    exchange::{self, Answer, Destination, Exchanges, Silence},
    retry::pause,
    ring::Ring,
    routes::{Hint, Routes},
};

/// A member answers after 30 s at the latest.
const POLL_TIMEOUT: Duration = Duration::from_secs(35);
/// A ring that is there already comes at once.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// After a hint, how long the member that is asked already has to give the new ring by itself; drawn by
/// lot, so that clients which learn of it together do not ask together.
const GRACE: Duration = Duration::from_millis(30);
/// Between two attempts to get a ring.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After so many answers in a row by which the ring has a lower number than ours, it has started over: a
/// cluster was deleted and created again. A member that only lags catches up long before.
const STARTED_OVER: u32 = 3;

/// The result of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// There is a newer ring, and it was taken.
    Newer,
    /// There is none yet.
    Same,
    /// The member works by an older one.
    Behind,
    /// No answer, or a refusal.
    Failed,
}

/// Follows the ring until the task is aborted. Cancel-safe: a ring is taken whole or not at all.
pub(crate) async fn follow(exchanges: Arc<Exchanges>, routes: Arc<Routes>) {
    let mut hints = routes.hints();
    let (mut failed, mut behind) = (0_u32, 0_u32);
    let mut source = routes.seed();
    // The first question is not to wait: any ring will do.
    let mut wait = false;
    // Each hint is followed once: the member that gave it may be gone, or not know better after all.
    let mut tried = 0;
    loop {
        let known = routes.number();
        let after = (wait && known > 0).then_some(known);
        let asked = tokio::select! {
            asked = ask(&exchanges, &routes, &source, after) => asked,
            // Dropping a question that waits ends it, and nothing else.
            hint = hinted(&mut hints, known.max(tried)), if wait => {
                tried = hint.number;
                source = hint.at;
                wait = false;
                continue;
            }
        };
        wait = true;
        behind = if asked == Asked::Behind {
            behind + 1
        } else {
            0
        };
        failed = match asked {
            Asked::Failed => failed + 1,
            Asked::Newer => 0,
            // Where plain questions are answered and those that wait are not, the pauses grow all the same.
            Asked::Same | Asked::Behind if after.is_some() => 0,
            Asked::Same | Asked::Behind => failed,
        };
        match asked {
            Asked::Newer | Asked::Same => {}
            Asked::Behind if behind < STARTED_OVER => {
                source = routes.seed();
                sleep(pause(
                    behind,
                    FIRST_PAUSE,
                    LONGEST_PAUSE,
                    None,
                    rand::random(),
                ))
                .await;
            }
            Asked::Behind => {
                tracing::warn!(known, "the ring has started over");
                start_over(&exchanges, &routes, &source).await;
                (behind, tried) = (0, 0);
            }
            Asked::Failed => {
                source = routes.seed();
                // A plain question next: it is answered where none may wait any more.
                wait = false;
                sleep(pause(
                    failed,
                    FIRST_PAUSE,
                    LONGEST_PAUSE,
                    None,
                    rand::random(),
                ))
                .await;
            }
        }
    }
}

/// Waits for a hint of a ring newer than `known`, and then a moment for the answer that is due anyway.
async fn hinted(hints: &mut watch::Receiver<Option<Hint>>, known: u64) -> Hint {
    let newer = |hint: &Option<Hint>| hint.as_ref().is_some_and(|hint| hint.number > known);
    let hint = match hints.wait_for(newer).await {
        Ok(hint) => hint.clone(),
        Err(_) => None,
    };
    let Some(hint) = hint else {
        // The client is gone, and this task is about to be.
        return std::future::pending().await;
    };
    sleep(GRACE.mul_f64(rand::random())).await;
    hint
}

/// Asks one member for the ring, after the one with number `after` where that is given.
async fn ask(
    exchanges: &Exchanges,
    routes: &Routes,
    source: &Destination,
    after: Option<u64>,
) -> Asked {
    let timeout = if after.is_some() {
        POLL_TIMEOUT
    } else {
        FETCH_TIMEOUT
    };
    let answer = exchanges.ring(source, after, timeout).await;
    let known = routes.number();
    match read(answer) {
        Read::Ring(ring) if ring.number() < known => Asked::Behind,
        Read::Ring(ring) => {
            if routes.adopt(ring, false) {
                Asked::Newer
            } else {
                Asked::Same
            }
        }
        Read::NotNewer(number) if number < known => Asked::Behind,
        Read::NotNewer(_) => Asked::Same,
        Read::Nothing(why) => {
            tracing::debug!(source = source.url, "no ring: {why}");
            Asked::Failed
        }
    }
}

/// Takes the ring that a member has, whatever its number.
async fn start_over(exchanges: &Exchanges, routes: &Routes, source: &Destination) {
    if let Read::Ring(ring) = read(exchanges.ring(source, None, FETCH_TIMEOUT).await) {
        routes.adopt(ring, true);
        routes.forget_hints();
    }
}

enum Read {
    Ring(Ring),
    /// 304 of a member that works by the ring with this number.
    NotNewer(u64),
    Nothing(String),
}

fn read(answer: Result<Answer, Silence>) -> Read {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Silence::Busy) => return Read::Nothing("no turn".into()),
        Err(Silence::Lost { source, .. }) => return Read::Nothing(source.to_string()),
    };
    match answer.status {
        StatusCode::NOT_MODIFIED => {
            let number = exchange::ring_number(&answer.headers);
            number.map_or_else(
                || Read::Nothing("a 304 without a number".into()),
                Read::NotNewer,
            )
        }
        StatusCode::OK => {
            let document = serde_json::from_slice::<RingDocument>(&answer.body);
            match document.map(Ring::try_from) {
                Ok(Ok(ring)) => Read::Ring(ring),
                Ok(Err(error)) => Read::Nothing(error.to_string()),
                Err(error) => Read::Nothing(error.to_string()),
            }
        }
        status => Read::Nothing(format!("answered {status}")),
    }
}
