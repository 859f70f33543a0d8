//! Types that only describe parameters and answers in the OpenAPI documents.

use std::collections::BTreeMap;

use readstates_api::Id;
use utoipa::{
    IntoParams, IntoResponses, ToSchema,
    openapi::{ContentBuilder, Header, Ref, RefOr, Response, ResponseBuilder},
};

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

/// Refusals that every operation for the operator may answer.
pub(super) struct AdminRefused;

impl IntoResponses for AdminRefused {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        BTreeMap::from([
            (
                "4XX".into(),
                refusal("The request was refused, and nothing was done")
                    .build()
                    .into(),
            ),
            ("default".into(), refusal("A refusal").build().into()),
        ])
    }
}

/// Refusals that every operation for callers may answer.
pub(super) struct Refused;

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let unknown = refusal(
            "The member has callers configured, and the request does not authenticate one of them",
        )
        .header("www-authenticate", Header::default());
        let forbidden = refusal("The caller lacks the verb that the problem's detail names");
        BTreeMap::from([
            ("401".into(), unknown.build().into()),
            ("403".into(), forbidden.build().into()),
            (
                "4XX".into(),
                refusal("The request was refused, and nothing was done")
                    .build()
                    .into(),
            ),
            ("default".into(), refusal("A refusal").build().into()),
        ])
    }
}

/// Refusal of a change with `If-Match`.
pub(super) struct VersionMoved;

impl IntoResponses for VersionMoved {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let moved = refusal(
            "The user's version does not match If-Match, and nothing was done; the problem has the current version",
        )
        .header("etag", Header::default());
        BTreeMap::from([("412".into(), moved.build().into())])
    }
}

/// A problem, for this reason.
fn refusal(why: &str) -> ResponseBuilder {
    let problem = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    ResponseBuilder::new()
        .description(why)
        .content("application/problem+json", problem)
}
