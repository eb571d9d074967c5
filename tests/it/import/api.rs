//! `POST /imports/openapi`: its bodies, its options and its rejections.

use reqwest::Method;
use serde_json::{Value, json};

use super::{import, names, of_paths, text};
use crate::support::client::send;
use crate::support::shapes::{names_field, points_at};
use crate::support::{Answer, App, Backend, Client, HttpTool, Response};

fn document() -> Value {
    let mut document =
        of_paths(json!({"/pets": {"get": {"operationId": "list", "tags": ["pets"]}, "post": {"operationId": "add"}},
        "/owners": {"get": {"tags": ["owners"]}}}));
    document["servers"] = json!([{"url": "https://h.example/v1"}]);
    document
}

async fn raw(client: &Client, content_type: &str, body: impl Into<reqwest::Body>) -> Response {
    send(client.request(Method::POST, "/imports/openapi").header("content-type", content_type).body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn fragment_in_a_path_belongs_to_the_operation() {
    let server = HttpTool::answering(Answer::json(&json!({}))).await;
    let app = App::with_egress(Backend::Sqlite).await;
    let id = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]);
    let mut document = of_paths(json!({"/files/{id}": {"put": {"parameters": id}},
        "/files/{id}#add_shared_link": {"put": {"parameters": id}}}));
    document["servers"] = json!([{"url": server.url("")}]);
    let report = import(&app, json!({"document": document})).await;
    let created = names(&report, "created");
    assert_eq!((created.len(), &report["refused"]), (2, &json!([])), "{report:#}");
    assert!(created[1].contains("shared_link"), "{created:?}");
    for name in &created {
        app.call(name, json!({"id": "7"})).await;
    }
    let paths: Vec<String> = server.requests().iter().map(|request| request.target.clone()).collect();
    assert_eq!(paths, ["/files/7", "/files/7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn document_can_be_an_object_a_text_or_the_body() {
    let yaml = "openapi: 3.0.0\nservers: [{url: https://h.example}]\npaths: {/y: {get: {operationId: OP}}}\n";
    let app = App::on_sqlite().await;
    assert_eq!(names(&import(&app, json!({"document": document()})).await, "created"), ["list", "add", "get_owners"]);
    let of_text = import(&app, json!({"document": yaml.replace("OP", "of_text")})).await;
    assert_eq!(names(&of_text, "created"), ["of_text"]);
    let json_text = import(&app, json!({"document": document().to_string()})).await;
    assert_eq!(names(&json_text, "unchanged").len(), 3);
    for (at, content_type) in
        ["application/yaml", "text/yaml; charset=utf-8", "application/vnd.oai.openapi+yaml"].into_iter().enumerate()
    {
        let report = raw(&app, content_type, yaml.replace("OP", &format!("bare{at}"))).await.ok();
        assert_eq!(names(&report, "created"), [format!("bare{at}")]);
    }
    let bare = raw(&app, "application/vnd.oai.openapi+json", document().to_string()).await.ok();
    assert_eq!(names(&bare, "unchanged").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_selected_operations_are_imported() {
    let app = App::on_sqlite().await;
    for (only, created) in [
        (json!(["pets"]), vec!["list"]),
        (json!(["add", "GET /owners"]), vec!["add", "get_owners"]),
        (json!(["/pets"]), vec!["list", "add"]),
    ] {
        let report = import(&app, json!({"document": document(), "only": only, "dry_run": true})).await;
        assert_eq!(names(&report, "created"), created);
    }
    let problem =
        app.post("/imports/openapi", &json!({"document": document(), "only": ["add", "pest"]})).await.problem(422);
    points_at(&problem, "/only/1");
    assert!(problem["detail"].as_str().unwrap().contains("did you mean \"pets\"?"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn document_is_fetched_through_the_egress_guard() {
    let mut relative = document();
    relative["servers"] = json!([{"url": "v2"}]);
    let server = HttpTool::start("127.0.0.1", move |request| match request.target.as_str() {
        "/api/openapi.json" => Answer::json(&relative),
        "/large" => Answer::Stream(34_000_000),
        "/no-document" => Answer::text("just: [words"),
        _ => Answer::status(404, "text/plain", "secret"),
    })
    .await;
    let closed = App::on_sqlite().await;
    let url = server.url("/api/openapi.json");
    let denied = closed.post("/imports/openapi", &json!({"url": url})).await.problem(422);
    points_at(&denied, "/url");
    assert_eq!(server.connections(), 0);

    let app = App::with_egress(Backend::Sqlite).await;
    assert_eq!(names(&import(&app, json!({"url": url})).await, "created").len(), 3);
    assert_eq!(app.get("/tools/list").await.ok()["executor"]["url"], server.url("/api/v2/pets"));
    for (target, expected) in
        [("/nowhere", "answered HTTP 404"), ("/large", "more than 33554432 bytes"), ("/no-document", "not valid YAML")]
    {
        let problem = app.post("/imports/openapi", &json!({"url": server.url(target)})).await.problem(422);
        points_at(&problem, "/url");
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{problem}");
        assert!(!problem.to_string().contains("secret"));
    }
    // With `document`, the service does not fetch `url`.
    let requests = server.requests().len();
    let report = import(&app, json!({"document": document(), "url": "https://docs.example/x", "prefix": "p"})).await;
    assert_eq!((names(&report, "created").len(), server.requests().len()), (3, requests));
}

/// Returns a document with one operation and a description of the given length.
fn document_of(bytes: usize) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1", "description": "x".repeat(bytes)},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/large": {"get": {"operationId": "large", "description": "d", "responses": {}}}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn document_has_up_to_32_mib_in_a_body_and_by_url() {
    const MIB: usize = 1024 * 1024;
    let large = document_of(31 * MIB);
    let at_url = large.clone();
    let server = HttpTool::start("127.0.0.1", move |_| Answer::json(&at_url)).await;
    let app = App::with_egress(Backend::Sqlite).await;
    for (body, prefix) in [
        (large.clone(), ""),
        (json!({"document": large, "prefix": "in_body"}), "in_body_"),
        (json!({"url": server.url("/openapi.json"), "prefix": "by_url"}), "by_url_"),
    ] {
        assert_eq!(names(&import(&app, body).await, "created"), [format!("{prefix}large")]);
    }
    let larger = app.post("/imports/openapi", &document_of(33 * MIB)).await;
    assert_eq!(larger.problem(413)["code"], "PAYLOAD_TOO_LARGE");
    // The larger limit applies to imports only.
    let call = app.post("/tool-calls", &json!({"name": "echo", "arguments": {"text": "x".repeat(5 * MIB)}})).await;
    assert_eq!(call.problem(413)["code"], "PAYLOAD_TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_request_is_rejected_with_its_pointer() {
    let app = App::on_sqlite().await;
    let before = app.get("/tools").await.ok();
    let mut nameless = document();
    nameless.as_object_mut().unwrap().shift_remove("servers");
    for (body, pointer) in [
        (json!({}), "/document"),
        (json!({"document": 5}), "/document"),
        (json!({"document": {"a": 1}}), "/document"),
        (json!({"document": {"openapi": "3.1.0", "paths": []}}), "/document/paths"),
        (json!({"document": {"swagger": "1.2"}}), "/document/swagger"),
        (json!({"document": "a: [1"}), "/document"),
        (json!({"document": nameless}), "/server"),
        (json!({"document": document(), "server": "h.example"}), "/server"),
        (json!({"document": document(), "prefix": "a b"}), "/prefix"),
        (json!({"document": document(), "auth": ["bearer:a-b"]}), "/auth/0"),
        (json!({"document": document(), "auth": ["bearer:A", "basic:u:B"]}), "/auth/1"),
        (json!({"document": document(), "auth": "bearer:A"}), "/auth"),
        (json!({"document": document(), "url": "ftp://h"}), "/url"),
        (json!({"openapi": "3.1.0"}), ""),
        (json!({"swagger": "1.0", "paths": {}}), "/swagger"),
    ] {
        let problem = app.post("/imports/openapi", &body).await.problem(422);
        let pointers: Vec<&str> =
            problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
        assert_eq!(pointers, [pointer], "{body}: {problem}");
    }
    let typo = app.post("/imports/openapi", &json!({"document": document(), "servr": "x"})).await.problem(422);
    names_field(&typo, "servr");
    assert_eq!(app.post_raw("/imports/openapi", "{").await.problem(400)["code"], "INVALID_JSON");
    raw(&app, "text/plain", "openapi: 3.0.0").await.problem(415);
    raw(&app, "application/yaml", "a: [1").await.problem(422);
    raw(&app, "application/yaml", " ".repeat(34_000_000)).await.problem(413);
    assert_eq!(app.get("/tools").await.ok(), before, "nothing was registered");
}

#[tokio::test(flavor = "multi_thread")]
async fn import_route_is_described() {
    let described = App::on_sqlite().await.get("/openapi.json").await.ok();
    let operation = &described["paths"]["/imports/openapi"]["post"];
    for status in ["400", "408", "413", "415", "422", "503"] {
        assert!(operation["responses"][status]["content"]["application/problem+json"].is_object(), "{status}");
    }
    let content = operation["requestBody"]["content"].as_object().unwrap();
    assert_eq!(content.keys().collect::<Vec<_>>(), ["application/json", "application/yaml"]);
}

/// Imports the service's own description.
#[tokio::test(flavor = "multi_thread")]
async fn service_can_import_itself() {
    let app = App::with_egress(Backend::Sqlite).await;
    let report = import(&app, json!({"url": app.url("/openapi.json"), "prefix": "toolpost", "dry_run": true})).await;
    assert!(names(&report, "created").contains(&"toolpost_list_hooks".to_owned()), "{report}");
    assert!(report["refused"].as_array().unwrap().len() <= 2, "{}", report["refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_tool_is_listed_for_every_vendor() {
    let app = App::on_sqlite().await;
    import(&app, json!({"document": text("petshop.yaml")})).await;
    for format in ["openai", "openai-strict", "openai-responses", "anthropic", "gemini", "mcp"] {
        let listed = app.get(&format!("/tools?format={format}")).await.ok().to_string();
        assert!(listed.contains("updatePet") && listed.contains("createUsersWithListInput"), "{format}");
    }
}
