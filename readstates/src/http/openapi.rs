//! The OpenAPI document, generated from the handlers and the wire types.

use std::collections::BTreeMap;

use readstates_api::{Id, Problem};
use utoipa::{
    IntoParams, IntoResponses, Modify, OpenApi, ToSchema,
    openapi::{
        self, ContentBuilder, Header, Ref, RefOr, Response, ResponseBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
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
    components(schemas(Problem)),
    modifiers(&Callers),
    // Where no access file names callers, nobody has to be one.
    security((), ("bearer" = []), ("certificate" = [])),
)]
struct Document;

/// How callers prove who they are.
struct Callers;

impl Modify for Callers {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "The token of a caller of the access file, or of a Kubernetes service account that the file names, for \
                 the audience readstates.",
            ))
            .build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let certificate = SecurityScheme::MutualTls {
            description: Some(
                "A client certificate for a DNS name of the access file, where the member asks for one."
                    .to_owned(),
            ),
            deprecated: None,
            extensions: None,
        };
        components.add_security_scheme("certificate", certificate);
    }
}

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
            .content("application/problem+json", problem.clone())
            .build();
        let unknown = ResponseBuilder::new()
            .description(
                "The member has callers, and the request does not prove which of them sends it",
            )
            .header("www-authenticate", Header::default())
            .content("application/problem+json", problem.clone())
            .build();
        let forbidden = ResponseBuilder::new()
            .description("The caller lacks the verb that the problem's detail names")
            .content("application/problem+json", problem)
            .build();
        BTreeMap::from([
            ("401".into(), unknown.into()),
            ("403".into(), forbidden.into()),
            ("default".into(), refusal.into()),
        ])
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
