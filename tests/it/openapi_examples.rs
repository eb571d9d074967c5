//! The examples in `/openapi.json` succeed when they are executed as in `/docs`.

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::support::client::send;
use crate::support::{App, Backend, Options, Response};

/// The tags that `/docs` lists, in order.
const TAGS: [&str; 15] = [
    "tool calls",
    "approvals",
    "tools",
    "tool groups",
    "sessions",
    "events",
    "stats",
    "hooks",
    "policies",
    "budgets",
    "workers",
    "keys",
    "upstreams",
    "mcp",
    "operations",
];

/// One operation with a body.
struct Operation {
    id: String,
    method: Method,
    path: String,
    description: Value,
}

fn operations(document: &Value) -> Vec<Operation> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(|(method, description)| Operation {
            id: description["operationId"].as_str().unwrap().to_owned(),
            method: method.to_uppercase().parse().unwrap(),
            path: path.clone(),
            description: description.clone(),
        })
    });
    all.collect()
}

/// Returns the examples of a body of one media type.
fn examples(content: &Value) -> Vec<Value> {
    let named = content["examples"].as_object().into_iter().flat_map(Map::values);
    content.get("example").cloned().into_iter().chain(named.map(|one| one["value"].clone())).collect()
}

async fn service() -> App {
    let options = Options { configure: Some(|config| config.mcp_servers.start_wait_ms = 1), ..Options::default() };
    App::start_with(Backend::Sqlite, options).await
}

/// Creates the objects that the operation needs, from the examples of other operations if possible. Returns the id of
/// its call.
async fn prepared(app: &App, document: &Value, operation: &str) -> Option<String> {
    let of = |id: &str| {
        let operation = operations(document).into_iter().find(|operation| operation.id == id).unwrap();
        let body = examples(&operation.description["requestBody"]["content"]["application/json"]).remove(0);
        (operation.path, body)
    };
    let first = match operation {
        "put_presets" => Some("create_tool"),
        "switch_tool_groups" | "change_tool_group" => Some("create_tool_group"),
        "complete_session" => Some("create_session"),
        "accept_upstream_tools" => Some("create_upstream"),
        _ => None,
    };
    if let Some(id) = first {
        let (path, body) = of(id);
        let answer = app.post(&path, &body).await;
        assert_eq!(answer.status, 201, "{id}: {}", answer.text());
    }
    match operation {
        "decide_approval" => {
            let tool = json!({"name": "pay", "input_schema": {"type": "object"}, "approval": {},
                "executor": {"type": "builtin", "name": "echo"}});
            app.register(tool).await;
            Some(app.sent(json!({"name": "pay"})).await)
        }
        "rerun_tool_call" => Some(app.sent(json!({"name": "echo"})).await),
        "patch_arguments" => Some(app.sent(json!({"name": "echo", "partial": true, "wait": "accepted"})).await),
        "report_progress" | "post_result" => {
            let tool = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
            app.register(tool).await;
            Some(app.sent(json!({"name": "ask", "wait": "accepted"})).await)
        }
        _ => None,
    }
}

/// Sends an example as `/docs` does: with the examples of the parameters, too.
async fn execute(app: &App, operation: &Operation, id: Option<&str>, media_type: &str, example: &Value) -> Response {
    let mut path = operation.path.clone();
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    for parameter in operation.description["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let example = parameter.get("example").or_else(|| parameter["schema"].get("example")).and_then(Value::as_str);
        match (parameter["in"].as_str().unwrap(), example) {
            ("path", example) => {
                let value = example.or(id).unwrap_or_else(|| panic!("{} has no {name}", operation.id));
                path = path.replace(&format!("{{{name}}}"), value);
            }
            ("query", Some(value)) => query.push(format!("{name}={value}")),
            (_, Some(value)) => headers.push((name, value)),
            _ => {}
        }
    }
    let body =
        if media_type == "application/json" { example.to_string() } else { example.as_str().unwrap().to_owned() };
    let mut request = app
        .request(operation.method.clone(), &format!("{path}?{}", query.join("&")))
        .header("content-type", media_type);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let accept = if operation.id == "mcp" { "application/json, text/event-stream" } else { "application/json" };
    send(request.header("accept", accept).body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_body_fits_its_schema_and_works() {
    let document = service().await.get("/openapi.json").await.ok();
    for operation in operations(&document) {
        let Some(contents) = operation.description["requestBody"]["content"].as_object() else { continue };
        for (media_type, content) in contents {
            let all = examples(content);
            // Binary bodies are uploaded as files and have no examples.
            assert_eq!(all.is_empty(), content["schema"]["format"] == "binary", "{} {media_type}", operation.id);
            let schema = json!({"allOf": [content["schema"]], "components": document["components"]});
            let validator = jsonschema::draft202012::new(&schema).unwrap();
            for example in all {
                let faults: Vec<String> = validator.iter_errors(&example).map(|error| error.to_string()).collect();
                assert_eq!(faults, [""; 0], "{} {media_type}: {example}", operation.id);
                let app = service().await;
                let id = prepared(&app, &document, &operation.id).await;
                let answer = execute(&app, &operation, id.as_deref(), media_type, &example).await;
                assert!(answer.status < 300, "{} {media_type}: {} {}", operation.id, answer.status, answer.text());
                assert_ne!(answer.json["status"], "ERROR", "{}", answer.text());
                let results = answer.json["results"].as_array().into_iter().flatten();
                // The token of the example is that of no call, so its result is refused.
                let is_fine = |result: &Value| result["status"] == "SUCCESS" || result["outcome"] == "refused";
                assert!(results.into_iter().all(is_fine), "{}", answer.text());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_paths_have_examples_and_generated_ids_have_none() {
    let document = service().await.get("/openapi.json").await.ok();
    for operation in operations(&document) {
        for parameter in operation.description["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "path" {
                let (path, example) = (&operation.path, parameter.get("example"));
                let is_generated = ["/tool-calls/", "/hooks/", "/keys/"].iter().any(|prefix| path.starts_with(prefix));
                assert_eq!(example.is_none(), is_generated, "{path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_come_first_in_the_group_order() {
    let document = service().await.get("/openapi.json").await.ok();
    let tags: Vec<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert_eq!(tags, TAGS);
    for operation in operations(&document) {
        let tag = operation.description["tags"][0].as_str().unwrap();
        assert!(TAGS.contains(&tag), "{}: {tag}", operation.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries_and_titles_are_plain_text() {
    let document = service().await.get("/openapi.json").await.ok();
    let mut texts = vec![document["info"]["title"].clone()];
    texts.extend(operations(&document).into_iter().map(|operation| operation.description["summary"].clone()));
    for text in texts {
        let text = text.as_str().unwrap();
        assert!(!text.is_empty() && !text.contains(['`', '\n']), "{text}");
    }
}

/// Checks the request interceptor, without which the page sends one media type only and the protocol rejects the
/// request.
#[tokio::test(flavor = "multi_thread")]
async fn page_requests_both_media_types_of_mcp() {
    let answer = service().await.get("/docs/swagger-initializer.js").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/javascript; charset=utf-8"));
    assert!(answer.header("content-security-policy").contains("default-src 'self'"));
    let text = answer.text();
    assert!(text.contains("requestInterceptor") && text.contains("\"application/json, text/event-stream\""), "{text}");
}
