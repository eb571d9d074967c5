//! The schemas in `tools/list`: all clients take them, calls are validated by the definitions, and results keep what the
//! list promises.

use serde_json::{Value, json};
use toolpost::config::Config;
use toolpost::domain::McpLowering;

use super::clients::is_content;
use super::sessions::{message, session};
use super::{ask, call, posted};
use crate::support::app::{echo_tool, http_tool};
use crate::support::client::send;
use crate::support::{Answer, App, Backend, Client, HttpTool, Options};

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// Returns the tools with schemas that some clients refuse.
fn tools(server: &HttpTool) -> Vec<Value> {
    let a = json!({"a": {"type": "string"}, "b": {"type": "integer"}});
    let any = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let n = json!({"n": {"type": "integer"}});
    let word = json!({"n": {"type": "integer"}, "word": {"type": "string", "pattern": "^\\p{L}+$"}});
    let object = |more: Value| {
        let mut schema = json!({"type": "object"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let returning = |name: &str, output: Value| {
        let mut tool = echo_tool(name, json!({"type": "object"}));
        tool["output_schema"] = output;
        tool
    };
    let mut text = http_tool("text", json!({"url": server.url("/run")}));
    text["output_schema"] = object(json!({"properties": n, "required": ["n"]}));
    vec![
        echo_tool("either", object(json!({"properties": a, "anyOf": any}))),
        echo_tool(
            "union",
            json!({"type": "object", "oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
        ),
        echo_tool(
            "flags",
            object(json!({"$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"a": {"type": "string"}, "list": {"type": "array"},
                "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}})),
        ),
        echo_tool("query", object(json!({"properties": {"$filter": {"type": "string"}, "a": {"type": "string"}}}))),
        returning("promise", object(json!({"properties": n, "required": ["n"]}))),
        returning("old_promise", object(json!({"$schema": DRAFT_7, "$id": "urn:toolpost:n", "properties": n}))),
        returning("letters", object(json!({"$id": "urn:toolpost:n", "properties": word}))),
        returning("items", json!({"type": "array"})),
        text,
    ]
}

async fn app_with(lowering: McpLowering) -> (App, HttpTool) {
    let server = HttpTool::answering(Answer::body("text/plain", "plain words")).await;
    let configure = match lowering {
        McpLowering::Portable => |_: &mut Config| {},
        McpLowering::Exact => |config: &mut Config| config.mcp.lowering = McpLowering::Exact,
    };
    let options = Options { egress_allow: vec!["127.0.0.1".into()], configure: Some(configure), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    for tool in tools(&server) {
        app.register(tool).await;
    }
    (app, server)
}

/// Returns the tools as `/mcp` lists them, by name.
async fn listed(app: &Client) -> Value {
    let list = ask(app, "tools/list", json!({})).await.ok();
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_accept_the_list() {
    let (app, _server) = app_with(McpLowering::Portable).await;
    let tools = listed(&app).await;
    for (name, tool) in tools.as_object().unwrap() {
        let schema = &tool["inputSchema"];
        assert!(schema["type"] == "object" && schema["properties"].is_object(), "{name}: {schema}");
        for keyword in ["$schema", "$id", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "enum"] {
            assert_eq!(schema.get(keyword), None, "{name}: {schema}");
        }
        let output = &tool["outputSchema"];
        assert!(output.is_null() || output["type"] == "object" && output.get("$schema").is_none(), "{name}: {output}");
    }
    let description = tools["either"]["inputSchema"]["description"].as_str().unwrap();
    assert!(description.contains("At least one of these must match"), "{description}");
    assert_eq!(tools["flags"]["inputSchema"]["properties"]["n"], json!({"type": "number", "exclusiveMinimum": 0}));
    assert_eq!(tools["flags"]["inputSchema"]["properties"]["list"], json!({"type": "array", "items": {}}));
    // A session and the HTTP API: the one lists the same, the other the definition.
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let older = send(posted(&app, &request).header("mcp-session-id", session(&app).await)).await;
    let older = message(&older)["result"]["tools"].as_array().unwrap().clone();
    assert!(older.iter().all(|tool| tools[tool["name"].as_str().unwrap()]["inputSchema"] == tool["inputSchema"]));
    assert!(app.get("/tools/either").await.ok()["input_schema"]["anyOf"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_validated_by_the_definition() {
    let (app, _server) = app_with(McpLowering::Portable).await;
    let refused = call(&app, "either", json!({})).await;
    assert_eq!(
        (&refused["isError"], &refused["_meta"]["toolpost/error_code"]),
        (&json!(true), &json!("TOOL_VALIDATION_ERROR"))
    );
    assert_eq!(call(&app, "either", json!({"b": 1})).await["structuredContent"], json!({"b": 1}));
    // A name that clients refuse is restored, and its own name is taken, too.
    for name in ["_filter", "$filter"] {
        let query = call(&app, "query", json!({name: "x"})).await;
        assert_eq!(query["structuredContent"], json!({"$filter": "x"}), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_list_has_the_declared_schemas() {
    let (app, server) = app_with(McpLowering::Exact).await;
    let shown = listed(&app).await;
    for tool in tools(&server) {
        let name = tool["name"].as_str().unwrap();
        assert_eq!(shown[name]["inputSchema"], tool["input_schema"], "{name}");
        let output = Some(&tool["output_schema"]).filter(|schema| schema["type"] == "object");
        assert_eq!(shown[name].get("outputSchema"), output, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn result_that_violates_its_schema_is_a_readable_error() {
    let (app, _server) = app_with(McpLowering::Portable).await;
    let params = json!({"name": "promise", "arguments": {"n": "five"}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let older = send(posted(&app, &request).header("mcp-session-id", session(&app).await)).await;
    for result in [call(&app, "promise", json!({"n": "five"})).await, message(&older)["result"].clone()] {
        assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None), "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("The tool has run") && text.contains("/n"), "{text}");
        assert_eq!(result["content"][1]["text"], r#"{"n":"five"}"#);
        // The call itself has succeeded, as `output_check: warn` says.
        let id = result["_meta"]["toolpost/call_id"].as_str().unwrap();
        assert_eq!(app.stored(id).await["status"], "SUCCESS");
    }
    assert_eq!(call(&app, "promise", json!({"n": 5})).await["structuredContent"], json!({"n": 5}));
    assert_eq!(call(&app, "items", json!({"n": 1})).await["structuredContent"], json!({"n": 1}));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn official_clients_accept_every_schema() {
    let (app, _server) = app_with(McpLowering::Portable).await;
    let url = app.url("/mcp");
    for mode in ["modern", "legacy"] {
        is_content("python/mcp_schemas.py", &[mode, &url]).await;
    }
    for version in ["v1", "v2"] {
        is_content("mcp_schemas.mjs", &[version, &url]).await;
    }
}
