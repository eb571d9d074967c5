//! `/openapi.json` matches the behavior of the service.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::App;

/// Every route of the service, without the names of parameters.
const ROUTES: [(&str, &str); 27] = [
    ("get", "/tools"),
    ("post", "/tools"),
    ("get", "/tools/{}"),
    ("put", "/tools/{}"),
    ("delete", "/tools/{}"),
    ("post", "/tools/{}/validate"),
    ("post", "/tools/{}/resume"),
    ("get", "/tools/{}/stats"),
    ("delete", "/tools/{}/stats"),
    ("get", "/stats"),
    ("delete", "/stats"),
    ("get", "/hooks"),
    ("post", "/hooks"),
    ("get", "/hooks/{}"),
    ("delete", "/hooks/{}"),
    ("get", "/tool-calls"),
    ("post", "/tool-calls"),
    ("get", "/tool-calls/{}"),
    ("get", "/tool-calls/{}/events"),
    ("post", "/tool-calls/{}/cancel"),
    ("post", "/tool-calls/{}/progress"),
    ("post", "/tool-calls/{}/result"),
    ("get", "/events"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
];

async fn document() -> Value {
    App::on_sqlite().await.get("/openapi.json").await.ok()
}

/// Removes the names of parameters: `/tools/{name}` becomes `/tools/{}`.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// Returns the description of one route.
fn operation<'a>(document: &'a Value, method: &str, path: &str) -> &'a Value {
    let paths = document["paths"].as_object().unwrap();
    let (_, item) = paths.iter().find(|(key, _)| shape(key) == path).unwrap_or_else(|| panic!("no {path}"));
    item.get(method).unwrap_or_else(|| panic!("no {method} {path}"))
}

/// Returns the target of a `$ref`, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let Some(target) = value["$ref"].as_str() else { return value };
    document.pointer(target.trim_start_matches('#')).unwrap_or_else(|| panic!("nothing at {target}"))
}

