//! Calls of other tools, as a key with a tool restriction sees them.

use reqwest::Method;
use serde_json::{Value, json};

use super::{keyed, service};
use crate::mcp::modern;
use crate::support::app::echo_tool;
use crate::support::calls::id_of;
use crate::support::client::send;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Client};

async fn for_echo(operator: &Client) -> Client {
    keyed(operator, json!({"scopes": ["call", "read"], "tools": ["echo", "read_result", "call_tool"]})).await
}

fn names(page: &Value) -> Vec<&str> {
    page["tool_calls"].as_array().unwrap().iter().map(|call| call["name"].as_str().unwrap()).collect()
}

on_both_databases!(
    async fn lists_show_only_calls_of_listed_tools(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let call = |name: &str| json!({"name": name, "arguments": {"expression": "1"}});
        for _ in 0..3 {
            operator.batch(json!({"calls": [call("echo"), call("calculate"), call("calculate")]})).await;
        }
        let client = for_echo(&operator).await;
        let page = client.get("/tool-calls?limit=2").await.ok();
        assert_eq!(names(&page), ["echo", "echo"]);
        let cursor = page["next_cursor"].as_str().unwrap();
        let rest = client.get(&format!("/tool-calls?limit=2&cursor={cursor}")).await.ok();
        assert_eq!((names(&rest), &rest["next_cursor"]), (vec!["echo"], &Value::Null));
        let batch = rest["tool_calls"][0]["batch_id"].as_str().unwrap();
        assert_eq!(names(&client.get(&format!("/tool-calls?batch_id={batch}")).await.ok()), ["echo"]);
        assert_eq!(names(&client.get("/tool-calls?name=calculate").await.ok()), [""; 0]);
        assert_eq!(names(&operator.get("/tool-calls").await.ok()).len(), 9);
    }
);

on_both_databases!(
    async fn idempotency_key_of_an_unlisted_tools_call_gives_no_outcome(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let client = for_echo(&operator).await;
        let calculate = json!({"name": "calculate", "arguments": {"expression": "6 * 7"}});
        let key = [("idempotency-key", "one")];
        succeeded(&operator.post_with("/tool-calls", &key, &calculate).await.ok());
        let refused = client.post_with("/tool-calls", &key, &calculate).await;
        assert!(!refused.text().contains("SUCCESS"), "{}", refused.text());
        assert_eq!(refused.problem(422)["code"], "IDEMPOTENCY_KEY_REUSED");
        // A batch or an event stream does not return the call either.
        let batch = json!({"calls": [{"name": "echo", "arguments": {}}, calculate]});
        let key = [("idempotency-key", "two")];
        operator.post_with("/tool-calls", &key, &batch).await.ok();
        let with_events = [key[0], ("accept", "text/event-stream")];
        for headers in [&key[..], &with_events] {
            let refused = client.post_with("/tool-calls", headers, &batch).await;
            assert_eq!(refused.problem(422)["code"], "IDEMPOTENCY_KEY_REUSED");
        }
        // The key can replay its own requests, and other keys' requests for its tools.
        let key = [("idempotency-key", "three")];
        for replayed in ["", "true"] {
            let answer = client.post_with("/tool-calls", &key, &calculate).await;
            assert_eq!(answer.header("idempotency-replayed"), replayed);
            failed(&answer.ok(), "TOOL_NOT_FOUND");
        }
        let echo = json!({"name": "echo", "arguments": {"m": 1}});
        let key = [("idempotency-key", "four")];
        let first = operator.post_with("/tool-calls", &key, &echo).await.ok();
        assert_eq!(client.post_with("/tool-calls", &key, &echo).await.ok()["id"], first["id"]);
    }
);

on_both_databases!(
    async fn task_of_an_unlisted_tool_does_not_exist(backend: Backend) {
        let (_app, operator) = service(backend).await;
        operator
            .register(json!({"name": "ext", "description": "x", "input_schema": {"type": "object"},
                "executor": {"type": "external"}}))
            .await;
        let id = operator.accepted(json!({"name": "ext", "wait": "accepted"})).await;
        operator.in_phase(&id, "external").await;
        let client = for_echo(&operator).await;
        let knows = json!({"io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = send(modern(&client, method, json!({"taskId": id}), knows.clone())).await;
            assert_eq!(answer.json["error"]["code"], -32602, "{method}: {}", answer.text());
        }
        assert_eq!(operator.stored(&id).await["status"], "DOING");
    }
);

on_both_databases!(
    async fn result_of_an_unlisted_tool_is_not_read_again(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let client = for_echo(&operator).await;
        let read =
            async |client: &Client, call: &Value| client.call("read_result", json!({"call_id": call["id"]})).await;
        let calculated = operator.call("calculate", json!({"expression": "6 * 7"})).await;
        let echoed = operator.call("echo", json!({"m": 1})).await;
        succeeded(&read(&operator, &calculated).await);
        succeeded(&read(&client, &echoed).await);
        failed(&read(&client, &calculated).await, "TOOL_EXECUTION_ERROR");
    }
);

on_both_databases!(
    async fn arguments_that_name_the_tool_use_the_same_allow_list(backend: Backend) {
        let app = App::tuned(backend, |config| config.tools.discovery = true).await;
        let operator = app.with_key(&app.key(json!({"scopes": ["admin"]})).await.0);
        let client = for_echo(&operator).await;
        let partial = json!({"name": "call_tool", "partial": true, "arguments": ""});
        let arguments = r#"{"name": "calculate", "arguments": {"expression": "6 * 7"}}"#;
        let rest = json!({"delta": arguments, "final": true});
        let supply = async |client: &Client, id: &str| {
            send(client.request(Method::PATCH, &format!("/tool-calls/{id}/arguments")).json(&rest)).await
        };
        let opened = operator.accepted(partial.clone()).await;
        supply(&client, &opened).await.problem(404);
        assert_eq!(operator.stored(&opened).await["phase"], "arguments");
        let own = client.accepted(partial).await;
        // The call may have ended before the response.
        let supplied = supply(&client, &own).await;
        assert!([200, 202].contains(&supplied.status), "{}", supplied.text());
        failed(&operator.ended(&own).await, "TOOL_NOT_FOUND");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn session_without_other_tools_can_be_ended_by_a_restricted_key() {
    let (_app, operator) = service(Backend::Sqlite).await;
    operator.register(echo_tool("other", json!({"type": "object"}))).await;
    let client = for_echo(&operator).await;
    for (session, tool) in [("own", "echo"), ("ended", "other")] {
        let call = operator.call_with(json!({"name": tool, "session": session})).await;
        assert!(!id_of(&call).is_empty());
        assert_eq!(client.post_empty(&format!("/sessions/{session}/abort")).await.status, 202);
        assert_eq!(client.delete(&format!("/sessions/{session}")).await.status, 204);
    }
}
