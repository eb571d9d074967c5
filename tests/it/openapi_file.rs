//! `openapi/openapi.json` is complete and equals the document that the service serves.

use serde_json::Value;

use crate::support::{App, client, fixture};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Paths that are served but not described: the description itself.
const UNDESCRIBED: [&str; 2] = ["/openapi.json", "/docs/"];
/// Media types of responses; `application/octet-stream` is that of a content block.
const MEDIA_TYPES: [&str; 6] = [
    "application/json",
    "application/problem+json",
    "text/event-stream",
    "text/markdown",
    "text/plain",
    "application/octet-stream",
];
/// The schemas of events.
const EVENTS: [&str; 6] =
    ["ToolCallEvent", "StatusEvent", "ProgressEvent", "HookErrorEvent", "ToolResultEvent", "BatchAnswer"];

fn document() -> Value {
    serde_json::to_value(toolpost::http::openapi()).unwrap()
}

/// Returns the method, path and description of every operation.
fn operations(document: &Value) -> Vec<(&'static str, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| Some((method, path.clone(), item.get(method)?)))
    });
    all.collect()
}

#[test]
fn file_equals_the_generated_document() {
    let text = serde_json::to_string_pretty(&toolpost::http::openapi()).unwrap() + "\n";
    let how = "`just openapi`, or `cargo run -- openapi > openapi/openapi.json`";
    fixture::same_as_file("openapi/openapi.json", &text, how);
}

#[tokio::test(flavor = "multi_thread")]
async fn served_document_equals_the_file() {
    let app = App::on_sqlite().await;
    let mut file = document();
    let mut served = app.get("/openapi.json").await.ok();
    // A service without keys requires no key: see `schemathesis`.
    for document in [&mut file, &mut served] {
        let items = document["paths"].as_object_mut().unwrap().values_mut();
        for operation in items.flat_map(|item| item.as_object_mut().unwrap().values_mut()) {
            operation.as_object_mut().unwrap().shift_remove("security");
        }
    }
    assert_eq!(served, file);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_described_operation_exists_and_no_other_method() {
    let app = App::on_sqlite().await;
    let document = document();
    let described = operations(&document);
    for (path, _) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let filled =
                path.replace("{name}", "echo").replace("{queue}", "q").replace("{id}", "none").replace("{n}", "0");
            // `/events` does not end, and the methods of `/mcp` require a session.
            if matches!((method, path.as_str()), ("get", "/events" | "/approvals/events") | ("get" | "delete", "/mcp"))
            {
                continue;
            }
            let answer = client::send(app.request(method.to_uppercase().parse().unwrap(), &filled)).await;
            let is_described = described.iter().any(|(other, at, _)| *other == method && at == path);
            assert_eq!(answer.status != 405, is_described, "{method} {path}: {}", answer.status);
            assert!(!answer.text().contains("no such path"), "{method} {path}");
        }
    }
    for path in UNDESCRIBED {
        assert_eq!(app.get(path).await.status, 200, "{path}");
        assert!(document["paths"].get(path).is_none());
    }
}

#[test]
fn every_failure_is_a_problem_and_is_described() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap();
        let failures: Vec<_> = responses.iter().filter(|(status, _)| status.starts_with(['4', '5'])).collect();
        assert_eq!(failures.is_empty(), (path == "/healthz"), "{method} {path}");
        for (status, response) in failures {
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
            assert!(response["description"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path} {status}");
        }
    }
}

#[test]
fn only_sent_media_types_are_described() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            for media_type in response["content"].as_object().into_iter().flatten().map(|(name, _)| name) {
                assert!(MEDIA_TYPES.contains(&media_type.as_str()), "{method} {path} {status}: {media_type}");
            }
        }
    }
}

#[test]
fn body_operations_describe_rejected_bodies() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        // A stream is rejected within its response.
        if operation.get("requestBody").is_some_and(|body| !body["content"]["text/event-stream"].is_object()) {
            // The result of a tool may be any JSON value.
            let has_shape = !path.ends_with("/result");
            for status in ["400", "408", "413", "415", "422"].into_iter().filter(|status| has_shape || *status != "422")
            {
                assert!(operation["responses"].get(status).is_some(), "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn every_event_has_a_schema_whose_fields_are_described() {
    let document = document();
    for name in EVENTS {
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name}");
        let text = schema.to_string();
        let fields = if name == "BatchAnswer" { ["batch_id", "results"] } else { ["call_id", "seq"] };
        let own = fields.iter().all(|field| text.contains(&format!("\"{field}\"")));
        assert!(own || text.contains("Subject"), "{name}: {text}");
    }
}

/// Members with text for readers, which may change.
const PROSE: [&str; 3] = ["description", "summary", "title"];

/// Checks that only descriptions in the document change.
#[test]
fn shape_of_the_document_is_stable() {
    let found = shape(&document());
    let how = "UPDATE_FIXTURES=1 cargo test --test it shape_of_the_document_is_stable";
    fixture::same_as_file("tests/fixtures/openapi_shape.json", &found, how);
}

/// Renders the document without prose, sorted, with one operation or schema per line.
fn shape(document: &Value) -> String {
    let mut document = without_prose(document, Members::Keywords);
    let parts = document.as_object_mut().unwrap();
    parts.shift_remove("info");
    let mut lines = Vec::new();
    for (path, item) in parts.shift_remove("paths").unwrap().as_object().unwrap() {
        let operations = item.as_object().unwrap().iter();
        lines.extend(operations.map(|(method, operation)| (path.clone(), method.clone(), operation.clone())));
    }
    for (kind, all) in parts.shift_remove("components").unwrap().as_object().unwrap() {
        lines.extend(all.as_object().unwrap().iter().map(|(name, one)| (kind.clone(), name.clone(), one.clone())));
    }
    lines.extend(std::mem::take(parts).into_iter().map(|(name, part)| ("document".to_owned(), name, part)));
    lines.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let lines = lines.into_iter().map(|(pointer, name, value)| format!("  {:?}: {value}", format!("{pointer} {name}")));
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// The meaning of the members of an object.
#[derive(Clone, Copy, PartialEq)]
enum Members {
    /// Keywords of OpenAPI and JSON Schema.
    Keywords,
    /// Names that the service defines, each with keywords.
    Named,
    /// Data without prose.
    Data,
}

/// Removes the prose from a part of the document and sorts its members by name.
fn without_prose(value: &Value, members: Members) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| without_prose(item, members)).collect(),
        Value::Object(all) => {
            let is_prose = |name: &str, value: &Value| PROSE.contains(&name) && value.is_string();
            let mut kept: Vec<_> = all.iter().collect();
            kept.retain(|(name, value)| members != Members::Keywords || !is_prose(name, value));
            kept.sort_by_key(|(name, _)| name.as_str());
            let bare = kept.into_iter().map(|(name, value)| {
                let within = match (members, name.as_str()) {
                    (Members::Data, _) | (Members::Keywords, "example" | "value") => Members::Data,
                    (Members::Keywords, "properties" | "examples") => Members::Named,
                    _ => Members::Keywords,
                };
                (name.clone(), without_prose(value, within))
            });
            Value::Object(bare.collect())
        }
        other => other.clone(),
    }
}
