use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::*;
use crate::executor::ResultSlot;
use crate::executor::emitter::{self, Report, ReportReceiver};
use crate::tool::{Json, NoArgs, object};
use toolpost_core::domain::call::{Progress, StatusUpdate};
use toolpost_core::domain::event::Emission;
use toolpost_core::domain::{Code, ContentBlock};

/// Creates an invocation of a tool called `t`, and the receiver of its reports.
pub(in crate::tool) fn invocation(arguments: Value) -> (Invocation, ReportReceiver) {
    let (emitter, reports) = emitter::channel();
    let invocation = Invocation {
        id: Uuid::from_u128(1),
        context: Arc::default(),
        agent: None,
        redaction: None,
        session: None,
        session_snapshot: None,
        tenant: toolpost_core::domain::Tenant::default(),
        allowed: None,
        call_id: "call_1".into(),
        name: "t".into(),
        naming: toolpost_core::domain::Naming::default(),
        arguments: Arc::new(arguments),
        attempt: 2,
        output: toolpost_core::domain::limits::Bounds::default(),
        timeout_ms: 30_000,
        idle_timeout_ms: None,
        elapsed_ms: 0,
        awaits_external: false,
        result_slot: ResultSlot::default(),
        traceparent: Some("00-a-b-01".into()),
        emitter,
        cancel: CancellationToken::new(),
    };
    (invocation, reports)
}

/// A span of time.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Span {
    from: u32,
    to: u32,
}

/// A tool that returns the length of a span and counts its calls.
#[derive(Default)]
struct Length {
    calls: Arc<Mutex<u32>>,
}

impl Tool for Length {
    const NAME: &'static str = "length";
    type Args = Span;
    type Output = u32;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.title("Length").read_only()
    }

    fn validate(&self, span: &Span) -> Result<(), Vec<InvalidArgument>> {
        assert!(span.from != 13, "unlucky");
        if span.to < span.from { Err(vec![InvalidArgument::at("/to", "is before \"from\"")]) } else { Ok(()) }
    }

    async fn call(&self, span: Span, _: Run) -> Result<u32, ToolError> {
        *self.calls.lock().unwrap() += 1;
        Ok(span.to - span.from)
    }
}

#[tokio::test]
async fn definition_comes_from_argument_type() {
    let tool = BuiltinTool::new(Length::default());
    assert_eq!((tool.definition.name.as_str(), tool.definition.display_name()), ("length", "Length"));
    assert_eq!(tool.definition.description, "A span of time.");
    assert_eq!(tool.definition.input_schema["required"], json!(["from", "to"]));
    assert!(tool.definition.annotations.read_only);
    assert_eq!(tool.invoke(json!({"from": 1, "to": 4})).await, Ok(ToolOutput::Json(json!(3))));
}

#[tokio::test]
async fn failed_validation_prevents_the_run() {
    let calls = Arc::new(Mutex::new(0));
    let tool = BuiltinTool::new(Length { calls: calls.clone() });
    let arguments = json!({"from": 2, "to": 1});
    let failure = tool.invoke(arguments.clone()).await.unwrap_err();
    assert_eq!(failure.code, Code::ToolValidationError);
    assert_eq!(failure.text, "Error: Invalid parameters for tool \"length\"\n- /to: is before \"from\"");
    let details = failure.details.unwrap();
    let expected =
        json!([{"pointer": "/to", "message": "is before \"from\"", "keyword": "validate", "expected": null}]);
    assert_eq!(details["validation_errors"], expected);
    assert_eq!((&details["received"], &details["expected_schema"]), (&arguments, &tool.definition.input_schema));
    assert_eq!(*calls.lock().unwrap(), 0);

    let validate = tool.validate.unwrap();
    assert_eq!(validate(&arguments), Err(vec![InvalidArgument::at("/to", "is before \"from\"")]));
    assert_eq!(validate(&json!({"from": 1, "to": 2})), Ok(()));
    assert_eq!(*calls.lock().unwrap(), 0);
}

