//! Tools are listed under names that every vendor accepts, and can be called by these names and by their own.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{ask, call};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options};
use crate::upstreams::Fixture;

/// Returns `true` if the name follows the rule that all vendors share.
fn is_legal(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

async fn shown(app: &App) -> Vec<Value> {
    ask(app, "tools/list", json!({})).await.ok()["result"]["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Returns tools without their schemas, which the list over MCP shows in another form.
fn without_schemas(tools: &Value) -> Value {
    let mut tools = tools.clone();
    for tool in tools.as_array_mut().unwrap() {
        tool.as_object_mut().unwrap().remove("inputSchema");
    }
    tools
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn strict() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn shown_names_are_valid_unique_and_equal_to_the_http_list() {
    let long = "x".repeat(70);
    let fixture = Fixture::named(&["echo", "taken", "a.b", &long]);
    let app = fixture.served(json!({})).await;
    for name in ["s__taken", "9lives", "two._dots", "two_.dots", "Za"] {
        app.echo_of(name, json!({})).await;
    }
    let tools = shown(&app).await;
    let names = names(&tools);
    assert!(names.iter().all(|name| is_legal(name)), "{names:?}");
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
    assert!(["s__echo", "s__a__b", "s__taken", "Za"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.contains(&"two___dots"), "{names:?}");
    let listed = app.get("/tools?format=mcp").await.ok();
    assert_eq!(without_schemas(&listed["tools"]), without_schemas(&json!(tools)));
    // Each name calls the tool that it was listed for.
    for tool in tools.iter().filter(|tool| tool["description"].as_str().unwrap_or_default().starts_with("Does ")) {
        let (name, own) = (tool["name"].as_str().unwrap(), &tool["description"].as_str().unwrap()["Does ".len()..]);
        let own = own.strip_suffix('.').unwrap();
        let result = call(&app, name, json!({})).await;
        let called = if own == "echo" { "{}".to_owned() } else { format!("{own} was called") };
        assert_eq!(text(&result), called, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_is_callable_under_both_names_and_errors_repeat_the_used_one() {
    let app = App::on_sqlite().await;
    app.echo_with("weather.now", strict()).await;
    for name in ["weather__now", "weather.now"] {
        assert_eq!(call(&app, name, json!({"city": "Rome"})).await["structuredContent"], json!({"city": "Rome"}));
        let refused = call(&app, name, json!({})).await;
        let expected = format!("Error: Invalid parameters for tool \"{name}\"");
        assert!(text(&refused).starts_with(&expected), "{refused:#}");
        let over_http = app.call(name, json!({})).await;
        assert!(failed(&over_http, "TOOL_VALIDATION_ERROR").starts_with(&expected), "{over_http:#}");
        assert!(over_http["error"]["message"].as_str().unwrap().contains(name), "{over_http:#}");
        assert_eq!(over_http["name"], "weather.now");
        succeeded(&app.call(name, json!({"city": "Rome"})).await);
    }
    // The OpenAI format lists the tool under an alias.
    let list = app.get("/tools?format=openai").await.ok();
    let functions = list["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap());
    let alias = functions.into_iter().find(|name| name.starts_with("weather_now_")).unwrap();
    let function = json!({"name": alias, "arguments": "{}"});
    let message = json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]});
    let answered = app.post("/tool-calls", &message).await.ok();
    assert!(answered["messages"][0]["content"].as_str().unwrap().contains(alias), "{answered:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_is_answered_with_legal_names() {
    let app = App::on_sqlite().await;
    app.echo_of("weather.now", json!({})).await;
    let answer = ask(&app, "tools/call", json!({"name": "weather__nov", "arguments": {}})).await;
    let message = answer.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("Did you mean: weather__now?") && !message.contains("weather.now"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn found_tools_have_the_names_of_the_list() {
    let options = Options { configure: Some(|config| config.tools.discovery = true), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.echo_with("weather.now", strict()).await;
    let found = call(&app, "find_tools", json!({"query": "weather now"})).await;
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "weather__now", "{found:#}");
    let through = |arguments: Value| call(&app, "call_tool", arguments);
    let good = through(json!({"name": "weather__now", "arguments": {"city": "Rome"}})).await;
    assert_eq!(good["structuredContent"], json!({"city": "Rome"}));
    let refused = through(json!({"name": "weather__now", "arguments": {}})).await;
    assert!(text(&refused).contains("tool \"weather__now\""), "{refused:#}");
    let unknown = ask(&app, "tools/call", json!({"name": "call_tool", "arguments": {"name": "weather__nov"}})).await;
    let message = unknown.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("weather__now") && !message.contains("weather.now"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn separator_is_a_setting() {
    fn configure(config: &mut toolpost::config::Config) {
        config.mcp.name_separator = "-via-".to_owned().try_into().unwrap();
    }
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await;
    app.echo_of("weather.now", json!({})).await;
    assert!(names(&shown(&app).await).contains(&"weather-via-now"));
    assert_eq!(call(&app, "weather-via-now", json!({"a": 1})).await["structuredContent"], json!({"a": 1}));
    assert_eq!(app.call("weather__now", json!({})).await["error"]["code"], "TOOL_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_continue_at_their_cursors_whatever_the_names_look_like() {
    let app = App::on_sqlite().await;
    let tools: Vec<Value> = (0..260).flat_map(|n| [format!("a.{n:03}"), format!("aX{n:03}")]).map(plain).collect();
    for tool in &tools {
        app.register(tool.clone()).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = ask(&app, "tools/list", params).await.ok()["result"].clone();
        seen.extend(page["tools"].as_array().unwrap().clone());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let listed = app.get("/tools?format=mcp").await.ok();
    assert_eq!(without_schemas(&json!(seen)), without_schemas(&listed["tools"]));
}

fn plain(name: String) -> Value {
    json!({"name": name, "input_schema": {"type": "object"}, "executor": {"type": "builtin", "name": "echo"}})
}
