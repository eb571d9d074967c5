//! Shadowing of sources: `api` over `file` over `builtin`.

use serde_json::json;

use crate::support::app::{echo_tool, http_tool};
use crate::support::shapes::{names, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, Options};

on_both_databases!(
    async fn api_tool_shadows_the_builtin_until_it_is_deleted(backend: Backend) {
        let app = App::start(backend).await;
        let strict = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        app.echo_with("echo", strict).await;
        assert_eq!(app.get("/tools/echo").await.ok()["source"], "api");
        assert_eq!(app.call("echo", json!({})).await["error"]["code"], "TOOL_VALIDATION_ERROR");

        let gone = app.delete("/tools/echo").await;
        assert!((200..300).contains(&gone.status), "{}", gone.text());
        assert_eq!(app.get("/tools/echo").await.ok()["source"], "builtin");
        assert_eq!(succeeded(&app.call("echo", json!({})).await), "{}");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn shadowed_tool_is_listed_once() {
    let app = App::on_sqlite().await;
    let before = app.get("/tools").await.ok()["total"].clone();
    app.echo_of("echo", json!({})).await;
    let list = app.get("/tools").await.ok();
    assert_eq!(list["total"], before);
    assert_eq!(names(&list["tools"]).iter().filter(|name| **name == "echo").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_shadows_the_builtin_and_the_api_shadows_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut from_file = echo_tool("echo", json!({"type": "object"}));
    from_file["description"] = "from a file".into();
    std::fs::write(folder.path().join("echo.json"), from_file.to_string()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;

    let tool = app.get("/tools/echo").await.ok();
    assert_eq!((&tool["source"], &tool["description"]), (&json!("file"), &json!("from a file")));
    app.echo_of("echo", json!({})).await;
    assert_eq!(app.get("/tools/echo").await.ok()["source"], "api");
    app.delete("/tools/echo").await;
    assert_eq!(app.get("/tools/echo").await.ok()["source"], "file");
}

on_both_databases!(
    async fn deleted_tool_stays_deleted(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_of("mine", json!({})).await;
        app.delete("/tools/mine").await;
        app.delete("/tools/mine").await.problem(404);
        assert_eq!(app.call("mine", json!({})).await["error"]["code"], "TOOL_NOT_FOUND");
        let app = app.restart().await;
        app.get("/tools/mine").await.problem(404);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_in_flight_finishes_with_the_definition_it_started_with() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("from the old one")))).await;
    app.http_tool("mine", &server).await;
    let running = tokio::spawn({
        let client = (*app).clone();
        async move { client.call("mine", json!({})).await }
    });
    server.received(1).await;
    app.put("/tools/mine", &echo_tool("mine", json!({"type": "object"}))).await.ok();
    assert_eq!(succeeded(&app.call("mine", json!({})).await), "{}");
    server.open();
    assert_eq!(succeeded(&running.await.unwrap()), "from the old one");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_tool_deleted_meanwhile_is_answered() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("last words")))).await;
    app.register(http_tool("mine", json!({"url": server.url("/")}))).await;
    let running = tokio::spawn({
        let client = (*app).clone();
        async move { client.call("mine", json!({})).await }
    });
    server.received(1).await;
    app.delete("/tools/mine").await;
    server.open();
    assert_eq!(succeeded(&running.await.unwrap()), "last words");
}