#[tokio::test]
async fn panic_in_validation_is_a_validation_error() {
    let tool = BuiltinTool::new(Length::default());
    let arguments = json!({"from": 13, "to": 14});
    assert_eq!(tool.invoke(arguments.clone()).await.unwrap_err().message, "the tool panicked: unlucky");
    let invalid = (tool.validate.unwrap())(&arguments).unwrap_err();
    assert_eq!(invalid, [InvalidArgument::at("", "the check of the arguments panicked: unlucky")]);
}

#[tokio::test]
async fn arguments_rejected_by_the_type_are_reported_with_pointer() {
    let tool = tool_fn("t", "", |spans: std::collections::BTreeMap<String, Vec<Span>>| Ok(spans.len()));
    let failure = tool.invoke(json!({"a": [{"from": 1, "to": 2}, {"from": 1, "to": -2}]})).await.unwrap_err();
    assert_eq!(failure.code, Code::ToolValidationError);
    let line = "- /a/1/to: invalid value: integer `-2`, expected u32";
    assert_eq!(failure.text, format!("Error: Invalid parameters for tool \"t\"\n{line}"));
    assert_eq!(failure.details.unwrap()["validation_errors"][0]["keyword"], "type");
}

#[tokio::test]
async fn tools_can_be_functions() {
    let sync = tool_fn("span", "Its length", |span: Span| Ok(span.to - span.from))
        .with_definition(|about| about.title("Span"));
    let asynchronous = async_tool_fn("span", "Its length", |span: Span, run| async move {
        run.tip("measuring");
        Ok(span.to - span.from)
    });
    let blocking = blocking_tool_fn("span", "Its length", |span: Span, run| {
        run.tip("measuring");
        Ok(span.to - span.from)
    });
    assert_eq!((sync.definition.description.as_str(), sync.definition.display_name()), ("Its length", "Span"));
    for tool in [sync, asynchronous, blocking] {
        assert_eq!(tool.invoke(json!({"from": 1, "to": 4})).await, Ok(ToolOutput::Json(json!(3))));
    }
}

#[tokio::test]
async fn error_message_comes_from_the_tool() {
    let tool = tool_fn("t", "", |_: NoArgs| Ok(std::fs::read_to_string("/nowhere/at/all")?));
    let failure = tool.invoke(json!({})).await.unwrap_err();
    assert_eq!(failure.code, Code::ToolExecutionError);
    assert_eq!(failure.text, "Error executing tool \"t\": No such file or directory (os error 2)");
    assert!(tool.invoke(json!({"x": 1})).await.is_err_and(|failure| failure.code == Code::ToolValidationError));
}

/// Panics if the arguments request it.
async fn moody(arguments: Value) -> Result<Value, ToolError> {
    assert_eq!(arguments["mood"], "good", "in a bad mood");
    Ok(arguments)
}

#[tokio::test]
async fn panic_fails_only_its_own_call() {
    let asynchronous = async_tool_fn("moody", "", |arguments: Value, _| moody(arguments));
    let at_once = async_tool_fn("moody", "", |arguments: Value, _| {
        assert_eq!(arguments["mood"], "good", "in a bad mood");
        std::future::ready(Ok(arguments))
    });
    let blocking = blocking_tool_fn("moody", "", |arguments: Value, _| {
        assert_eq!(arguments["mood"], "good", "in a bad mood");
        Ok(arguments)
    });
    for tool in [asynchronous, at_once, blocking] {
        let (bad, good) = tokio::join!(tool.invoke(json!({"mood": "bad"})), tool.invoke(json!({"mood": "good"})));
        let failure = bad.unwrap_err();
        assert_eq!(failure.code, Code::ToolExecutionError);
        assert!(failure.message.starts_with("the tool panicked: ") && failure.message.contains("in a bad mood"));
        assert_eq!(good, Ok(ToolOutput::Json(json!({"mood": "good"}))));
    }
    let silent = tool_fn("t", "", |_: NoArgs| -> Result<(), ToolError> { std::panic::panic_any(7) });
    assert_eq!(silent.invoke(json!({})).await.unwrap_err().message, "the tool panicked: no panic message");
}

/// A guard that sends a message when it is dropped.
struct Trap(Option<oneshot::Sender<()>>);

