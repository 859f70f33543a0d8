//! Spans of requests, exported over OTLP where the environment says so (`OTEL_*`, as OpenTelemetry specifies them).
//!
//! Comes in: the `traceparent` of a request. Goes out: one span for the request, one for each time it is passed on to
//! another member, which is told of it. Without `OTEL_EXPORTER_OTLP_ENDPOINT` or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` there is none of this, and a request costs nothing more.

use std::{env, fmt, fs, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::{SpanKind, Status, TraceContextExt, Tracer, TracerProvider},
};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};

/// How long a stop waits for the last spans to be taken.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// Why requests cannot be traced as the environment asks.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Another protocol than the one that is there.
    #[error("{variable}: {value:?} is not spoken here; give http/protobuf, and an endpoint for it")]
    Protocol {
        variable: &'static str,
        value: String,
    },
    /// The CAs cannot be used.
    #[error("OTEL_EXPORTER_OTLP_CERTIFICATE: failed to read {file:?}")]
    Certificate {
        file: PathBuf,
        source: std::io::Error,
    },
    /// There is no HTTP client.
    #[error("failed to set up the HTTP client for OTEL_EXPORTER_OTLP_ENDPOINT")]
    Client(#[from] reqwest::Error),
    /// The exporter refuses what the environment says.
    #[error("OTEL_EXPORTER_OTLP_*")]
    Exporter(#[from] ExporterBuildError),
}

/// Makes spans of requests and exports them.
#[derive(Clone)]
pub struct Tracing(Arc<Inner>);

struct Inner {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").finish_non_exhaustive()
    }
}

impl Tracing {
    /// What the environment asks for; `None`: nothing. Spans are exported by a thread of their own, in batches; when
    /// they come faster than they are taken they are dropped. Not to be called in a runtime.
    ///
    /// # Errors
    /// When it asks for what cannot be had.
    pub fn from_env(member: &str) -> Result<Option<Self>, TraceError> {
        let Some(endpoint) = endpoint(variable)? else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client(&endpoint)?)
            .build()?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource(member))
            .build();
        Ok(Some(Self::of(provider)))
    }

    /// Spans of this provider.
    #[must_use]
    pub fn of(provider: SdkTracerProvider) -> Self {
        Self(Arc::new(Inner {
            tracer: provider.tracer("readstates"),
            provider,
            propagator: TraceContextPropagator::new(),
        }))
    }

    /// Begins the span of a request, within that of its sender.
    pub(crate) fn begin(
        &self,
        method: &'static str,
        route: &'static str,
        headers: &HeaderMap,
    ) -> Span {
        let parent = self
            .0
            .propagator
            .extract_with_context(&Context::new(), &Came(headers));
        let builder = self.0.tracer.span_builder(format!("{method} {route}"));
        let span = builder
            .with_kind(SpanKind::Server)
            .with_attributes([
                KeyValue::new("http.request.method", method),
                KeyValue::new("http.route", route),
            ])
            .start_with_context(&self.0.tracer, &parent);
        Span {
            tracing: self.clone(),
            context: parent.with_span(span),
        }
    }

    /// Exports what is left. Not to be called in a runtime.
    pub fn stop(&self) {
        if let Err(error) = self.0.provider.shutdown_with_timeout(LAST_SPANS) {
            tracing::warn!("the last spans were not exported: {error}");
        }
    }
}

/// What the environment does not say about this process itself.
fn resource(member: &str) -> Resource {
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let says = |key: &str| {
        let mut pairs = attributes
            .split(',')
            .filter_map(|pair| pair.split_once('='));
        pairs.any(|(name, _)| name.trim() == key)
    };
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let mut builder = Resource::builder().with_attribute(version);
    if !says("service.instance.id") {
        let instance = KeyValue::new("service.instance.id", member.to_owned());
        builder = builder.with_attribute(instance);
    }
    if !says("service.name") && variable("OTEL_SERVICE_NAME").is_none() {
        builder = builder.with_service_name("readstates");
    }
    builder.build()
}

