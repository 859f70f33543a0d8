//! One message that mentions 30,000 users, told to one of sixteen members, which tells the others.

use std::{
    error::Error,
    fmt::Write as _,
    time::{Duration, Instant},
};

use readstates_api::MentionsAnswer;
use readstates_ring::slot::mix64;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{median, world};

const USERS: u32 = 30_000;
/// Messages to users who are in memory, for each round.
const MESSAGES: u64 = 10;

/// A table.
pub(crate) fn measure(
    runtime: &Runtime,
    rounds: usize,
    numbers: &[u16],
) -> Result<String, Box<dyn Error>> {
    let mut out = String::from(
        "Members in this process, over HTTP on the loopback; ms until the answer that all 30,000 are counted. \
         *first*: nobody is in memory, and the store in memory is asked for each. (Discord has told of 0.9 to 2.1 s \
         for a fan-out to 30,000 in its chat servers: other work, for scale only.)\n\n\
         | members | first, ms | then, p50 ms | max ms | messages |\n|--:|--:|--:|--:|--:|\n",
    );
    for &members in numbers {
        let messages = MESSAGES * rounds as u64;
        let (first, then) = runtime.block_on(mentions(members.into(), messages))?;
        let max = then.iter().copied().fold(0.0, f64::max);
        let count = then.len();
        writeln!(
            out,
            "| {members} | {first:.1} | {:.1} | {max:.1} | {count} |",
            median(then)
        )?;
    }
    Ok(out)
}

/// Milliseconds: of the first message, and of each of the `messages` after it.
async fn mentions(members: usize, messages: u64) -> Result<(f64, Vec<f64>), Box<dyn Error>> {
    let members = world::members(members).await?;
    let client = reqwest::Client::builder().tls_certs_only([]).build()?;
    let url = format!("http://{}/v1/mentions", members[0].http_address);
    let users: Vec<String> = (1..=u64::from(USERS))
        .map(|user| (mix64(user) >> 1).to_string())
        .collect();
    let mut took = Vec::new();
    for message in 1..=messages + 1 {
        let body = json!({
            "channel_id": "10", "message_id": message.to_string(), "user_ids": users,
        })
        .to_string();
        let started = Instant::now();
        let request = client.post(&url).header("content-type", "application/json");
        let answer = request.body(body).send().await?.error_for_status()?;
        let answer: MentionsAnswer = answer.json().await?;
        took.push(started.elapsed().as_secs_f64() * 1e3);
        if answer.applied != USERS {
            return Err(format!("{} of {USERS} users were mentioned", answer.applied).into());
        }
    }
    for member in members {
        member.stop(Duration::from_secs(10)).await;
    }
    Ok((took.remove(0), took))
}