impl Drop for Trap {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[tokio::test]
async fn dropping_the_future_stops_an_async_tool() {
    let (sender, mut dropped) = oneshot::channel();
    let trap = Mutex::new(Some(Trap(Some(sender))));
    let went_on = Arc::new(AtomicBool::new(false));
    let later = went_on.clone();
    let tool = async_tool_fn("t", "", move |_: NoArgs, run: Run| {
        let (trap, later) = (trap.lock().unwrap().take(), later.clone());
        async move {
            let _trap = trap;
            run.tip("begun");
            run.cancelled().await;
            later.store(true, Ordering::Relaxed);
            Ok(())
        }
    });
    let (invocation, mut reports) = invocation(json!({}));
    let running = tokio::spawn(tool.executor.execute(invocation));
    reports.next().await;
    assert!(dropped.try_recv().is_err(), "it has begun and not ended");
    running.abort();
    dropped.await.unwrap();
    assert!(!went_on.load(Ordering::Relaxed));
}

/// Creates a tool that blocks its thread until it is cancelled and then reports it.
fn stubborn() -> (BuiltinTool, oneshot::Receiver<bool>) {
    let (sender, stopped) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let tool = blocking_tool_fn("t", "", move |_: NoArgs, run| {
        run.tip("begun");
        while !run.is_cancelled() {
            std::thread::yield_now();
        }
        sender.lock().unwrap().take().unwrap().send(run.is_cancelled()).unwrap();
        Ok(())
    });
    (tool, stopped)
}

#[tokio::test]
async fn dropping_the_future_cancels_a_blocking_tool() {
    let (tool, stopped) = stubborn();
    let (invocation, mut reports) = invocation(json!({}));
    let service = invocation.cancel.clone();
    let running = tokio::spawn(tool.executor.execute(invocation));
    reports.next().await;
    running.abort();
    assert!(stopped.await.unwrap());
    assert!(!service.is_cancelled(), "only this run's own token was used up");
}

#[tokio::test]
async fn cancelling_the_run_cancels_a_blocking_tool() {
    let (tool, stopped) = stubborn();
    let (invocation, mut reports) = invocation(json!({}));
    let cancel = invocation.cancel.clone();
    let running = tokio::spawn(tool.executor.execute(invocation));
    reports.next().await;
    cancel.cancel();
    assert!(stopped.await.unwrap());
    assert_eq!(running.await.unwrap(), Ok(ToolOutput::Nothing));
}

#[tokio::test]
async fn reports_of_a_run_reach_its_call() {
    let tool = async_tool_fn("t", "", |_: NoArgs, run: Run| async move {
        run.tip("one");
        run.params([("city", "Bern")]);
        run.params(object([("size", json!({"x": 1}))]));
        run.metadata([("rows", 3)]);
        run.progress(1, 4, "a quarter");
        run.progress(f64::NAN, 4, "nonsense");
        run.emit("seen").await;
        run.emit(Emission { details: object([("rows", 3)]), ..Emission::default() }).await;
        run.steps_done(2, "half");
        Ok(Json((run.id(), run.call_id().to_owned(), run.name().to_owned(), run.attempt(), run.timeout_ms())))
    });
    let (invocation, mut reports) = invocation(json!({}));
    let answer = tool.executor.execute(invocation).await.unwrap();
    let expected = json!(["00000000-0000-0000-0000-000000000001", "call_1", "t", 2, 30_000]);
    assert_eq!(answer, ToolOutput::Data(Arc::new(expected)));
    let progress = |current, total, message: &str| Some(Progress { current, total, message: Some(message.into()) });
    let status = Report::Status(StatusUpdate {
        tip: Some("one".into()),
        params: object([("city", json!("Bern")), ("size", json!({"x": 1}))]),
        metadata: object([("rows", 3)]),
        progress: progress(1.0, Some(4.0), "a quarter"),
        phase: None,
    });
    assert_eq!(reports.take(), Some(status));
    assert_eq!(reports.take(), Some(Report::Emission(vec![ContentBlock::Text("seen".into())].into())));
    let details = Emission { details: object([("rows", 3)]), ..Emission::default() };
    assert_eq!(reports.take(), Some(Report::Emission(details)));
    let last = StatusUpdate { progress: progress(2.0, None, "half"), ..StatusUpdate::default() };
    assert_eq!(reports.take(), Some(Report::Status(last)));
}
