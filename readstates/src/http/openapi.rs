//! The OpenAPI document, generated from the handlers and the wire types.

use utoipa::OpenApi;

use super::{admin, mentions, probes, read_states};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Readstates",
        description = "What every user has read of every channel. Any member answers any request. \
            Paths under /admin are on the admin port. Every answer carries x-readstates-ring, the \
            number of the ring. A request with x-readstates-direct: 1 is answered by the user's \
            owner, or with 421. Refusals with status 429 and 503 carry Retry-After."
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
        probes::ring,
        probes::livez,
        probes::readyz,
        probes::metrics,
        admin::status,
        admin::flush,
        admin::set_capacity,
    )
)]
struct Document;

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
