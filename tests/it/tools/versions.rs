//! Replacing definitions with PUT, ETags and compare-and-swap.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::{App, Backend, Response};

fn described(description: &str) -> Value {
    let mut tool = echo_tool("mine", json!({"type": "object"}));
    tool["description"] = description.into();
    tool
}

async fn put_if(app: &App, etag: &str, description: &str) -> Response {
    send(app.request(Method::PUT, "/tools/mine").header("if-match", etag).json(&described(description))).await
}

async fn get_unless(app: &App, path: &str, etag: &str) -> Response {
    send(app.request(Method::GET, path).header("if-none-match", etag)).await
}

on_both_databases!(
    async fn put_creates_and_then_replaces(backend: Backend) {
        let app = App::start(backend).await;
        let created = app.put("/tools/mine", &described("one")).await;
        assert!([200, 201].contains(&created.status), "{}", created.text());
        let replaced = app.put("/tools/mine", &described("two")).await.ok();
        let stored = app.get("/tools/mine").await.ok();
        assert_eq!(stored["description"], "two");
        assert_eq!(stored, replaced);
        assert!(stored["revision"].as_u64() > created.json["revision"].as_u64());
        assert_eq!(stored["created_at"], created.json["created_at"]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn put_with_the_current_etag_replaces() {
    let app = App::on_sqlite().await;
    app.register(described("one")).await;
    let etag = app.get("/tools/mine").await.etag().to_owned();
    assert_eq!(put_if(&app, &etag, "two").await.status, 200);
    assert_eq!(app.get("/tools/mine").await.ok()["description"], "two");
}

on_both_databases!(
    async fn put_with_a_stale_etag_is_a_412_and_changes_nothing(backend: Backend) {
        let app = App::start(backend).await;
        app.register(described("one")).await;
        let stale = app.get("/tools/mine").await.etag().to_owned();
        app.put("/tools/mine", &described("two")).await.ok();
        put_if(&app, &stale, "three").await.problem(412);
        assert_eq!(app.get("/tools/mine").await.ok()["description"], "two");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn put_with_an_etag_does_not_create() {
    let app = App::on_sqlite().await;
    put_if(&app, "\"1\"", "one").await.problem(412);
    app.get("/tools/mine").await.problem(404);
}

on_both_databases!(
    async fn one_of_concurrent_swaps_of_one_version_succeeds(backend: Backend) {
        let app = App::start(backend).await;
        app.register(described("one")).await;
        let etag = app.get("/tools/mine").await.etag().to_owned();
        let swaps = (0..8).map(|n| {
            let (app, etag) = (&app, &etag);
            async move { put_if(app, etag, &format!("swap {n}")).await.status }
        });
        let mut answers = futures_util::future::join_all(swaps).await;
        answers.sort_unstable();
        assert_eq!(answers, [200, 412, 412, 412, 412, 412, 412, 412]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_list_is_a_304() {
    let app = App::on_sqlite().await;
    let etag = app.get("/tools").await.etag().to_owned();
    let unchanged = get_unless(&app, "/tools", &etag).await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    assert_eq!(unchanged.etag(), etag);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_list_has_another_etag() {
    let app = App::on_sqlite().await;
    let mut etags = vec![app.get("/tools").await.etag().to_owned()];
    app.register(described("one")).await;
    etags.push(app.get("/tools").await.etag().to_owned());
    app.put("/tools/mine", &described("two")).await.ok();
    etags.push(app.get("/tools").await.etag().to_owned());
    etags.dedup();
    assert_eq!(etags.len(), 3);
    assert_eq!(get_unless(&app, "/tools", &etags[0]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_tool_is_a_304_and_a_changed_one_is_not() {
    let app = App::on_sqlite().await;
    app.register(described("one")).await;
    let etag = app.get("/tools/mine").await.etag().to_owned();
    assert_eq!(get_unless(&app, "/tools/mine", &etag).await.status, 304);
    app.put("/tools/mine", &described("two")).await.ok();
    assert_eq!(get_unless(&app, "/tools/mine", &etag).await.status, 200);
}