fn variable(name: &'static str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where the environment says that spans go; `None`: nowhere.
fn endpoint(of: impl Fn(&'static str) -> Option<String>) -> Result<Option<String>, TraceError> {
    let off = of("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || of("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    let endpoint =
        of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| of("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let Some(endpoint) = endpoint.filter(|_| !off) else {
        return Ok(None);
    };
    let protocols = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    let protocol = protocols
        .into_iter()
        .find_map(|name| Some((name, of(name)?)));
    match protocol {
        Some((variable, value)) if value != "http/protobuf" => {
            Err(TraceError::Protocol { variable, value })
        }
        Some(_) | None => Ok(Some(endpoint)),
    }
}

fn client(endpoint: &str) -> Result<reqwest::blocking::Client, TraceError> {
    let builder = reqwest::blocking::Client::builder();
    let builder = match variable("OTEL_EXPORTER_OTLP_CERTIFICATE") {
        Some(file) => {
            let pem = fs::read(&file).map_err(|source| TraceError::Certificate {
                file: file.into(),
                source,
            })?;
            builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem)?)
        }
        // A container may have no certificates of a system, and needs none for this.
        None if endpoint.starts_with("http:") => builder.tls_certs_only([]),
        None => builder,
    };
    Ok(builder.build()?)
}

/// The span of one request; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Span {
    tracing: Tracing,
    context: Context,
}

impl Span {
    /// The id of the trace that it belongs to.
    pub(crate) fn trace_id(&self) -> String {
        self.context.span().span_context().trace_id().to_string()
    }

    /// Begins a span for passing the request on to this member, and says so in the headers.
    pub(crate) fn pass_on(&self, member: &str, headers: &mut HeaderMap) -> Self {
        let Inner {
            tracer, propagator, ..
        } = &*self.tracing.0;
        let builder = tracer.span_builder("forward");
        let span = builder
            .with_kind(SpanKind::Client)
            .with_attributes([KeyValue::new("readstates.member", member.to_owned())])
            .start_with_context(tracer, &self.context);
        let context = self.context.with_span(span);
        propagator.inject_context(&context, &mut Goes(headers));
        Self {
            tracing: self.tracing.clone(),
            context,
        }
    }

    /// What became of the request.
    pub(crate) fn answered(&self, status: StatusCode, request_id: Option<&str>) {
        let span = self.context.span();
        span.set_attribute(KeyValue::new(
            "http.response.status_code",
            i64::from(status.as_u16()),
        ));
        if let Some(id) = request_id {
            span.set_attribute(KeyValue::new("readstates.request_id", id.to_owned()));
        }
        if status.is_server_error() {
            span.set_status(Status::error(""));
        }
    }
}

/// The headers of a request that came.
struct Came<'a>(&'a HeaderMap);

impl Extractor for Came<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// The headers of a request that goes.
struct Goes<'a>(&'a mut HeaderMap);

impl Injector for Goes<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value))
            && !value.is_empty()
        {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_nowhere_unless_an_endpoint_says_where() {
        let of = |set: &'static [(&'static str, &'static str)]| {
            let found = move |name: &'static str| {
                let is = |(known, _): &&(&str, &str)| *known == name;
                set.iter().find(is).map(|(_, value)| (*value).to_owned())
            };
            endpoint(found).map_err(|error| error.to_string())
        };
        assert_eq!(of(&[]), Ok(None));
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        let traces = (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://b:4318/v1/traces",
        );
        assert_eq!(
            of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318")]),
            Ok(Some(all.1.into()))
        );
        assert_eq!(
            of(&[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"),
                (
                    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                    "http://b:4318/v1/traces"
                ),
            ]),
            Ok(Some(traces.1.into()))
        );
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            let set: &'static [_] = vec![all, off].leak();
            assert_eq!(of(set), Ok(None), "{off:?}");
        }
        let grpc = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ]);
        assert!(grpc.unwrap_err().contains("http/protobuf"));
    }
}
