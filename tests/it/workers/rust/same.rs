//! A tool gives the same call in the process of the service and in a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use toolpost::domain::event::Emission;
use toolpost::domain::{ContentBlock, Outcome};
use toolpost::tool::{InstanceScope, Json, NoArgs, Run, Tool, ToolError, ToolFactory, async_tool_fn, object, tool_fn};

use super::{Working, worker};
use crate::support::service::{BuiltinTool, rust_tools};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Options};

#[derive(serde::Deserialize)]
struct User {
    name: String,
}

async fn describes(_: NoArgs, run: Run) -> Result<Value, ToolError> {
    let user: User = run.context("user")?;
    let agent = run.agent().and_then(|agent| agent.name.clone());
    Ok(json!([user.name, agent, run.session(), run.call_id(), run.name(), run.attempt(), run.timeout_ms()]))
}

async fn emits(_: NoArgs, run: Run) -> Result<(), ToolError> {
    for step in 1..=3 {
        run.progress(step, 3, format!("step {step}"));
        run.emit(Emission { content: vec![ContentBlock::Text("x".into())], details: object([("step", step)]) }).await;
    }
    run.metadata([("cost", json!({"usd": 0.1}))]);
    Ok(())
}

/// Returns an outcome with all parts.
fn full() -> Outcome {
    Outcome {
        details: object([("rows", 3)]),
        metadata: object([("source", "test")]),
        structured: Some(Arc::new(json!({"a": [1, null]}))),
        ..Outcome::text("shown")
    }
}

fn fails_busy(_: NoArgs) -> Result<(), ToolError> {
    Err(ToolError::new("busy").retryable_after_ms(700).with_details(json!({"queue": 3})))
}

/// Returns tools for everything that a tool can return and report.
fn tools() -> Vec<BuiltinTool> {
    let mut tools = rust_tools();
    tools.extend([
        async_tool_fn("describes", "Describes its call.", describes)
            .with_definition(|definition| definition.context("user").timeout_ms(20_000)),
        async_tool_fn("emits", "Emits.", emits),
        tool_fn("full", "Returns an outcome.", |_: NoArgs| Ok(full())),
        tool_fn("looks_failed", "Returns data.", |_: NoArgs| Ok(Json(json!({"success": false, "error": "e"})))),
        tool_fn("says_failed", "Returns an error.", |_: NoArgs| Ok(json!({"success": false, "message": "no"}))),
        tool_fn("busy", "Fails for now.", fails_busy),
    ]);
    tools
}

/// Returns the parts of a call that do not depend on where its tool runs.
fn comparable(call: &Value) -> Value {
    let parts = [
        "call_id",
        "name",
        "title",
        "status",
        "output",
        "content",
        "structured",
        "details",
        "metadata",
        "is_error",
        "error",
        "tip",
        "params",
        "progress",
        "arguments",
        "coerced",
    ];
    let mut parts: Value =
        parts.iter().map(|part| ((*part).to_owned(), call[*part].clone())).collect::<Map<_, _>>().into();
    parts["details"].as_object_mut().unwrap().remove("execution_time_ms");
    parts
}

/// Makes a call and returns it with the content that its subscribers got.
async fn made(app: &App, id: String, name: &str, arguments: &Value) -> (Value, Vec<Value>) {
    let body = json!({"name": name, "arguments": arguments, "id": id, "session": "s",
        "agent": {"name": "Ada's agent"}, "context": {"user": {"name": "Ada"}}});
    let call = app.call_with(body).await;
    let id = call["id"].as_str().unwrap();
    let events = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
    let emitted = events.iter().filter(|event| event.event == "progress");
    let emitted = emitted.map(|event| json!([event.data["content"], event.data["details"]])).collect();
    (comparable(&app.stored(id).await), emitted)
}

on_both_databases!(
    async fn moved_tool_gives_the_same_call(backend: Backend) {
        let inside = App::start_with(backend, Options { extra: tools(), ..Options::default() }).await;
        let outside = App::start(backend).await;
        let working = Working::with(&outside, worker(&outside, tools()), "busy").await;
        let calls = [
            ("blocks", json!({"text": "plain"})),
            ("blocks", json!({"text": ""})),
            ("blocks", json!({"texts": 1})),
            ("fails", json!({})),
            ("panics", json!({})),
            ("picky", json!({"n": "4"})),
            ("picky", json!({"n": 5})),
            ("typed", json!({"city": "Rome", "days": 2.0})),
            ("typed", json!({"city": "Rome", "days": 256})),
            ("reports", json!({})),
            ("describes", json!({})),
            ("emits", json!({})),
            ("full", json!({})),
            ("looks_failed", json!({})),
            ("says_failed", json!({})),
            ("busy", json!({})),
        ];
        let mut differences = Vec::new();
        for (number, (name, arguments)) in calls.into_iter().enumerate() {
            let id = format!("call_{number}");
            let expected = made(&inside, id.clone(), name, &arguments).await;
            let found = made(&outside, id, name, &arguments).await;
            if found != expected {
                differences.push(format!(
                    "{name} {arguments}:
{found:?}
in the process:
{expected:?}"
                ));
            }
        }
        assert!(
            differences.is_empty(),
            "{}",
            differences.join(
                "

"
            )
        );
        working.stopped().await;
    }
);

/// Counts the calls of its session.
#[derive(Default)]
struct Counter(AtomicU32);

impl Tool for Counter {
    const NAME: &'static str = "count";
    type Args = NoArgs;
    type Output = u32;

    async fn call(&self, _: NoArgs, _: Run) -> Result<u32, ToolError> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

struct Counters;

impl ToolFactory for Counters {
    type Tool = Counter;
    const SCOPE: InstanceScope = InstanceScope::Session;

    async fn create(&self, _: Run) -> Result<Counter, ToolError> {
        Ok(Counter::default())
    }
}

on_both_databases!(
    async fn factory_creates_instances_in_the_worker(backend: Backend) {
        let app = App::start(backend).await;
        let working = Working::with(&app, worker(&app, [BuiltinTool::from_factory(Counters)]), "count").await;
        for (session, count) in [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3")] {
            let call = app.call_with(json!({"name": "count", "session": session})).await;
            assert_eq!(succeeded(&call), count);
        }
        working.stopped().await;
    }
);

on_both_databases!(
    async fn many_calls_run_at_once(backend: Backend) {
        let app = App::start(backend).await;
        // Each call waits until all have begun.
        let barrier = Arc::new(tokio::sync::Barrier::new(16));
        let tool = async_tool_fn("t", "Meets.", move |_: NoArgs, _: Run| {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                Ok("met")
            }
        });
        let tool = tool.with_definition(|definition| definition.read_only());
        let working = Working::with(&app, worker(&app, [tool]).concurrency(16), "t").await;
        let calls: Vec<Value> = (0..16).map(|_| json!({"name": "t"})).collect();
        for call in app.batch(json!({"calls": calls, "mode": "parallel"})).await {
            assert_eq!(succeeded(&call), "met");
        }
        working.stopped().await;
    }
);
