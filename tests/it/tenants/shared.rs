//! Equal names in two tenants are independent; declarations of the server are shared.

use serde_json::{Value, json};

use super::{service, tenant};
use crate::support::app::echo_tool;
use crate::support::shapes::{failed, names, succeeded};
use crate::support::{App, Backend, Client, Options};

/// Registers a tool that returns `{"says": says}`.
async fn tool(client: &Client, name: &str, says: &str) {
    let schema = json!({"type": "object", "properties": {"says": {"const": says, "default": says}}});
    client.register(echo_tool(name, schema)).await;
}

on_both_databases!(
    async fn tool_of_one_tenant_neither_exists_for_another_nor_hides_its_own(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let (one, other) = (tenant(&operator, "one").await, tenant(&operator, "other").await);
        tool(&one, "mine", "one").await;
        assert_eq!(one.call("mine", json!({})).await["structured"], json!({"says": "one"}));
        let call = other.call("mine", json!({})).await;
        let text = failed(&call, "TOOL_NOT_FOUND");
        assert!(!text.lines().nth(1).unwrap_or_default().contains("mine"), "{text}");
        tool(&other, "mine", "other").await;
        // Shadows a tool of the server for one tenant only.
        tool(&other, "echo", "hidden").await;
        assert_eq!(other.call("mine", json!({})).await["structured"], json!({"says": "other"}));
        assert_eq!(other.call("echo", json!({})).await["structured"], json!({"says": "hidden"}));
        for client in [&one, &operator] {
            assert_eq!(client.call("echo", json!({})).await["structured"], json!({}));
        }
        assert_eq!(one.call("mine", json!({})).await["structured"], json!({"says": "one"}));
        let counts = |stats: &Value| (stats["success_count"].clone(), stats["rejected_count"].clone());
        assert_eq!(counts(&one.stats("mine").await), (json!(2), json!(0)));
        assert_eq!(counts(&other.stats("mine").await), (json!(1), json!(0)));
        operator.get("/tools/mine/stats").await.problem(404);
        assert_eq!(one.delete("/tools/mine").await.status, 204);
        assert!(names(&other.get("/tools").await.ok()["tools"]).contains(&"mine"));
        assert!(!names(&one.get("/tools").await.ok()["tools"]).contains(&"mine"));
    }
);

on_both_databases!(
    async fn keys_of_requests_and_sessions_of_one_name_are_two(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let (one, other) = (tenant(&operator, "one").await, tenant(&operator, "other").await);
        let mut calls = Vec::new();
        for (client, text) in [(&one, "1"), (&other, "2"), (&one, "1")] {
            let body = json!({"name": "echo", "arguments": {"t": text}, "session": "s"});
            let answer = client.post_with("/tool-calls", &[("idempotency-key", "same")], &body).await.ok();
            assert_eq!(answer["structured"], json!({"t": text}));
            calls.push(answer["id"].clone());
        }
        assert_eq!(calls[0], calls[2]);
        for (client, call) in [(&one, &calls[0]), (&other, &calls[1])] {
            let session = client.get("/sessions/s").await.ok();
            let seen: Vec<&Value> = session["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
            assert_eq!(seen, [call]);
        }
        assert_eq!(one.delete("/sessions/s").await.status, 204);
        assert_eq!(other.get("/sessions/s").await.status, 200);
    }
);

on_both_databases!(
    async fn rows_of_a_tenant_survive_a_restart(backend: Backend) {
        let (app, operator) = service(backend).await;
        let (key, _) = operator.key(json!({"scopes": ["admin"], "tenant": "one"})).await;
        let one = operator.with_key(&key);
        tool(&one, "mine", "one").await;
        let body = json!({"name": "mine", "arguments": {}, "wait": "accepted"});
        let accepted = one.post("/tool-calls", &body).await;
        // 200 if the call has already ended.
        assert!([200, 202].contains(&accepted.status), "{}", accepted.text());
        let app = app.restart().await;
        app.get("/tools").await.problem(401);
        let one = app.with_key(&key);
        assert_eq!(one.call("mine", json!({})).await["structured"], json!({"says": "one"}));
        let id = accepted.json["id"].as_str().unwrap();
        let ended = one.get(&format!("/tool-calls/{id}?wait_ms=20000")).await.ok();
        assert_eq!(succeeded(&ended), r#"{"says":"one"}"#);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn change_is_seen_by_another_node_for_the_same_tenant_only() {
    requires_postgres!();
    let (first, operator) = service(Backend::Postgres).await;
    let second = first.second().await;
    let (one, _) = operator.key(json!({"scopes": ["admin"], "tenant": "one"})).await;
    let (other, _) = operator.key(json!({"scopes": ["admin"], "tenant": "other"})).await;
    let (here, there, others) = (first.with_key(&one), second.with_key(&one), second.with_key(&other));
    // Both keys are in use on the second node before a tool is registered on the first.
    let is_known = || async { (there.get("/tools").await.status == 200).then_some(()) };
    crate::support::eventually("the key over there", is_known).await;
    assert!(!names(&there.get("/tools").await.ok()["tools"]).contains(&"mine"));
    tool(&here, "mine", "one").await;
    crate::support::eventually("the tool over there", || async {
        names(&there.get("/tools").await.ok()["tools"]).contains(&"mine").then_some(())
    })
    .await;
    let is_there = || async { (others.get("/tools").await.status == 200).then_some(()) };
    crate::support::eventually("the other key over there", is_there).await;
    others.get("/tools/mine").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn find_tools_is_restricted_to_the_caller() {
    let app = App::start_with(
        Backend::Sqlite,
        Options { configure: Some(|config| config.tools.discovery = true), ..Options::default() },
    )
    .await;
    let (key, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&key);
    let (one, other) = (tenant(&operator, "one").await, tenant(&operator, "other").await);
    tool(&one, "zebra_of_one", "one").await;
    tool(&one, "zebra_hidden", "one").await;
    let (few, _) = one.key(json!({"scopes": ["call"], "tools": ["zebra_of_*", "find_tools", "call_tool"]})).await;
    let few = one.with_key(&few);
    let found = async |client: &Client| {
        let call = client.call("find_tools", json!({"query": "zebra", "limit": 50})).await;
        let mut found: Vec<String> = call["structured"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        found.sort();
        found
    };
    assert_eq!(found(&one).await, ["zebra_hidden", "zebra_of_one"]);
    assert_eq!(found(&few).await, ["zebra_of_one"]);
    assert!(found(&other).await.is_empty() && found(&operator).await.is_empty());
    let through = few.call("call_tool", json!({"name": "zebra_hidden", "arguments": {}})).await;
    failed(&through, "TOOL_NOT_FOUND");
}
