//! `toolpost policies` and `toolpost budgets`, with the calls of a service.

use serde_json::json;

use super::program::{Home, Program};
use crate::support::Client;

#[tokio::test(flavor = "multi_thread")]
async fn policy_is_tested_on_stored_calls_and_budgets_show_usage() {
    let home = Home::new();
    let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
    let line = service.out("toolpost listening on ");
    let client = Client::new(line.trim_start_matches("toolpost listening on ").trim());
    let allow = json!({"name": "first", "when": "true", "effect": "allow", "priority": -1});
    assert_eq!(client.post("/policies", &allow).await.status, 201);
    let budget = json!({"name": "echoes", "match": {"tools": ["echo"]}, "window_ms": 3_600_000, "max_calls": 5});
    assert_eq!(client.post("/budgets", &budget).await.status, 201);
    for amount in [50, 200, 300] {
        client.call("echo", json!({"amount": amount})).await;
    }

    let listed = home.run(&["policies", "list"]);
    assert!(listed.out.contains("first") && listed.out.contains("allow"), "{listed:?}");
    let when = "tool.name == 'echo' && args.amount > 100";
    let file = home.file("policy.json", &json!({"name": "large", "when": when, "effect": "deny"}).to_string());
    let tried = home.run(&["policies", "test", &file, "--since", "7d", "--json"]).json();
    let counts = ["evaluated", "allowed", "denied", "changed"].map(|count| tried[count].as_u64());
    assert_eq!(counts, [Some(3), Some(1), Some(2), Some(2)], "{tried}");
    let shown = home.run(&["policies", "test", &file, "--since", "7d"]);
    assert!(shown.out.contains("changed    2") && shown.out.contains("deny"), "{shown:?}");
    let all = home.file("all.json", &json!([{"name": "none", "when": "true", "effect": "approve"}]).to_string());
    let tried = home.run(&["policies", "test", &all, "--since", "7d", "--limit", "2", "--json"]).json();
    assert_eq!((&tried["evaluated"], &tried["approval"]), (&json!(2), &json!(2)), "{tried}");
    assert_eq!(home.run(&["policies", "list", "--json"]).json().as_array().unwrap().len(), 1, "nothing changed");

    let listed = home.run(&["budgets", "list"]);
    assert!(listed.out.contains("echoes") && listed.out.contains("tools: echo"), "{listed:?}");
    let budgets = home.run(&["budgets", "list", "--json"]).json();
    assert_eq!((&budgets[0]["used"], &budgets[0]["limit"]), (&json!(3), &json!(5)), "{budgets}");
    assert_eq!(home.run(&["budgets", "show", "echoes"]).json()["used"], 3);
    service.signal("TERM");
    service.end();
}

#[test]
fn faults_of_a_policy_or_budget_are_named() {
    let home = Home::new();
    for (policy, named) in [
        (json!({"name": "a b", "when": "true", "effect": "deny"}), "/name"),
        (json!({"name": "a", "when": "tool.", "effect": "deny"}), "/when"),
        (json!([{"name": "a", "when": "true", "effect": "maybe"}]), "/0/effect"),
        (json!({"name": "a", "effect": "deny"}), "when"),
    ] {
        let file = home.file("policy.json", &policy.to_string());
        let refused = home.run(&["policies", "test", &file, "--since", "7d"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("policy.json") && refused.err.contains(named), "{refused:?}");
    }
    let missing = home.run(&["policies", "test", "missing.json", "--since", "7d"]);
    assert!(missing.code == Some(2) && missing.err.contains("missing.json"), "{missing:?}");
    let unknown = home.run(&["budgets", "show", "none"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("unknown budget"), "{unknown:?}");
}
