//! `find_tools` and `call_tool`: disabled by default; when enabled, they give access to all tools with two definitions.

use serde_json::{Value, json};

use crate::support::calls::assert_counts;
use crate::support::shapes::{failed, names, succeeded};
use crate::support::{App, Backend, Options};

async fn service(backend: Backend) -> App {
    let options = Options { configure: Some(|config| config.tools.discovery = true), ..Options::default() };
    let app = App::start_with(backend, options).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]});
    app.echo_with("weather.now", schema).await;
    app
}

async fn through(app: &App, name: &str, arguments: Value) -> Value {
    app.call("call_tool", json!({"name": name, "arguments": arguments})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn search_tools_are_off_by_default() {
    let app = App::on_sqlite().await;
    for name in ["find_tools", "call_tool"] {
        failed(&app.call(name, json!({"query": "x", "name": "echo"})).await, "TOOL_NOT_FOUND");
    }
    let app = service(Backend::Sqlite).await;
    let all = app.get("/tools").await.ok();
    for name in ["find_tools", "call_tool", "weather.now", "echo"] {
        assert!(names(&all["tools"]).contains(&name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_found_with_what_a_call_needs() {
    let app = service(Backend::Sqlite).await;
    let call = app.call("find_tools", json!({"query": "the weather in a city"})).await;
    let found = &call["structured"]["tools"];
    assert_eq!(succeeded(&call), call["structured"].to_string());
    assert_eq!(found[0]["name"], "weather.now");
    assert_eq!(found[0]["input_schema"], app.get("/tools/weather.now").await.ok()["input_schema"]);
    assert!(found[0]["description"].is_string() && found[0]["score"].as_f64().unwrap() > 0.0);
    let limited = app.call("find_tools", json!({"query": "arguments time echo weather", "limit": 2})).await;
    assert_eq!(limited["structured"]["tools"].as_array().unwrap().len(), 2);
    let nothing = app.call("find_tools", json!({"query": "quantum"})).await;
    assert_eq!(nothing["structured"], json!({"tools": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_tools_do_not_find_themselves() {
    let app = service(Backend::Sqlite).await;
    let call = app.call("find_tools", json!({"query": "find tools and call a tool that was found", "limit": 50})).await;
    let found = names(&call["structured"]["tools"]);
    assert!(!found.contains(&"find_tools") && !found.contains(&"call_tool"), "{found:?}");
}

on_both_databases!(
    async fn call_through_call_tool_is_stored_and_counted_as_its_target(backend: Backend) {
        let app = service(backend).await;
        let call = through(&app, "weather.now", json!({"city": "Rome"})).await;
        assert_eq!(succeeded(&call), r#"{"city":"Rome"}"#);
        let stored = app.stored(call["id"].as_str().unwrap()).await;
        for call in [&call, &stored] {
            assert_eq!((&call["name"], &call["title"]), (&json!("weather.now"), &json!("weather.now")));
            assert_eq!(call["arguments"], json!({"city": "Rome"}));
            assert_eq!(call["metadata"], json!({"called_through": "call_tool"}));
        }
        let mended = through(&app, "weather.now", json!({"city": "Rome", "days": "2"})).await;
        assert_eq!(succeeded(&mended), r#"{"city":"Rome","days":2}"#);
        assert_eq!(mended["coerced"][0]["pointer"], "/days");
        let invalid = through(&app, "weather.now", json!({"city": {}})).await;
        assert!(failed(&invalid, "TOOL_VALIDATION_ERROR").contains("tool \"weather.now\"\n- /city: "), "{invalid:#}");
        assert_counts(&app.stats("weather.now").await, json!({"execution_count": 2, "rejected_count": 1}));
        assert_counts(&app.stats("call_tool").await, json!({"execution_count": 0, "rejected_count": 0}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_through_call_tool_has_the_events_of_its_target() {
    let app = service(Backend::Sqlite).await;
    let body = json!({"name": "call_tool", "arguments": {"name": "weather.now", "arguments": {"city": "Rome"}}});
    let events = app.call_streamed(&body).await.rest().await;
    assert!(events.iter().filter(|event| event.event != "batch").all(|event| event.data["name"] == "weather.now"));
    assert!(events.len() >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn uncallable_tools_are_not_found() {
    let app = service(Backend::Sqlite).await;
    for name in ["call_tool", "find_tools", "nobody"] {
        let call = through(&app, name, json!({"name": "echo", "query": "x"})).await;
        let output = failed(&call, "TOOL_NOT_FOUND");
        assert!(output.starts_with(&format!("Error: Tool not found: {name}\n")), "{output}");
    }
    let call = app.call("call_tool", json!({"tool": "echo"})).await;
    assert!(failed(&call, "TOOL_VALIDATION_ERROR").contains("tool \"call_tool\"\n"), "{call:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn safety_in_a_batch_follows_the_called_tools() {
    let app = service(Backend::Sqlite).await;
    let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "name": "call_tool", "arguments": {"name": name, "arguments": arguments}});
    let calls = json!([
        call("a", "calculate", json!({"expression": "6*7"})),
        call("b", "weather.now", json!({"city": "Rome"}))
    ]);
    let results = app.batch(json!({ "calls": calls })).await;
    assert_eq!((succeeded(&results[0]), succeeded(&results[1])), ("42", r#"{"city":"Rome"}"#));
    assert_eq!((&results[0]["call_id"], &results[1]["call_id"]), (&json!("a"), &json!("b")));
}
