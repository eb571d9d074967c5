//! Common features of all lists: entity tags and rejected parameters.

use reqwest::Method;
use serde_json::json;

use crate::support::calls::tool;
use crate::support::client::send;
use crate::support::shapes::failed;
use crate::support::{Answer, App, Backend, HttpTool, Response};

const FORMATS: [&str; 8] =
    ["native", "openai", "openai-responses", "openai-strict", "anthropic", "gemini", "mcp", "prompt"];

async fn get_unless(app: &App, path: &str, etag: &str) -> Response {
    send(app.request(Method::GET, path).header("if-none-match", etag)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_list_has_its_own_etag() {
    let app = App::on_sqlite().await;
    app.echo_of("one", json!({})).await;
    let mut tags = Vec::new();
    for format in FORMATS {
        for more in ["", "&losses=true", "&q=echo", "&q=echo&limit=1", "&stats=true"] {
            let path = format!("/tools?format={format}{more}");
            let first = app.get(&path).await;
            let (etag, body) = (first.etag().to_owned(), first.body);
            let again = app.get(&path).await;
            assert_eq!((again.etag(), &again.body), (&*etag, &body), "{path}");
            let same = get_unless(&app, &path, &etag).await;
            assert_eq!((same.status, same.body.len(), same.etag()), (304, 0, &*etag), "{path}");
            tags.push((path, etag, body));
        }
    }
    for (path, etag, body) in &tags {
        for (other_path, other_etag, other_body) in &tags {
            assert_eq!(etag == other_etag, body == other_body, "{path} {other_path}");
        }
    }
    app.echo_of("two", json!({})).await;
    for (path, etag, _) in tags.iter().filter(|(path, ..)| !path.contains("q=")) {
        let changed = get_unless(&app, path, etag).await;
        assert!(changed.status == 200 && changed.etag() != etag, "{path}");
    }
}

on_both_databases!(
    async fn tags_are_the_same_after_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_of("one", json!({"a": {"type": "integer"}})).await;
        let mut before = Vec::new();
        for format in FORMATS {
            before.push(app.get(&format!("/tools?format={format}")).await.etag().to_owned());
        }
        let app = app.restart().await;
        for (format, etag) in FORMATS.into_iter().zip(before) {
            assert_eq!(get_unless(&app, &format!("/tools?format={format}"), &etag).await.status, 304, "{format}");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn paused_tool_is_shown_in_a_cached_list() {
    let app = App::tuned(Backend::Sqlite, |config| config.pause.after_timeouts = 1).await;
    let server = HttpTool::answering(Answer::Never).await;
    app.register(tool("t", &server, json!({"limits": {"timeout_ms": 50}}))).await;
    let before = app.get("/tools").await;
    failed(&app.call("t", json!({})).await, "TOOL_TIMEOUT");
    let after = get_unless(&app, "/tools", before.etag()).await.ok();
    let paused = |list: &serde_json::Value| {
        let tools = list["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == "t").unwrap()["paused"].is_object()
    };
    assert!(!paused(&before.json) && paused(&after));
    assert!(paused(&app.get("/tools?q=server").await.ok()));
    app.post_empty("/tools/t/resume").await.ok();
    assert_eq!(app.get("/tools").await.body, before.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn meaningless_parameters_are_rejected() {
    let app = App::on_sqlite().await;
    for query in
        ["format=openapi", "format=OpenAI", "losses=maybe", "limit=10001", "q=x&limit=0", "q=x&limit=-1", "querry=x"]
    {
        app.get(&format!("/tools?{query}")).await.problem(422);
    }
}
