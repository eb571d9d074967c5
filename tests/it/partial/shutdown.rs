//! The state of a call after a shutdown during its arguments.

use serde_json::json;

use super::ends::assert_truncated;
use super::{ended, open, piece};
use crate::support::calls::gated;
use crate::support::{Backend, Node};

on_both_databases!(
    async fn killed_service_ends_the_call_as_truncated_at_its_next_start(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        let id = open(&node, "echo", "{\"a\":").await;
        piece(&node, &id, json!({"delta": "1}"})).await;
        node.kill().await;
        node.start_again().await;
        assert_truncated(&ended(&node, &id).await);
        assert_eq!(node.stats("echo").await["execution_count"], 0);
    }
);

on_both_databases!(
    async fn complete_arguments_outlive_a_kill(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        let server = gated("done").await;
        node.tool("job", &server, json!({"limits": {"max_concurrency": 1}})).await;
        let running = node.accepted(json!({"name": "job", "wait": "accepted"})).await;
        server.received(1).await;
        let id = open(&node, "job", "{\"text\":").await;
        piece(&node, &id, json!({"delta": "\"x\"}", "final": true})).await;
        node.kill().await;
        server.open();
        node.start_again().await;
        let call = ended(&node, &id).await;
        assert_eq!((&call["status"], &call["arguments"]), (&json!("SUCCESS"), &json!({"text": "x"})), "{call}");
        assert_eq!(ended(&node, &running).await["error"]["code"], "OUTCOME_UNKNOWN");
    }
);
