//! Traces over OTLP/HTTP: spans at a stub collector continue the caller's trace down to the tool.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, Backend, HttpTool, Node, eventually};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A stub of an OTLP collector.
struct Collector {
    url: String,
    taken: ReceivedExports,
    server: tokio::task::AbortHandle,
}

type ReceivedExports = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

impl Collector {
    async fn start() -> Self {
        let taken = ReceivedExports::default();
        let router = axum::Router::new().route("/v1/traces", post(take)).with_state(taken.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await }).abort_handle();
        Self { url, taken, server }
    }

    /// Starts a service that exports its traces to this collector after a short delay.
    async fn node(&self) -> Node {
        let settings = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", self.url.as_str()),
            ("OTEL_SERVICE_NAME", "under-test"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ];
        Node::start(Backend::Sqlite, &settings).await
    }

    fn spans(&self) -> Vec<Span> {
        let taken = self.taken.lock().unwrap();
        let scopes = taken.iter().flat_map(|one| &one.resource_spans).flat_map(|one| &one.scope_spans);
        scopes.flat_map(|one| one.spans.clone()).collect()
    }

    /// Waits until a trace has `count` spans, and returns them.
    async fn trace(&self, id: &str, count: usize) -> Vec<Span> {
        let spans = || self.spans().into_iter().filter(|span| hex(&span.trace_id) == id).collect::<Vec<_>>();
        eventually("the spans", || async { (spans().len() >= count).then(spans) }).await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(taken): State<ReceivedExports>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    taken.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
    StatusCode::OK
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fact(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.clone()?.value? {
        AnyValue::StringValue(text) => Some(text),
        AnyValue::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_continue_the_trace_of_the_caller_to_the_tool() {
    let collector = Collector::start().await;
    let node = collector.node().await;
    let server = HttpTool::answering(Answer::text("done")).await;
    node.http_tool("t", &server).await;
    let headers = [("traceparent", &*format!("00-{TRACE}-{CALLER}-01"))];
    let call = node.post_with("/tool-calls", &headers, &json!({"name": "t", "id": "call_1"})).await.ok();
    assert_eq!(succeeded(&call), "done");
    let spans = collector.trace(TRACE, 3).await;
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let request = named(&spans, "POST /tool-calls");
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(fact(request, "http.response.status_code").as_deref(), Some("200"));
    let of_call = named(&spans, "execute_tool t");
    assert_eq!(of_call.parent_span_id, request.span_id);
    assert_eq!(fact(of_call, "toolpost.call.id").as_deref(), call["id"].as_str());
    assert_eq!(fact(of_call, "gen_ai.tool.call.id").as_deref(), Some("call_1"));
    assert_eq!(fact(of_call, "toolpost.call.status").as_deref(), Some("SUCCESS"));
    let attempt = named(&spans, "attempt");
    assert_eq!(attempt.parent_span_id, of_call.span_id);
    let passed_on = server.request().header("traceparent").to_owned();
    assert_eq!(passed_on, format!("00-{TRACE}-{}-01", hex(&attempt.span_id)));
    let taken = collector.taken.lock().unwrap();
    let resource = taken[0].resource_spans[0].resource.as_ref().unwrap();
    let name = resource.attributes.iter().find(|attribute| attribute.key == "service.name").unwrap();
    let name = name.value.clone().unwrap().value.unwrap();
    assert_eq!(name, AnyValue::StringValue("under-test".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_is_a_failed_span_and_an_unknown_name_is_no_span_name() {
    const ERROR: i32 = 2;
    let collector = Collector::start().await;
    let mut node = collector.node().await;
    let headers = [("traceparent", &*format!("00-{TRACE}-{CALLER}-01"))];
    let body = json!({"calls": [{"name": "invented"}, {"name": "calculate", "arguments": {"expression": "1/"}}]});
    node.post_with("/tool-calls", &headers, &body).await.ok();
    // The remaining spans are exported at shutdown.
    node.signal("TERM");
    assert_eq!(node.end().await.code, Some(0));
    let spans = collector.trace(TRACE, 4).await;
    assert!(spans.iter().all(|span| !span.name.contains("invented")), "{spans:#?}");
    for (name, code) in [("execute_tool", "TOOL_NOT_FOUND"), ("execute_tool calculate", "TOOL_EXECUTION_ERROR")] {
        let span = named(&spans, name);
        assert_eq!(span.status.as_ref().unwrap().code, ERROR, "{span:#?}");
        assert_eq!(fact(span, "error.type").as_deref(), Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsampled_trace_is_not_recorded_and_its_id_is_passed_on() {
    let collector = Collector::start().await;
    let mut node = collector.node().await;
    let server = HttpTool::answering(Answer::text("done")).await;
    node.http_tool("t", &server).await;
    let headers = [("traceparent", &*format!("00-{TRACE}-{CALLER}-00"))];
    node.post_with("/tool-calls", &headers, &json!({"name": "t"})).await.ok();
    node.signal("TERM");
    assert_eq!(node.end().await.code, Some(0));
    let passed_on = server.request().header("traceparent").to_owned();
    assert!(passed_on.starts_with(&format!("00-{TRACE}-")) && passed_on.ends_with("-00"), "{passed_on}");
    let spans = collector.spans();
    assert!(!spans.is_empty() && spans.iter().all(|span| hex(&span.trace_id) != TRACE), "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_without_the_collector_and_one_warning_is_logged() {
    let collector = Collector::start().await;
    // The collector no longer listens.
    let url = collector.url.clone();
    collector.server.abort();
    eventually("the collector to go", || async { reqwest_fails(&url).await.then_some(()) }).await;
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "20")];
    let mut node = Node::start(Backend::Sqlite, &settings).await;
    for _ in 0..3 {
        succeeded(&node.call("echo", json!({})).await);
    }
    failed(&node.call("nope", json!({})).await, "TOOL_NOT_FOUND");
    node.signal("TERM");
    let ended = node.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.err.matches("traces cannot be sent").count(), 1, "{}", ended.err);
}

async fn reqwest_fails(url: &str) -> bool {
    crate::support::Client::new(url).request(reqwest::Method::GET, "/").send().await.is_err()
}
