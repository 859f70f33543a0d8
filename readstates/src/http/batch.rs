//! `POST /v1/batch`: many operations of many users, in binary.
//!
//! A frame of any version comes in ([`version`], [`import`]); its records are applied here and by the other owners
//! ([`rounds`]), and the answer has the version of the request.

mod import;
mod rounds;
mod version;

use http::HeaderValue;
use hyper::body::Incoming;
use readstates_api::{
    Problem, ProblemType,
    batch::{AnyRequest, MEDIA_TYPE},
};

use self::{
    import::Third,
    version::{First, Frames, Second},
};
use super::{
    App,
    body::{self, Arrived},
    head::Head,
    precondition,
    reply::{self, Answer},
};
use crate::operation::Class;

/// Many operations on many users, in binary
///
/// Little endian. A request is a header of 16 bytes (`RSB1`, version 1 as u8, flags 0 as u8, u16 0, the count of
/// records as u32, u32 0) and 1 to 65,536 records of 32 bytes (op as u8, u8 0, u16 0, arg as u32, user, channel and
/// message as u64). Op 1 acknowledges, 2 acknowledges manually (arg is the mention count), 3 mentions (arg is the
/// increment, at least 1). The answer is the same header with `RSR1`, then one byte for each record in order: 0
/// applied, 1 ignored, 2 bad record, 3 not accepted (try later), 4 outcome unknown (send again).
///
/// In version 2 the header is `RSB2` with version 2, and op 4 reads one channel (arg and message are 0), which needs the
/// verb `read` as well. The answer is a header with `RSR2` and version 2, then a row of 48 bytes for each record in
/// order: outcome as u8, u8 0, the day of the last visit as u16, mention count as u32, flags as u32, u32 0, the user's
/// version, last message, last pin in Unix milliseconds and the state's version as u64; 0 where there is none. Outcomes
/// 0 to 4 are as above; 5 found, 6 no such read state, 7 refused because the user has the most read states, 8 not
/// accepted because the owner does not know version 2 (send it as a request of its own), 9 the caller may not read.
///
/// Version 3 imports read states of another system, which needs the verb `import` as well. The header is `RSB3` with
/// version 3, and records have 56 bytes: op 5 as u8, 1 if flags are given as u8, the day of the last visit as u16,
/// mention count and flags as u32, u32 0, user, channel, last message, the newest message that the count includes, and
/// last pin in Unix milliseconds as u64; 0 where there is none. A record sets what is absent, moves nothing back, and
/// may be sent again. The answer is a header with `RSR3` and version 3, then one byte for each record in order: 0 to 4
/// as above, 7 refused because the user has the most read states, 8 not accepted because the owner does not know
/// version 3.
///
/// A member that does not know a version refuses the frame with 400 and does nothing.
#[utoipa::path(
    post, path = "/v1/batch", operation_id = "applyBatch", tag = "batch",
    request_body(content = super::schemas::BatchFrame, content_type = "application/vnd.readstates.batch"),
    responses(
        (status = 200, body = super::schemas::BatchFrame,
         content_type = "application/vnd.readstates.batch",
         description = "The result of each record, in order"),
        super::schemas::Refused,
    )
)]
pub(super) async fn batch(app: &App, head: &Head, content: Incoming) -> Answer {
    body::require(&head.headers, MEDIA_TYPE)?;
    let of_one = "If-Match is the version of one user, and a batch is of many; leave it out";
    precondition::none(&head.headers, of_one)?;
    app.gates.look(Class::Batches)?;
    let body = body::read(&app.gates, content).await?;
    let _permit = app.gates.enter(Class::Batches)?;
    let _from = app
        .gates
        .enter_from(&app.ownership.routes(), &head.headers)?;
    // A handle to the same bytes: the records lie in it while the body is given away.
    let bytes = body.bytes.clone();
    let request = AnyRequest::parse(&bytes)
        .map_err(|error| Problem::new(ProblemType::MalformedBody, error.to_string()))?;
    // One of three, each in a box of its own size.
    match request {
        AnyRequest::V1(request) => Box::pin(answer::<First>(app, head, body, request.raw())).await,
        AnyRequest::V2(request) => Box::pin(answer::<Second>(app, head, body, request.raw())).await,
        AnyRequest::V3(request) => {
            import::allowed(head)?;
            Box::pin(answer::<Third>(app, head, body, request.raw())).await
        }
    }
}

/// Applies the records. Memory for the answer is taken before that: what is done is also answered.
async fn answer<F: Frames>(
    app: &App,
    head: &Head,
    mut body: Arrived,
    records: &[F::Raw],
) -> Answer {
    body.count_work(&app.gates, records.len() * rounds::work_bytes::<F>())?;
    let answers = rounds::apply::<F>(app, head, records).await?;
    F::note(head, &answers);
    Ok(reply::shared(
        HeaderValue::from_static(MEDIA_TYPE),
        body.lend(F::encode_answer(&answers)),
    ))
}
