//! Asks the pod at work how far it is.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use readstates_api::admin::MigrationProgress;

use crate::{
    answers,
    context::Context,
    names::ports,
    words::chain,
    world::{JobOutcome, MigrationSeen, MoveJob},
};

const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of the longest answer: an honest one has 200.
const LONGEST: usize = 4 << 10;

/// What the pod at work says; none: there is none, or it does not say.
pub(super) async fn ask(ctx: &Context, seen: &MigrationSeen) -> Option<MigrationProgress> {
    let jobs = [&seen.jobs.moving, &seen.jobs.ahead];
    let job = jobs.into_iter().flatten().find(is_at_work)?;
    match get(ctx, job.ip?).await {
        Ok(told) => told,
        Err(error) => {
            let job = &job.run.job;
            tracing::debug!(job, "progress is not known: {error}");
            None
        }
    }
}

fn is_at_work(job: &&MoveJob) -> bool {
    match job.run.outcome {
        JobOutcome::Running { .. } => !job.suspended,
        JobOutcome::Succeeded | JobOutcome::Failed { .. } | JobOutcome::Going => false,
    }
}

/// It tells nothing that is secret, and the answer only goes into the status: in the clear.
async fn get(ctx: &Context, ip: IpAddr) -> Result<Option<MigrationProgress>, String> {
    let address = SocketAddr::new(ip, ports::WATCH);
    let clients = ctx.connections.of("", None);
    let request = clients.plain().get(format!("http://{address}/progress"));
    let sent = request.timeout(TIMEOUT).send().await;
    let answer = sent.map_err(|error| chain(&error.without_url()))?;
    if !answer.status().is_success() {
        return Err(format!(
            "{}: {}",
            answer.status(),
            answers::words(answer).await
        ));
    }
    let read = answers::json(answer, LONGEST).await;
    read.map_err(|unread| chain(&unread))
}
