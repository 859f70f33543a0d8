//! The OpenAPI documents, one for callers and one for those who run the service, generated from the handlers and the wire types.

use std::sync::LazyLock;

use bytes::Bytes;
use http::Response;
use readstates_api::Problem;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, RefOr, Schema,
        schema::{SchemaType, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{
    admin, batch, changes, mentions, probes, read_states,
    reply::{self, Body},
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Readstates",
        description = "What every user has read in every channel. Any member answers any request. Every answer carries \
            x-readstates-ring, the number of the ring. A request with x-readstates-direct: 1 is answered by the user's \
            owner, or with 421; x-readstates-timeout limits the work on a request to this many milliseconds. \
            An x-request-id is returned in the answer, in problems and in logs. Refusals with \
            status 429 and 503 carry Retry-After."
    ),
    paths(
        read_states::list,
        read_states::get,
        changes::ack,
        changes::ack_pins,
        changes::ack_bulk,
        changes::delete,
        changes::delete_user,
        read_states::summary,
        mentions::mention,
        batch::batch,
        probes::ring,
    ),
    components(schemas(Problem)),
    modifiers(&Callers, &Parameters),
    servers(
        (url = "http://localhost:7400", description = "The default port of `readstates serve`"),
        (url = "http://{service}.{namespace}.svc:7400", description = "The Service of a ReadStateCluster, from inside its Kubernetes cluster",
         variables(("service" = (default = "chat", description = "Name of the Service")),
                   ("namespace" = (default = "default", description = "Namespace of the Service")))),
    ),
    tags(
        (name = "read states", description = "The read states of one user"),
        (name = "mentions", description = "One message for many users"),
        (name = "batch", description = "Thousands of operations in one frame"),
        (name = "ring", description = "The owners of the slots"),
    ),
    // Without an access file no credentials are needed.
    security((), ("bearer" = []), ("certificate" = [])),
)]
struct Api;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Readstates administration",
        description = "Paths under /admin are on the admin port of each member and require the operator's certificate; \
            /livez, /readyz and /metrics are on the port for probes, without authentication."
    ),
    paths(
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
    modifiers(&Operator, &Parameters),
    servers(
        (url = "http://localhost:7401", description = "The admin port of `readstates serve`; probes are on 7404"),
    ),
    tags(
        (name = "probes", description = "On the port for probes"),
        (name = "admin", description = "On the admin port"),
    ),
    security(("operator" = [])),
)]
struct Admin;

/// Authentication of the operator.
struct Operator;

impl Modify for Operator {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let certificate = SecurityScheme::MutualTls {
            description: Some(
                "The operator's certificate for this cluster. A member without --members-tls-dir listens on \
                 loopback only, and requires none."
                    .to_owned(),
            ),
            deprecated: None,
            extensions: None,
        };
        components.add_security_scheme("operator", certificate);
    }
}

/// Authentication of callers.
struct Callers;

impl Modify for Callers {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "The token of a caller in the access file, or of a Kubernetes service account named there, for \
                 the audience readstates.",
            ))
            .build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let certificate = SecurityScheme::MutualTls {
            description: Some(
                "A client certificate for a DNS name in the access file, if the member requests one."
                    .to_owned(),
            ),
            deprecated: None,
            extensions: None,
        };
        components.add_security_scheme("certificate", certificate);
    }
}

/// A parameter that is left out is not there, rather than null.
struct Parameters;

impl Modify for Parameters {
    fn modify(&self, document: &mut openapi::OpenApi) {
        for item in document.paths.paths.values_mut() {
            let operations = [
                &mut item.get,
                &mut item.post,
                &mut item.put,
                &mut item.delete,
            ];
            for operation in operations.into_iter().flatten() {
                for parameter in operation.parameters.iter_mut().flatten() {
                    if let RefOr::T(parameter) = parameter {
                        parameter.schema = parameter.schema.take().map(without_null);
                    }
                }
            }
        }
    }
}

fn without_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            if let SchemaType::Array(types) = &mut object.schema_type {
                types.retain(|one| *one != Type::Null);
                if let [one] = &types[..] {
                    object.schema_type = SchemaType::Type(one.clone());
                }
            }
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::OneOf(mut any)) if any.items.len() == 2 => any.items.remove(1),
        other => other,
    }
}

/// The document of the API, for callers: JSON with a newline at the end.
#[must_use]
pub fn document() -> String {
    text(&Api::openapi())
}

/// The document of the admin port and of that for probes.
#[must_use]
pub fn admin_document() -> String {
    text(&Admin::openapi())
}

fn text(document: &openapi::OpenApi) -> String {
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The document of the API, as an answer.
pub(super) fn served() -> Response<Body> {
    // It is the same for as long as the process runs.
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().into());
    reply::shared_json(DOCUMENT.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use readstates_api::Id;
    use serde_json::Value;

    use super::super::route::Resource;
    use crate::operation::{Operation, Port};

    #[test]
    fn the_committed_documents_are_what_the_code_says() {
        let api = include_str!("../../api/openapi.json");
        let admin = include_str!("../../api/openapi-admin.json");
        for (file, committed, now) in [
            ("openapi.json", api, super::document()),
            ("openapi-admin.json", admin, super::admin_document()),
        ] {
            assert!(
                now == committed,
                "readstates/api/{file} is stale: hack/generate writes it again"
            );
        }
    }

    /// Methods and paths of a document.
    fn operations(document: &str) -> BTreeSet<(String, String)> {
        let document: Value = serde_json::from_str(document).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let operations = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        });
        operations.collect()
    }

    #[test]
    fn each_document_has_the_operations_of_its_ports_and_no_others() {
        let on = |ports: &[Port]| -> BTreeSet<_> {
            let id = Id::new(1).expect("an id");
            let is_on = |operation: Operation, port: Port| {
                let path = operation.path(id, Some(id));
                let method = operation.method().parse().expect("a method");
                let resource = Resource::at(port, &path);
                resource.is_some_and(|resource| resource.operation(&method) == Ok(operation))
            };
            let operations = Operation::ALL.iter().filter(|&&operation| {
                // The document does not describe itself.
                operation != Operation::Openapi && ports.iter().any(|&port| is_on(operation, port))
            });
            operations
                .map(|operation| (operation.method().to_owned(), operation.route().to_owned()))
                .collect()
        };
        assert_eq!(operations(&super::document()), on(&[Port::Api]));
        let run = on(&[Port::Admin, Port::Watch]);
        assert_eq!(operations(&super::admin_document()), run);
    }
}
