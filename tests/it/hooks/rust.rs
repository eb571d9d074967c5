//! Hooks written in Rust, as users of the library write them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolpost::app::App;
use toolpost::config::Config;
use toolpost::domain::{Call, Code, FailurePolicy};
use toolpost::hooks::{
    AfterToolCall, BeforeDecision, BeforeToolCall, HookCall, HookError, Rewrite, RustHook, ToolResultPersist,
};

use crate::support::bounded;

/// A hook that adds a member, blocks forbidden calls, and panics on request.
struct Gate;

impl BeforeToolCall for Gate {
    async fn before_tool_call(&self, call: HookCall) -> Result<BeforeDecision, HookError> {
        match call.arguments["do"].as_str() {
            Some("block") => Ok(BeforeDecision::Block(Some("forbidden".into()))),
            Some("fail") => Err("broken".into()),
            Some("panic") => panic!("secret-panic-text"),
            Some("hang") => std::future::pending().await,
            _ => Ok(BeforeDecision::Arguments(Map::from_iter([("by".to_owned(), Value::from("gate"))]))),
        }
    }
}

struct Notes(mpsc::UnboundedSender<HookCall>);

impl AfterToolCall for Notes {
    async fn after_tool_call(&self, call: HookCall) -> Result<(), HookError> {
        self.0.send(call).map_err(|_| "nobody listens".into())
    }
}

struct Slim;

impl ToolResultPersist for Slim {
    async fn tool_result_persist(&self, call: HookCall) -> Result<Rewrite, HookError> {
        let length = call.result.map_or(0, |result| result.output.len());
        Ok(Rewrite { output: Some(format!("{length} bytes")), ..Rewrite::default() })
    }
}

async fn app(hooks: impl IntoIterator<Item = RustHook>) -> App {
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".into();
    hooks.into_iter().fold(App::builder(config), |builder, hook| builder.hook(hook)).start().await.unwrap()
}

async fn call(app: &App, arguments: Value) -> Arc<Call> {
    bounded("a call", app.call("echo", arguments)).await.unwrap()
}

fn code(call: &Call) -> Option<Code> {
    call.outcome.as_ref().unwrap().error.as_ref().map(|failure| failure.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_three_kinds_of_rust_hooks_work_together() {
    let (sender, mut notifications) = mpsc::unbounded_channel();
    let app = app([RustHook::before(Gate), RustHook::after(Notes(sender)), RustHook::persist(Slim)]).await;
    let ended = call(&app, json!({"a": 1})).await;
    assert_eq!(ended.outcome.as_ref().unwrap().output, r#"{"a":1,"by":"gate"}"#);
    let stored = app.store.call(ended.id).await.unwrap().unwrap();
    assert_eq!(stored.outcome.as_ref().unwrap().output, "19 bytes");
    let after = bounded("the after hook", notifications.recv()).await.unwrap();
    assert_eq!((after.id, after.result), (ended.id, ended.outcome.clone()));
    assert_eq!(*after.arguments, json!({"a": 1, "by": "gate"}));
    assert_eq!(code(&*call(&app, json!({"do": "block"})).await), Some(Code::ToolBlocked));
    let counts = app.engine.hooks().counts();
    assert_eq!((counts.blocked(), counts.failed(), counts.dropped()), (1, 0, 0));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_panicking_or_hanging_rust_hook_is_a_failed_hook() {
    for (policy, expected) in [(FailurePolicy::Open, None), (FailurePolicy::Closed, Some(Code::HookFailed))] {
        let app = app([RustHook::before(Gate).timeout_ms(50).failure_policy(policy)]).await;
        for way in ["fail", "panic", "hang"] {
            let ended = call(&app, json!({"do": way})).await;
            assert_eq!(code(&ended), expected, "{way}");
            assert!(!format!("{ended:?}").contains("secret-panic-text"));
        }
        assert_eq!(app.engine.hooks().counts().failed(), 3);
        app.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_hook_is_invoked_for_the_tools_that_it_names() {
    let app = app([RustHook::before(Gate).tools(["mail*"])]).await;
    assert_eq!(call(&app, json!({"do": "block"})).await.outcome.as_ref().unwrap().output, r#"{"do":"block"}"#);
    assert_eq!(app.engine.hooks().counts().invocations(), 0);
    app.stop().await;
}
