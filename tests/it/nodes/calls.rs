//! Messages to calls of another node.

use serde_json::{Value, json};
use toolpost::tool::{NoArgs, async_tool_fn};

use super::{answers, pair, signalled};
use crate::support::calls::id_of;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options, bounded, eventually};

/// Starts a call of an external tool on a node.
async fn call_external(node: &App) -> String {
    let definition = json!({"name": "ask", "description": "x", "input_schema": {"type": "object"},
        "executor": {"type": "external"}});
    node.register(definition).await;
    let id = node.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    node.in_phase(&id, "external").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_reaches_the_node_of_the_call() {
    requires_postgres!();
    let (started, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let hold = async_tool_fn("hold", "Never ends.", move |_: NoArgs, _| {
        let started = started.clone();
        async move {
            started.send(()).unwrap();
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let options = Options { extra: vec![hold], configure: Some(super::never_poll), ..Options::default() };
    let one = App::start_with(Backend::Postgres, options).await;
    let other = one.second().await;
    let answer = one.post("/tool-calls", &json!({"name": "hold", "wait": "accepted"})).await;
    let id = id_of(&answer.json);
    bounded("the start", begun.recv()).await;
    assert_eq!(other.cancel(&id).await.status, 202);
    failed(&one.ended(&id).await, "CANCELLED");
    signalled(&one, "inbox").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn report_and_result_reach_the_node_of_the_call() {
    requires_postgres!();
    let (one, other) = pair().await;
    let id = call_external(&one).await;
    answers(&other, "/tools/ask", 200).await;
    let report = json!({"tip": "half way"});
    assert_eq!(other.post(&format!("/tool-calls/{id}/progress"), &report).await.status, 202);
    eventually("the report", || async { (one.stored(&id).await["tip"] == "half way").then_some(()) }).await;
    let posted = other.post(&format!("/tool-calls/{id}/result"), &json!("done")).await;
    assert!((200..300).contains(&posted.status), "{}", posted.text());
    assert_eq!(succeeded(&one.ended(&id).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_cancellations_reach_their_calls() {
    requires_postgres!();
    let (one, other) = pair().await;
    let definition = json!({"name": "ask", "description": "x", "input_schema": {"type": "object"},
        "executor": {"type": "external"}});
    one.register(definition).await;
    let calls: Vec<Value> = (0..200).map(|_| json!({"name": "ask"})).collect();
    let accepted = one.post("/tool-calls", &json!({"calls": calls, "session": "s", "wait": "accepted"})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    assert_eq!(other.post_empty("/sessions/s/abort").await.status, 202);
    eventually("the end of all calls", || async {
        (one.get("/sessions/s").await.ok()["pending"] == json!([])).then_some(())
    })
    .await;
}
