//! The OpenAPI document, generated from the handlers and the wire types.

use std::collections::BTreeMap;

use readstates_api::{Id, Problem};
use utoipa::{
    IntoParams, IntoResponses, OpenApi, ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder},
};

use super::{admin, batch, mentions, probes, read_states};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Readstates",
        description = "What every user has read of every channel. Any member answers any request. \
            Paths under /admin are on the admin port, \
            /livez, /readyz and /metrics on the port for probes. Every answer carries x-readstates-ring, the \
            number of the ring. A request with x-readstates-direct: 1 is answered by the user's \
            owner, or with 421; one with x-readstates-timeout is worked on for so many milliseconds at \
            most. Refusals with status 429 and 503 carry Retry-After."
    ),
    paths(
        read_states::list,
        read_states::get,
        read_states::ack,
        read_states::ack_pins,
        read_states::ack_bulk,
        read_states::delete,
        read_states::delete_user,
        read_states::summary,
        mentions::mention,
        batch::batch,
        probes::ring,
        probes::livez,
        probes::readyz,
        probes::metrics,
        admin::status,
        admin::flush,
        admin::set_capacity,
        admin::start_moves,
        admin::drain,
    ),
    components(schemas(Problem))
)]
struct Document;

/// The user in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(super) struct OfUser {
    /// The user
    user: Id,
}

/// The user and the channel in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(super) struct OfChannel {
    /// The user
    user: Id,
    /// The channel
    channel: Id,
}

/// A binary frame.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it only describes")]
pub(super) struct BatchFrame(Vec<u8>);

/// What every operation may answer instead.
pub(super) struct Refused;

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let problem = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("Problem")))
            .build();
        let refusal = ResponseBuilder::new()
            .description("A refusal")
            .content("application/problem+json", problem)
            .build();
        BTreeMap::from([("default".into(), refusal.into())])
    }
}

/// The document, as JSON with a newline at the end.
#[must_use]
pub fn document() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_document_is_what_the_code_says() {
        let committed = include_str!("../../api/openapi.json");
        assert!(
            super::document() == committed,
            "readstates/api/openapi.json is stale; write it again with: \
             cargo run -p readstates -- openapi > readstates/api/openapi.json"
        );
    }
}
