//! Registration of definitions from a URL.

use serde_json::{Value, json};

use super::{Library, document, own};
use crate::support::shapes::{is_time, names_field, points_at, succeeded, violation};
use crate::support::{Answer, App, Backend, Options};

/// Returns a definition without a schema; a built-in tool would have its own.
fn without_schema() -> Value {
    json!({"executor": {"type": "external"}})
}

on_both_databases!(
    async fn texts_and_schemas_come_from_the_url(backend: Backend) {
        let app = App::with_egress(backend).await;
        let library = Library::of(document("Tables: users, orders.", "table")).await;
        let tool = app.register(library.definition("sql", json!({"title": "Database"}))).await;
        assert_eq!((&tool["description"], &tool["title"]), (&json!("Tables: users, orders."), &json!("Database")));
        assert_eq!(tool["input_schema"]["required"], json!(["table"]));
        assert_eq!(tool.get("definition_error"), None);
        let request = library.server.requests()[0].clone();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/definition"));
        let list = app.get("/tools?format=openai").await.ok();
        let listed = list["tools"].as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "sql").unwrap();
        assert_eq!(listed["function"]["description"], "Tables: users, orders.");
        assert_eq!(violation(&app.call("sql", json!({})).await)["property"], "table");
        succeeded(&app.call("sql", json!({"table": "users"})).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn bound_beyond_64_bits_is_replaced_in_an_answer() {
    let app = App::with_egress(Backend::Sqlite).await;
    let document = json!({"input_schema": {"type": "object", "properties": {"a": {"minimum": "BOUND"}}}});
    let text = document.to_string().replace("\"BOUND\"", "-9223372036854776000");
    let library = Library::answering(Answer::body("application/json", text)).await;
    let tool = app.register(library.definition("sql", without_schema())).await;
    assert_eq!(tool["input_schema"]["properties"]["a"]["minimum"], json!(i64::MIN));
    assert_eq!(tool.get("definition_error"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_without_an_answer_needs_its_own_schema() {
    let app = App::with_egress(Backend::Sqlite).await;
    for (answer, expected) in [
        (Answer::status(500, "text/plain", "secret-of-the-server"), "HTTP 500"),
        (Answer::CloseEarly, "closed the connection"),
        (Answer::text("no JSON at all"), "invalid JSON"),
        (Answer::json(&json!(["a"])), "must be an object"),
        (Answer::json(&json!({"more": 1})), "at least one of"),
        (Answer::json(&json!({"input_schema": {"type": "strung"}})), "input_schema"),
        (Answer::json(&json!({"input_schema": {"type": "array"}})), "input_schema"),
        (Answer::json(&json!({"input_schema": {"type": "object"}, "title": "x".repeat(300)})), "title"),
        (Answer::Stream(3 * 1024 * 1024), "more than"),
    ] {
        let library = Library::answering(answer).await;
        let problem = app.post("/tools", &library.definition("t", without_schema())).await.problem(422);
        points_at(&problem, "/definition_url");
        names_field(&problem, expected);
        assert!(!problem.to_string().contains("secret-of-the-server"), "{problem:#}");
        assert_eq!(app.get("/tools/t").await.status, 404);

        let tool = app.register(library.definition("t", own())).await;
        let error = &tool["definition_error"];
        assert!(error["message"].as_str().unwrap().contains(expected) && is_time(&error["at"]), "{expected}: {error}");
        assert_eq!(tool["description"], "own");
        succeeded(&app.call("t", json!({})).await);
        assert_eq!(app.delete("/tools/t").await.status, 204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn url_is_checked_and_guarded() {
    let app = App::start_with(Backend::Sqlite, Options::default()).await;
    let library = Library::of(document("d", "c")).await;
    let refused = app.post("/tools", &library.definition("t", without_schema())).await.problem(422);
    names_field(&refused, "is not allowed");
    assert_eq!(library.server.connections(), 0);
    for (more, pointer) in [
        (json!({"definition_url": "ftp://example.com/"}), "/definition_url"),
        (json!({"definition_url": "http://user:password@example.com/"}), "/definition_url"),
        (json!({"definition_url": "nonsense"}), "/definition_url"),
        (json!({"definition_url": 5}), "/definition_url"),
        (json!({"definition_ttl_ms": 1}), "/definition_ttl_ms"),
        (json!({"definition_url": null}), "/definition_ttl_ms"),
    ] {
        let body = library.definition("t", crate::support::calls::with(own(), more));
        points_at(&app.post("/tools", &body).await.problem(422), pointer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_can_be_read_and_put_back() {
    let app = App::with_egress(Backend::Sqlite).await;
    let library = Library::answering(Answer::status(404, "text/plain", "")).await;
    app.register(library.definition("t", own())).await;
    let read = app.get("/tools/t").await;
    let etag = read.etag().to_owned();
    let mut tool: Value = read.ok();
    assert!(tool["definition_error"].is_object());
    tool["description"] = "mine".into();
    let request = app.request(reqwest::Method::PUT, "/tools/t").header("if-match", etag).json(&tool);
    let put = crate::support::client::send(request).await.ok();
    assert_eq!((&put["description"], &put["revision"]), (&json!("mine"), &json!(2)));
}
