//! Requests and responses of the protocol.

use serde_json::{Value, json};

use super::{ask, call, ended, modern, posted, session};
use crate::support::client::send;
use crate::support::{Answer, App, Backend, HttpTool, Options};

on_both_databases!(
    async fn mcp_call_is_an_ordinary_call(backend: Backend) {
        let app = App::start(backend).await;
        let result = call(&app, "calculate", json!({"expression": "6 * 7"})).await;
        assert_eq!(result["content"], json!([{"type": "text", "text": "42"}]));
        assert_eq!((&result["structuredContent"], &result["isError"]), (&json!({"result": 42}), &json!(false)));
        assert_eq!(result["resultType"], "complete");
        let stored = app.stored(result["_meta"]["toolpost/call_id"].as_str().unwrap()).await;
        assert_eq!((&stored["status"], &stored["output"]), (&json!("SUCCESS"), &json!("42")));
        assert_eq!(app.stats("calculate").await["success_count"], 1);
    }
);

on_both_databases!(
    async fn calls_are_in_the_shard_of_the_node(backend: Backend) {
        let app = App::start(backend).await;
        // The last 12 bits of an id are its shard.
        let shard_of = |id: &Value| id.as_str().unwrap()[33..].to_owned();
        let arguments = json!({"expression": "1"});
        let native = app.post("/tool-calls", &json!({"name": "calculate", "arguments": arguments})).await.ok();
        let session = session(&app).await;
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "calculate", "arguments": arguments}});
        send(posted(&app, &message).header("mcp-session-id", &session)).await;
        let in_session = ended(&app, "calculate").await;
        let alone = call(&app, "calculate", arguments).await;
        let shards = [&in_session["id"], &alone["_meta"]["toolpost/call_id"]].map(shard_of);
        assert_eq!(shards, [shard_of(&native["id"]), shard_of(&native["id"])]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_coerced_and_rejected_as_over_http() {
    let app = App::on_sqlite().await;
    let mended = call(&app, "wait", json!({"ms": "1"})).await;
    assert_eq!(mended["content"][0]["text"], "Waited 1 ms");
    assert_eq!(ended(&app, "wait").await["coerced"][0]["pointer"], "/ms");
    let wrong = call(&app, "wait", json!({"mss": 1})).await;
    let text = wrong["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Error: Invalid parameters for tool \"wait\""), "{text}");
    assert_eq!(wrong["isError"], true);
    assert_eq!(wrong["_meta"]["toolpost/error_code"], "TOOL_VALIDATION_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn details_for_people_are_hidden_from_the_model() {
    let app = App::start_with(
        Backend::Sqlite,
        Options { extra: crate::support::service::rust_tools(), ..Options::default() },
    )
    .await;
    let result = call(&app, "reports", json!({})).await;
    assert_eq!(result["content"], json!([{"type": "text", "text": "reported"}]));
    assert!(!result.to_string().contains("half way"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_is_a_protocol_error_and_is_counted() {
    let app = App::on_sqlite().await;
    let answer = ask(&app, "tools/call", json!({"name": "calculat", "arguments": {}})).await.ok();
    assert_eq!(answer["error"]["code"], -32602);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("Tool not found: calculat") && message.contains("Did you mean: calculate?"), "{message}");
    let unknown = app.get("/stats").await.ok()["unknown_tools"].clone();
    assert_eq!(unknown["rejected_count"], 1, "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_equal_the_http_list() {
    let exact = |config: &mut toolpost::config::Config| config.mcp.lowering = toolpost::domain::McpLowering::Exact;
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(exact), ..Options::default() }).await;
    app.register(
        json!({"name": "a.b", "title": "A", "description": "Odd.", "executor": {"type": "builtin", "name": "echo"},
        "input_schema": {"type": "object", "$defs": {"x": {"type": "integer", "x-odd": [null, 1e3]}},
            "properties": {"x": {"$ref": "#/$defs/x"}}},
        "output_schema": {"type": "object", "properties": {"x": {}}}, "annotations": {"read_only": true}}),
    )
    .await;
    let listed = ask(&app, "tools/list", json!({})).await.ok()["result"].clone();
    assert_eq!(listed["tools"], app.get("/tools?format=mcp").await.ok()["tools"]);
    assert!(listed["ttlMs"].as_u64().is_some_and(|ttl| ttl <= 60_000), "{}", listed["ttlMs"]);
    assert_eq!(listed.get("nextCursor"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_list_is_paged_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let tool = |n: usize| {
        json!({"name": format!("many.{n:04}"), "description": "One of many.", "input_schema": {"type": "object"},
            "executor": {"type": "builtin", "name": "echo"}})
    };
    let all: Vec<Value> = (0..1_001).map(tool).collect();
    std::fs::write(folder.path().join("many.json"), serde_json::to_vec(&all).unwrap()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let (mut paged, mut cursor, mut pages) = (Vec::new(), json!({}), 0);
    loop {
        let page = ask(&app, "tools/list", cursor).await.ok()["result"].clone();
        pages += 1;
        paged.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
        match page.get("nextCursor") {
            Some(next) => cursor = json!({"cursor": next}),
            None => break,
        }
    }
    let listed = app.get("/tools?format=mcp").await.ok();
    let names: Vec<Value> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert!(pages > 1 && paged == names, "{} of {} in {pages} pages", paged.len(), names.len());
    let lost = ask(&app, "tools/list", json!({"cursor": "!"})).await.ok();
    assert_eq!(lost["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_message_is_rejected_as_json_rpc() {
    let app = App::on_sqlite().await;
    let raw = |body: &str| {
        app.request(reqwest::Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_owned())
    };
    let huge = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":123456789012345678901234567890}}}"#;
    for (body, code) in [("{", -32700), (huge, -32700), ("[]", -32600), (r#"{"id":7}"#, -32600)] {
        let answer = send(raw(body)).await;
        assert_eq!((answer.status, &answer.json["error"]["code"]), (400, &json!(code)), "{body}: {}", answer.text());
        assert_eq!(answer.json["jsonrpc"], "2.0");
    }
    let wrong = ask(&app, "tools/call", json!({"name": 5})).await;
    assert_eq!(wrong.json["error"]["code"], -32602, "{}", wrong.text());
    let unknown = ask(&app, "no/such", json!({})).await;
    assert_eq!((unknown.status, &unknown.json["error"]["code"]), (404, &json!(-32601)));
}

#[tokio::test(flavor = "multi_thread")]
async fn route_limits_apply() {
    let options = Options { configure: Some(|config| config.server.max_body_bytes = 1_000), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let text = "x".repeat(2_000);
    let large = modern(&app, "tools/call", json!({"name": "echo", "arguments": {"text": text}}), json!({}));
    assert_eq!(send(large).await.problem(413)["code"], "PAYLOAD_TOO_LARGE");
    let not_json = app.request(reqwest::Method::POST, "/mcp").header("content-type", "text/plain").body("{}");
    send(not_json).await.problem(415);
    let picky = app.request(reqwest::Method::POST, "/mcp").header("accept", "text/html");
    let picky = picky.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    send(picky).await.problem(406);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_precedes_the_result_and_only_grows() {
    let app = App::on_sqlite().await;
    let params = json!({"name": "wait", "arguments": {"ms": 200, "steps": 4}});
    let answer = send(modern(&app, "tools/call", params, json!({"progressToken": "p"}))).await;
    assert!(answer.header("content-type").starts_with("text/event-stream"), "{}", answer.text());
    let messages: Vec<Value> = answer
        .text()
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok())
        .collect();
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "Waited 200 ms");
    let steps: Vec<f64> = before.iter().map(|step| step["params"]["progress"].as_f64().unwrap()).collect();
    assert!(steps.windows(2).all(|pair| pair[0] < pair[1]) && steps.last() == Some(&4.0), "{steps:?}");
    assert!(before.iter().all(|step| step["params"]["progressToken"] == "p" && step["params"]["total"] == 4.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_of_a_request_reaches_the_tool() {
    let server = HttpTool::answering(Answer::text("done")).await;
    let app = App::with_egress(Backend::Sqlite).await;
    app.http_tool("traced", &server).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let params = json!({"name": "traced", "arguments": {}});
    send(modern(&app, "tools/call", params, json!({})).header("traceparent", trace)).await.ok();
    assert_eq!(server.request().header("traceparent"), trace);
}
