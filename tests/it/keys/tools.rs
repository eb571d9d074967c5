//! A key with a tool restriction: for it, no other tools exist.

use serde_json::{Value, json};

use super::{keyed, service};
use crate::support::app::echo_tool;
use crate::support::shapes::{failed, names, succeeded};
use crate::support::{Backend, Client};

async fn restricted(operator: &Client) -> Client {
    keyed(operator, json!({"scopes": ["call", "read", "tools"], "tools": ["mail.*", "echo"]})).await
}

on_both_databases!(
    async fn unlisted_tools_do_not_exist_for_a_restricted_key(backend: Backend) {
        let (_app, operator) = service(backend).await;
        for name in ["mail.send", "bank.pay"] {
            operator.register(echo_tool(name, json!({"type": "object"}))).await;
        }
        let client = restricted(&operator).await;
        operator.call("bank.pay", json!({})).await;
        succeeded(&client.call("mail.send", json!({})).await);
        let call = client.call("bank.pay", json!({})).await;
        let text = failed(&call, "TOOL_NOT_FOUND");
        assert_eq!(text.lines().nth(1), Some("Available tools: echo, mail.send"), "{text}");
        assert_eq!(names(&client.get("/tools").await.ok()["tools"]), ["echo", "mail.send"]);
        assert_eq!(names(&client.get("/tools?include_inactive=true").await.ok()["tools"]), ["echo", "mail.send"]);
        for path in [
            "/tools?format=prompt",
            "/tools?format=openai",
            "/tools?q=bank",
            "/tools?q=bank&include_inactive=true",
            "/stats",
            "/tool-groups",
        ] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 200, "{path}");
            assert!(!answer.text().contains("bank"), "{path}: {}", answer.text());
        }
        for path in ["/tools/bank.pay", "/tools/bank.pay/stats", "/tools/bank.pay/presets"] {
            client.get(path).await.problem(404);
        }
        client.post("/tools/bank.pay/validate", &json!({"arguments": {}})).await.problem(404);
        // The same applies in a session, regardless of the tools that it names.
        let session = json!({"id": "s", "tools": ["bank.pay", "mail.send"]});
        assert_eq!(client.post("/sessions", &session).await.status, 201);
        let shown = client.get("/sessions/s").await.ok();
        let tools: Vec<&Value> =
            shown["tool_definitions"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(tools, ["mail.send"]);
        assert!(!client.get("/sessions/s/prompt").await.text().contains("bank"));
        let call = client.call_with(json!({"name": "bank.pay", "session": "s"})).await;
        failed(&call, "TOOL_NOT_FOUND");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn restricted_key_registers_no_other_tools() {
    let (_app, operator) = service(Backend::Sqlite).await;
    operator.register(echo_tool("bank.pay", json!({"type": "object"}))).await;
    assert_eq!(operator.post("/tool-groups", &json!({"name": "g"})).await.status, 201);
    let client = restricted(&operator).await;
    client.register(echo_tool("mail.new", json!({"type": "object"}))).await;
    let other = echo_tool("bank.pay", json!({"type": "object"}));
    client.post("/tools", &other).await.problem(403);
    client.put("/tools/bank.pay", &other).await.problem(403);
    client.delete("/tools/bank.pay").await.problem(404);
    // The key cannot register another tool's code under an allowed name either.
    let mut disguised = echo_tool("mail.wait", json!({"type": "object"}));
    disguised["executor"]["name"] = "wait".into();
    client.post("/tools", &disguised).await.problem(403);
    client.delete("/tool-groups/g").await.problem(403);
    client.post("/tool-groups", &json!({"name": "h"})).await.problem(403);
    client.delete("/stats").await.problem(403);
    assert_eq!(operator.get("/tools/bank.pay").await.status, 200);
}