fn all_values<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| all_values(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| all_values(field, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn document_is_openapi_3_1() {
    let document = document().await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_described() {
    let document = document().await;
    for (method, path) in ROUTES.into_iter().filter(|(_, path)| *path != "/openapi.json") {
        let operation = operation(&document, method, path);
        assert!(operation["summary"].is_string() || operation["description"].is_string(), "{method} {path}");
        assert!(operation["responses"].as_object().is_some_and(|all| !all.is_empty()), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_has_an_id_of_its_own() {
    let document = document().await;
    let mut ids = BTreeSet::new();
    for (method, path) in ROUTES.into_iter().filter(|(_, path)| *path != "/openapi.json") {
        let id =
            operation(&document, method, path)["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
        assert!(ids.insert(id.to_owned()), "{id} twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_described_in_their_operations() {
    let document = document().await;
    let cases = [
        ("post", "/tools", vec!["400", "409", "413", "415", "422"]),
        ("get", "/tools/{}", vec!["404"]),
        ("put", "/tools/{}", vec!["412", "422"]),
        ("delete", "/tools/{}", vec!["404"]),
        ("post", "/tools/{}/validate", vec!["404"]),
        ("get", "/tools/{}/stats", vec!["404"]),
        ("post", "/hooks", vec!["400", "413", "415", "422", "429"]),
        ("delete", "/hooks/{}", vec!["404", "409"]),
        ("post", "/tool-calls", vec!["400", "413", "415", "422", "503"]),
        ("get", "/tool-calls/{}", vec!["404"]),
        ("get", "/tool-calls/{}/events", vec!["404"]),
    ];
    for (method, path, statuses) in cases {
        for status in statuses {
            let response = resolved(&document, &operation(&document, method, path)["responses"][status]);
            assert!(response["content"]["application/problem+json"].is_object(), "{method} {path} {status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_headers_are_described() {
    let document = document().await;
    let cases = [
        ("post", "/tool-calls", vec!["Idempotency-Key", "Prefer", "traceparent"]),
        ("get", "/tools", vec!["If-None-Match"]),
        ("get", "/tools/{}", vec!["If-None-Match"]),
        ("put", "/tools/{}", vec!["If-Match", "If-None-Match"]),
        ("delete", "/tools/{}", vec!["If-Match"]),
        ("get", "/tool-calls/{}/events", vec!["Last-Event-ID"]),
        ("get", "/events", vec!["Last-Event-ID"]),
    ];
    for (method, path, names) in cases {
        let parameters = operation(&document, method, path)["parameters"].as_array().unwrap();
        for name in names {
            let is_it = |parameter: &Value| parameter["in"] == "header" && parameter["name"] == name;
            let found = parameters.iter().find(|parameter| is_it(parameter));
            let found = found.unwrap_or_else(|| panic!("{method} {path} {name}"));
            assert_eq!(found["required"], false, "{method} {path} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn response_headers_are_described() {
    let document = document().await;
    let cases = [
        ("post", "/tool-calls", "200", vec!["Preference-Applied", "Idempotency-Replayed"]),
        ("post", "/tool-calls", "202", vec!["Location", "Preference-Applied", "Idempotency-Replayed"]),
        ("post", "/tool-calls", "503", vec!["Location", "Retry-After"]),
        ("post", "/tools", "201", vec!["Location", "ETag"]),
        ("post", "/hooks", "201", vec!["Location"]),
        ("get", "/tools/{}", "200", vec!["ETag"]),
        ("get", "/events", "503", vec!["Retry-After"]),
    ];
    for (method, path, status, names) in cases {
        let headers = &operation(&document, method, path)["responses"][status]["headers"];
        for name in names {
            assert!(headers[name]["schema"].is_object(), "{method} {path} {status} {name}");
        }
    }
    let reused = &operation(&document, "post", "/tool-calls")["responses"]["422"]["description"];
    assert!(reused.as_str().unwrap().contains("IDEMPOTENCY_KEY_REUSED"), "{reused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_are_described_as_such() {
    let document = document().await;
    for (method, path) in [("get", "/events"), ("get", "/tool-calls/{}/events"), ("post", "/tool-calls")] {
        let response = resolved(&document, &operation(&document, method, path)["responses"]["200"]);
        assert!(response["content"]["text/event-stream"].is_object(), "{method} {path}");
    }
    let response = resolved(&document, &operation(&document, "post", "/tool-calls")["responses"]["200"]);
    assert!(response["content"]["application/json"].is_object());
}

/// Checks that the first entry decides; the other entries are alternatives.
#[tokio::test(flavor = "multi_thread")]
async fn first_candidate_is_read_and_described() {
    let app = App::on_sqlite().await;
    let document = app.get("/openapi.json").await.ok();
    let body_schema = json!({"$ref": "#/components/schemas/CallBody", "components": document["components"]});
    let described = jsonschema::draft202012::new(&body_schema).unwrap();
    let cases = [
        (json!({"candidates": [{"content": {"parts": []}}, -8.5, true]}), 200),
        (json!({"candidates": [-8.5, {"content": {"parts": []}}]}), 422),
        (json!({"choices": [{"message": {"role": "assistant"}}, null]}), 200),
        (json!({"choices": [null, {"message": {"role": "assistant"}}]}), 422),
    ];
    for (body, status) in cases {
        assert_eq!(app.post("/tool-calls", &body).await.status, status, "{body}");
        assert_eq!(described.is_valid(&body), status == 200, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reference_resolves_within_the_document() {
    let document = document().await;
    let mut values = Vec::new();
    all_values(&document, &mut values);
    for value in values {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            assert!(target.starts_with("#/"), "{target}");
            resolved(&document, value);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_described_get_without_parameters_exists() {
    let app = App::on_sqlite().await;
    let document = app.get("/openapi.json").await.ok();
    for (path, item) in document["paths"].as_object().unwrap() {
        // `GET /mcp` requires a session.
        if item.get("get").is_some() && !path.contains('{') && !path.ends_with("/events") && path != "/mcp" {
            let status = app.get(path).await.status;
            assert!(status < 400, "{path}: {status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_responds() {
    let app = App::on_sqlite().await;
    for (method, path) in ROUTES {
        let path = path.replace("/tools/{}", "/tools/echo").replace("{}", "0197a1b2-0000-7000-8000-000000000000");
        let method = method.to_uppercase().parse().unwrap();
        if path != "/events" {
            let status = crate::support::client::send(app.request(method, &path)).await.status;
            assert!(status != 405 && status < 500, "{path}: {status}");
        }
    }
}
