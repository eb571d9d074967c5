//! Behavior between the signal and the exit.

use serde_json::json;

use super::{busy, node, terminate, turned_away};
use crate::support::calls::{gated, id_of};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Answer, Backend, HttpTool};

on_both_databases!(
    async fn running_call_ends_and_no_new_one_begins(backend: Backend) {
        let (mut node, server, waiting) = busy(backend, "60000", json!({})).await;
        terminate(&node).await;
        turned_away(node.post("/tool-calls", &json!({"name": "echo"})).await);
        turned_away(node.post("/tool-calls", &json!({"calls": [{"name": "echo"}]})).await);
        turned_away(node.post("/tool-calls", &json!({"name": "act", "wait": "accepted"})).await);
        let events = [("accept", "text/event-stream")];
        turned_away(node.post_with("/tool-calls", &events, &json!({"name": "echo"})).await);
        assert_eq!(node.get("/healthz").await.status, 200);
        assert_eq!(node.all_calls().await.len(), 1);
        server.open();
        let call = waiting.await.unwrap().ok();
        assert_eq!(succeeded(&call), "in time");
        assert_eq!(node.end().await.code, Some(0));
        node.start_again().await;
        assert_eq!(node.all_calls().await, [call]);
    }
);

on_both_databases!(
    async fn unfinished_call_is_settled_at_the_deadline(backend: Backend) {
        let (mut node, server, waiting) = busy(backend, "300", json!({})).await;
        let accepted = node.accepted(json!({"name": "act", "wait": "accepted"})).await;
        server.received(2).await;
        node.signal("TERM");
        let call = waiting.await.unwrap().ok();
        let output = failed(&call, "SHUTTING_DOWN");
        assert!(output.starts_with("Error: "), "{output}");
        assert_eq!((&call["error"]["retryable"], &call["attempts"]), (&json!(true), &json!(1)));
        assert_eq!(node.end().await.code, Some(0));
        node.start_again().await;
        assert_eq!(node.stored(&id_of(&call)).await, call);
        failed(&node.stored(&accepted).await, "SHUTTING_DOWN");
        assert_eq!(server.requests().len(), 2);
        let stats = node.stats("act").await;
        assert_eq!(stats["failures_by_code"], json!({"SHUTTING_DOWN": 2}));
    }
);

on_both_databases!(
    async fn stream_of_calls_has_its_end(backend: Backend) {
        let (mut node, server) = (node(backend, "60000").await, gated("in time").await);
        node.http_tool("act", &server).await;
        let mut stream = node.call_streamed(&json!({"name": "act"})).await;
        let mut events = stream.until(|event| event.is_status("DOING")).await;
        let mut all = node.events("/events").await;
        terminate(&node).await;
        server.open();
        events.extend(stream.rest().await);
        assert_eq!((statuses(&events), count(&events, "batch")), (vec!["WAIT", "DOING", "SUCCESS"], 1));
        all.rest().await;
        assert_eq!(node.end().await.code, Some(0));
    }
);

on_both_databases!(
    async fn stream_of_unfinished_calls_says_so(backend: Backend) {
        let (mut node, server) = (node(backend, "300").await, HttpTool::answering(Answer::Never).await);
        node.http_tool("act", &server).await;
        let mut stream = node.call_streamed(&json!({"name": "act"})).await;
        let mut events = stream.until(|event| event.is_status("DOING")).await;
        node.signal("TERM");
        events.extend(stream.rest().await);
        let last = &events[events.len() - 1];
        assert_eq!((last.event.as_str(), count(&events, "tool_result")), ("batch", 1));
        failed(&last.data["results"][0], "SHUTTING_DOWN");
        server.closed().await;
        assert_eq!(node.end().await.code, Some(0));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_stops_immediately() {
    for second in ["TERM", "INT"] {
        let (mut node, _server, waiting) = busy(Backend::Sqlite, "60000", json!({})).await;
        terminate(&node).await;
        node.signal(second);
        let code = node.end().await.code;
        assert!(code.is_some_and(|code| code != 0), "{code:?}");
        assert!(waiting.await.is_err(), "its connection breaks");
        node.start_again().await;
        let call = node.ended(&node.only("act").await).await;
        failed(&call, "OUTCOME_UNKNOWN");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_service_stops_immediately() {
    for signal in ["TERM", "INT"] {
        let mut node = node(Backend::Sqlite, "60000").await;
        node.signal(signal);
        assert_eq!(node.end().await.code, Some(0));
    }
}

on_both_databases!(
    async fn caller_waiting_for_a_retry_learns_that_there_is_none(backend: Backend) {
        let busy = Answer::status(503, "text/plain", "busy");
        let (mut node, server) = (node(backend, "300").await, HttpTool::answering(busy).await);
        let retry = json!({"max_attempts": 9, "initial_backoff_ms": 600_000, "max_backoff_ms": 600_000});
        node.tool("act", &server, json!({"annotations": {"idempotent": true}, "retry": retry})).await;
        let waiting = node.posted(json!({"name": "act"}));
        server.received(1).await;
        node.in_phase(&node.only("act").await, "retrying").await;
        node.signal("TERM");
        let call = waiting.await.unwrap().ok();
        failed(&call, "SHUTTING_DOWN");
        assert_eq!((&call["attempts"], server.requests().len()), (&json!(1), 1));
        assert_eq!(node.end().await.code, Some(0));
    }
);
