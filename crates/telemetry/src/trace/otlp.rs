//! The backend of a build with traces: the OpenTelemetry SDK, which exports protobuf over HTTP.
//!
//! The SDK collects ended spans in a bounded queue and sends them from its own thread. Spans that exceed the queue are
//! dropped, so a slow collector never delays a call.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
pub use opentelemetry::trace::SpanKind;
use opentelemetry::trace::{Span as _, SpanBuilder, Status, TraceFlags, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

/// Timeout for sending the last spans at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the response of the collector.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response that is read. Its content is not needed.
const MAX_RESPONSE: usize = 64 * 1024;

/// The SDK of a service.
#[derive(Debug)]
pub struct Provider {
    sdk: SdkTracerProvider,
    tracer: SdkTracer,
}

/// A span in progress.
#[derive(Debug)]
pub struct Live(opentelemetry_sdk::trace::Span);

impl Provider {
    pub fn new(endpoint: &str, service_name: &str) -> Result<Self, String> {
        let endpoint = traces_url(endpoint)?;
        let client = Client::new(&endpoint).map_err(|error| error.to_string())?;
        let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint.as_str()).with_http_client(client);
        let exporter = exporter.build().map_err(|error| error.to_string())?;
        let resource = Resource::builder()
            .with_service_name(service_name.to_owned())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let sdk = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        let tracer = sdk.tracer("toolpost");
        Ok(Self { sdk, tracer })
    }

    pub fn begin(&self, kind: SpanKind, parent: Option<&str>, name: String) -> Live {
        let context = match parent {
            Some(parent) => TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(parent)),
            None => Context::new(),
        };
        Live(self.tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), &context))
    }

    pub fn stop(&self) {
        // The client has already logged a failed export.
        let _ = self.sdk.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// Returns `ENDPOINT/v1/traces`, as specified for `OTEL_EXPORTER_OTLP_ENDPOINT`.
fn traces_url(endpoint: &str) -> Result<url::Url, String> {
    match url::Url::parse(endpoint) {
        Ok(mut url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
            url.set_path(&path);
            Ok(url)
        }
        Ok(_) => Err(format!("\"{endpoint}\" is not an http or https URL")),
        Err(error) => Err(format!("\"{endpoint}\" is not a valid URL: {error}")),
    }
}

impl Live {
    pub fn set(&mut self, name: &'static str, value: &str) {
        if self.0.is_recording() {
            self.0.set_attribute(KeyValue::new(name, value.to_owned()));
        }
    }

    pub fn set_number(&mut self, name: &'static str, value: i64) {
        self.0.set_attribute(KeyValue::new(name, value));
    }

    pub fn fail(&mut self, kind: &str) {
        self.set("error.type", kind);
        self.0.set_status(Status::error(kind.to_owned()));
    }

    pub fn traceparent(&self) -> String {
        let context = self.0.span_context();
        let flags = context.trace_flags() & TraceFlags::SAMPLED;
        format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), flags)
    }
}

/// A `traceparent` as the header of a request, for the propagator.
struct Parent<'p>(&'p str);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

/// An HTTP client that runs the requests of the SDK's thread in the runtime of the service.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
    /// The origin of the endpoint, without parts that can be secret.
    shown: String,
    is_failing: AtomicBool,
}

impl Client {
    fn new(endpoint: &url::Url) -> Result<Self, reqwest::Error> {
        let http =
            reqwest::Client::builder().timeout(RESPONSE_TIMEOUT).redirect(reqwest::redirect::Policy::none()).build()?;
        let shown = endpoint.origin().ascii_serialization();
        Ok(Self { http, runtime: Handle::current(), shown, is_failing: AtomicBool::new(false) })
    }

    /// Logs the first failure and the first success after it.
    fn log_change(&self, fault: Option<String>) {
        match (fault, self.is_failing.load(Ordering::Relaxed)) {
            (Some(fault), false) => tracing::warn!(collector = self.shown, fault, "traces cannot be sent"),
            (None, true) => tracing::info!(collector = self.shown, "traces are sent again"),
            (fault, _) => return drop(fault),
        }
        self.is_failing.fetch_xor(true, Ordering::Relaxed);
    }
}

impl HttpClient for Client {
    // The signature that `#[async_trait]` generates.
    fn send_bytes<'c, 'f>(
        &'c self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let sent = self.runtime.spawn(send(self.http.clone(), request)).await;
            let sent = sent.unwrap_or_else(|gone| Err(gone.into()));
            self.log_change(match &sent {
                Ok(answer) if answer.status().is_success() => None,
                Ok(answer) => Some(answer.status().to_string()),
                Err(error) => Some(error.to_string()),
            });
            sent
        })
    }
}

async fn send(http: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let mut answer = http.execute(request.try_into()?).await.map_err(reqwest::Error::without_url)?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        headers.clone_from(answer.headers());
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(response.body(body.into())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_the_prefix_of_the_url() {
        let url = |endpoint| traces_url(endpoint).map(String::from);
        assert_eq!(url("http://collector:4318").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(url("https://c.example/otlp/").unwrap(), "https://c.example/otlp/v1/traces");
        for wrong in ["collector:4318", "ftp://c", "", "http://"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
