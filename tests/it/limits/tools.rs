//! Rate limits of tools.

use serde_json::{Value, json};
use toolpost::config::{Config, ToolLimit};

use crate::support::calls::assert_counts;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Client};

fn limited(config: &mut Config) {
    for (name, rate_per_minute) in [("echo", 2), ("mine", 1), ("calculate", 1)] {
        config.tools.limits.insert(name.to_owned(), ToolLimit { rate_per_minute });
    }
}

async fn client(app: &App, tenant: &str) -> Client {
    let (key, _) = app.key(json!({"scopes": ["admin"], "tenant": tenant})).await;
    app.with_key(&key)
}

fn refused(call: &Value, name: &str, rate: u32) {
    failed(call, "OVERLOADED");
    let error = &call["error"];
    assert_eq!((&error["retryable"], &error["details"]["rate_per_minute"]), (&json!(true), &json!(rate)));
    let wait_ms = error["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait_ms), "{wait_ms}");
    let begins = format!("Error: Tool \"{name}\" is called more than {rate} times a minute");
    assert!(call["output"].as_str().unwrap().starts_with(&begins), "{}", call["output"]);
}

on_both_databases!(
    async fn call_beyond_the_rate_is_rejected_with_a_delay(backend: Backend) {
        let app = App::tuned(backend, limited).await;
        for _ in 0..2 {
            succeeded(&app.call("echo", json!({})).await);
        }
        let results = app.batch(json!({"calls": [{"name": "echo"}, {"name": "current_time"}]})).await;
        refused(&results[0], "echo", 2);
        succeeded(&results[1]);
        assert_eq!((&results[0]["started_at"], &results[0]["attempts"]), (&Value::Null, &json!(0)));
        let counts = json!({"execution_count": 2, "failure_count": 0, "rejected_count": 1,
            "rejected_by_code": {"OVERLOADED": 1}});
        assert_counts(&app.stats("echo").await, counts);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_that_does_not_run_does_not_count() {
    let app = App::tuned(Backend::Sqlite, limited).await;
    for _ in 0..3 {
        failed(&app.call("calculate", json!({})).await, "TOOL_VALIDATION_ERROR");
        let checked = app.post("/tools/calculate/validate", &json!({"arguments": {"expression": "1"}})).await;
        assert_eq!(checked.ok()["valid"], true);
    }
    succeeded(&app.call("calculate", json!({"expression": "1"})).await);
    refused(&app.call("calculate", json!({"expression": "1"})).await, "calculate", 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_tool_has_one_limit_and_tenant_tools_have_their_own() {
    let app = App::tuned(Backend::Sqlite, limited).await;
    let one = client(&app, "default").await;
    let (key, _) = one.key(json!({"scopes": ["admin"], "tenant": "two"})).await;
    let two = one.with_key(&key);
    succeeded(&one.call("echo", json!({})).await);
    succeeded(&two.call("echo", json!({})).await);
    refused(&two.call("echo", json!({})).await, "echo", 2);
    for tenant in [&one, &two] {
        tenant.echo_of("mine", json!({})).await;
        succeeded(&tenant.call("mine", json!({})).await);
    }
    refused(&one.call("mine", json!({})).await, "mine", 1);
}
