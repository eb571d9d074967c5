//! Registering and reading definitions.

use serde_json::{Value, json};

use crate::support::app::echo_tool;
use crate::support::shapes::{HARD_TEXT, is_time, names, points_at};
use crate::support::{App, Backend};

#[tokio::test(flavor = "multi_thread")]
async fn five_builtin_tools_always_exist() {
    let app = App::on_sqlite().await;
    let list = app.get("/tools").await.ok();
    assert_eq!(list["total"], list["tools"].as_array().unwrap().len());
    for name in ["echo", "calculate", "current_time", "read_result", "wait"] {
        assert!(names(&list["tools"]).contains(&name), "{name}");
        assert_eq!(app.get(&format!("/tools/{name}")).await.ok()["source"], "builtin");
    }
}

on_both_databases!(
    async fn registered_tool_is_read_back_as_declared(backend: Backend) {
        let app = App::start(backend).await;
        let definition = json!({
            "name": "get.weather-2_x", "title": "Weather", "description": HARD_TEXT, "category": "data",
            "tags": ["a", "b"], "version": "1.2.0", "examples": [{"arguments": {"city": "Rome"}, "output": "sunny"}],
            "input_schema": {"type": "object", "properties": {"city": {"type": "string", "description": HARD_TEXT}}},
            "output_schema": {"type": "object"}, "output_check": "strict",
            "annotations": {"read_only": true, "destructive": false, "idempotent": true, "open_world": false},
            "concurrency_safe": false, "coerce": false, "executor": {"type": "builtin", "name": "echo"},
        });
        app.register(definition.clone()).await;
        let stored = app.get("/tools/get.weather-2_x").await.ok();
        for (field, value) in definition.as_object().unwrap() {
            assert_eq!(&stored[field], value, "{field}");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn omitted_members_of_a_definition_have_defaults() {
    let app = App::on_sqlite().await;
    let tool = app.echo_of("plain", json!({})).await;
    assert_eq!(tool["title"], "plain");
    let hints = json!({"read_only": false, "destructive": true, "idempotent": false, "open_world": true});
    assert_eq!(tool["annotations"], hints);
    assert_eq!(tool["async"], false);
    assert_eq!(tool["concurrency_safe"], Value::Null);
    assert_eq!(tool["coerce"], true);
    assert_eq!(tool["source"], "api");
    assert_eq!(tool["active"], true);
    assert_eq!(tool["paused"], Value::Null);
    assert!(tool["revision"].is_u64());
    assert!(is_time(&tool["created_at"]) && is_time(&tool["updated_at"]), "{tool:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_keeps_the_order_of_its_keys() {
    let app = App::on_sqlite().await;
    app.echo_of("ordered", json!({"zebra": {}, "apple": {}, "mango": {}})).await;
    let tool = app.get("/tools/ordered").await.ok();
    let keys: Vec<&String> = tool["input_schema"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["zebra", "apple", "mango"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn name_of_an_api_tool_is_taken() {
    let app = App::on_sqlite().await;
    app.echo_of("mine", json!({"first": {}})).await;
    let second = echo_tool("mine", json!({"type": "object", "properties": {"second": {}}}));
    app.post("/tools", &second).await.problem(409);
    assert_eq!(app.get("/tools/mine").await.ok()["input_schema"]["properties"], json!({"first": {}}));
}

on_both_databases!(
    async fn registered_tools_are_there_after_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_of("kept", json!({"a": {"type": "integer"}})).await;
        let before = app.get("/tools/kept").await.ok();
        let app = app.restart().await;
        assert_eq!(app.get("/tools/kept").await.ok(), before);
        assert_eq!(app.call("kept", json!({"a": 1})).await["status"], "SUCCESS");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn list_is_in_a_stable_order() {
    let app = App::on_sqlite().await;
    for name in ["m", "z", "a", "Z", "k.1"] {
        app.echo_of(name, json!({})).await;
    }
    let first = app.get("/tools").await.ok();
    assert_eq!(first["total"], 10);
    let app = app.restart().await;
    assert_eq!(names(&app.get("/tools").await.ok()["tools"]), names(&first["tools"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn native_format_is_the_plain_list() {
    let app = App::on_sqlite().await;
    let plain = app.get("/tools").await.ok();
    assert_eq!(app.get("/tools?format=native").await.ok(), plain);
    assert_eq!(app.get("/tools?include_inactive=true").await.ok()["tools"], plain["tools"]);
    app.get("/tools?format=klingon").await.client_problem();
}

#[tokio::test(flavor = "multi_thread")]
async fn unregistered_tool_is_a_404() {
    let app = App::on_sqlite().await;
    app.get("/tools/nobody").await.problem(404);
    app.delete("/tools/nobody").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn registered_tool_runs_a_builtin_under_its_own_name_and_schema() {
    let app = App::on_sqlite().await;
    let schema = json!({"type": "object", "properties": {"expression": {"const": "1+1"}}, "required": ["expression"]});
    let executor = json!({"type": "builtin", "name": "calculate"});
    app.register(json!({"name": "two", "description": "", "input_schema": schema, "executor": executor})).await;
    assert_eq!(app.call("two", json!({"expression": "1+1"})).await["output"], "2");
    assert_eq!(app.call("two", json!({"expression": "1+2"})).await["error"]["code"], "TOOL_VALIDATION_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn non_object_examples_and_output_schema_are_rejected() {
    let app = App::on_sqlite().await;
    for (member, value, pointer) in [
        ("examples", json!(["x"]), "/examples/0"),
        ("examples", json!([{"arguments": {}}, 5]), "/examples/1"),
        ("output_schema", json!(true), "/output_schema"),
        ("output_schema", json!("object"), "/output_schema"),
    ] {
        let mut definition = echo_tool("mine", json!({"type": "object"}));
        definition[member] = value;
        points_at(&app.post("/tools", &definition).await.problem(422), pointer);
        app.get("/tools/mine").await.problem(404);
    }
}
