//! Inactive tools appear in no list of any format, unless the caller requests them.

use serde_json::json;

use super::{Grouping, service};
use crate::support::client::send;
use crate::support::{App, Backend, Options};

const FORMATS: [&str; 8] =
    ["native", "openai", "openai-responses", "openai-strict", "anthropic", "gemini", "mcp", "prompt"];

#[tokio::test(flavor = "multi_thread")]
async fn inactive_tool_is_in_no_format_and_in_no_search() {
    let app = service(Backend::Sqlite).await;
    for format in FORMATS {
        let path = format!("/tools?format={format}");
        assert!(app.get(&path).await.text().contains("in_a"), "{format}");
        app.deactivate("a").await;
        // Only the native format supports `include_inactive`.
        let parameter = if format == "native" { "" } else { "&include_inactive=true" };
        for query in ["", "&q=answers", "&groups=a,b", "&groups=a"] {
            let text = app.get(&format!("{path}{query}{parameter}")).await.text();
            assert!(!text.contains("in_a"), "{format} {query}: {text}");
            assert!(text.contains("in_both"), "{format} {query}: {text}");
        }
        app.patch("/tool-groups", json!({"activate": ["a"]})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inactive_tool_is_listed_on_request() {
    let app = service(Backend::Sqlite).await;
    app.deactivate("a").await;
    for query in ["?include_inactive=true", "?include_inactive=true&q=answers"] {
        let list = app.get(&format!("/tools{query}")).await.ok();
        let tools = list["tools"].as_array().unwrap();
        let active = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap()["active"].clone();
        assert_eq!((active("in_a"), active("in_both"), active("in_none")), (json!(false), json!(true), json!(true)));
    }
    let tool = app.get("/tools/in_a").await.ok();
    assert_eq!((&tool["active"], &tool["groups"]), (&json!(false), &json!(["a"])));
    assert_eq!(app.get("/tools/in_both").await.ok()["active"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_can_be_restricted_to_groups() {
    let app = service(Backend::Sqlite).await;
    assert_eq!(app.listed("?groups=a").await, ["in_a", "in_both"]);
    assert_eq!(app.listed("?groups=a,b").await, ["in_a", "in_b", "in_both"]);
    assert_eq!(app.listed("?groups=b,%20").await, ["in_b", "in_both"]);
    assert_eq!(app.listed("?groups=").await.len(), 4);
    app.get("/tools?groups=a,nobody").await.problem(404);
    let strict = app.get("/tools?groups=b&format=openai").await.ok();
    assert_eq!((&strict["total"], &strict["tools"][0]["function"]["name"]), (&json!(2), &json!("in_b")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_follow_a_switch() {
    let app = service(Backend::Sqlite).await;
    let unless = |path: &'static str, etag: String| {
        let request = app.request(reqwest::Method::GET, path).header("if-none-match", etag);
        async { send(request).await.status }
    };
    for path in ["/tools", "/tools?format=openai", "/tools?format=prompt", "/tools?groups=a", "/tools/in_a"] {
        let first = app.get(path).await.etag().to_owned();
        assert_eq!(unless(path, first.clone()).await, 304, "{path}");
        app.deactivate("a").await;
        let second = app.get(path).await.etag().to_owned();
        assert_ne!(first, second, "{path}");
        assert_eq!((unless(path, first.clone()).await, unless(path, second).await), (200, 304), "{path}");
        app.patch("/tool-groups", json!({"activate": ["a"]})).await.ok();
        assert_eq!(app.get(path).await.etag(), first, "{path}");
    }
    assert_eq!(unless("/tools/in_b", app.get("/tools/in_b").await.etag().to_owned()).await, 304);
}

#[tokio::test(flavor = "multi_thread")]
async fn inactive_tool_is_replaced_and_deleted_like_any_other() {
    let app = service(Backend::Sqlite).await;
    let active_tag = app.get("/tools/in_a").await.etag().to_owned();
    app.deactivate("a").await;
    let put = |etag: String| {
        let mut tool = super::grouped("in_a", &["a"]);
        tool["description"] = etag.as_str().into();
        let request = app.request(reqwest::Method::PUT, "/tools/in_a").header("if-match", etag).json(&tool);
        async { send(request).await }
    };
    assert_eq!(put(active_tag).await.status, 412, "it is not what the caller has seen");
    let now = app.get("/tools/in_a").await.etag().to_owned();
    let replaced = put(now).await;
    assert_eq!((replaced.json["active"].clone(), replaced.etag()), (json!(false), app.get("/tools/in_a").await.etag()));
    assert_eq!(app.delete("/tools/in_a").await.status, 204);
    app.get("/tools/in_a").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn find_tools_omits_inactive_tools() {
    let options = Options { configure: Some(|config| config.tools.discovery = true), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.groups(&["a"]).await;
    app.grouped("weather", &["a"]).await;
    let found = || async {
        let call = app.call("find_tools", json!({"query": "weather"})).await;
        call["structured"]["tools"].as_array().unwrap().len()
    };
    assert_eq!(found().await, 1);
    app.deactivate("a").await;
    assert_eq!(found().await, 0);
}
