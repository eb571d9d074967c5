//! Spans by the OpenTelemetry SDK, exported as protobuf over HTTP by the client that is here anyway.
//!
//! The SDK gathers ended spans in a queue of a bounded length and sends them from a thread of its own; what does not fit is
//! dropped. No call waits for a collector.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{self, Span as _, SpanBuilder, Status, TraceFlags, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use super::SpanKind;
use crate::config::Telemetry;

/// How long the last spans may take to be sent at the end.
const LAST_SPANS: Duration = Duration::from_secs(5);
/// How long the collector may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Most of an answer that is read: it says nothing that is needed.
const LONGEST_ANSWER: usize = 64 * 1024;

/// One service's SDK.
#[derive(Debug)]
pub struct Provider {
    sdk: SdkTracerProvider,
    tracer: SdkTracer,
}

/// A span under way.
#[derive(Debug)]
pub struct Live(opentelemetry_sdk::trace::Span);

impl Provider {
    pub fn new(settings: &Telemetry) -> Result<Self, String> {
        let endpoint = traces_url(settings.otlp_endpoint.trim())?;
        let client = Client::new(&endpoint).map_err(|error| error.to_string())?;
        let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint.as_str()).with_http_client(client);
        let exporter = exporter.build().map_err(|error| error.to_string())?;
        let resource = Resource::builder()
            .with_service_name(settings.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let sdk = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        let tracer = sdk.tracer("toolpost");
        Ok(Self { sdk, tracer })
    }

    pub fn begin(&self, kind: SpanKind, parent: Option<&str>, name: String) -> Live {
        let kind = match kind {
            SpanKind::Server => trace::SpanKind::Server,
            SpanKind::Client => trace::SpanKind::Client,
            SpanKind::Internal => trace::SpanKind::Internal,
        };
        let context = match parent {
            Some(parent) => TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(parent)),
            None => Context::new(),
        };
        Live(self.tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), &context))
    }

    pub fn stop(&self) {
        // What could not be sent was told by the client.
        let _ = self.sdk.shutdown_with_timeout(LAST_SPANS);
    }
}

/// `ENDPOINT/v1/traces`, as `OTEL_EXPORTER_OTLP_ENDPOINT` is meant.
fn traces_url(endpoint: &str) -> Result<url::Url, String> {
    match url::Url::parse(endpoint) {
        Ok(mut url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
            url.set_path(&path);
            Ok(url)
        }
        Ok(_) => Err(format!("\"{endpoint}\" is no http or https address")),
        Err(error) => Err(format!("\"{endpoint}\" is no address: {error}")),
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

/// A `traceparent` for the propagator, which asks for headers.
struct Parent<'p>(&'p str);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

/// Sends in the service's runtime what the SDK's thread waits for.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
    /// Without what may be secret in it.
    shown: String,
    is_away: AtomicBool,
}

impl Client {
    fn new(endpoint: &url::Url) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().timeout(ANSWER).redirect(reqwest::redirect::Policy::none()).build()?;
        let shown = endpoint.origin().ascii_serialization();
        Ok(Self { http, runtime: Handle::current(), shown, is_away: AtomicBool::new(false) })
    }

    /// Told once when it goes wrong and once when it is well again.
    fn note(&self, fault: Option<String>) {
        match (fault, self.is_away.load(Ordering::Relaxed)) {
            (Some(fault), false) => tracing::warn!(collector = self.shown, fault, "traces cannot be sent"),
            (None, true) => tracing::info!(collector = self.shown, "traces are sent again"),
            (fault, _) => return drop(fault),
        }
        self.is_away.fetch_xor(true, Ordering::Relaxed);
    }
}

impl HttpClient for Client {
    // What `#[async_trait]` makes of it.
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
            self.note(match &sent {
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
        if body.len() + chunk.len() > LONGEST_ANSWER {
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
    fn an_endpoint_is_the_beginning_of_an_address() {
        let url = |endpoint| traces_url(endpoint).map(String::from);
        assert_eq!(url("http://collector:4318").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(url("https://c.example/otlp/").unwrap(), "https://c.example/otlp/v1/traces");
        for wrong in ["collector:4318", "ftp://c", "", "http://"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
