//! The lifetime of cached results.

use serde_json::json;

use super::{app_with, call, global, numbered};
use crate::support::app::http_tool;
use crate::support::calls::{idempotent, with};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn cached_result_expires() {
    let server = numbered().await;
    let app = App::with_egress(Backend::Sqlite).await;
    let cache = json!({"ttl_ms": 1, "scope": "global"});
    app.tool("t", &server, json!({"annotations": idempotent(), "cache": cache})).await;
    call(&app, json!({})).await;
    eventually("the tool to run again", || async {
        (succeeded(&call(&app, json!({})).await) != "run 1").then_some(())
    })
    .await;
}

on_both_databases!(
    async fn changed_definition_ignores_old_results(backend: Backend) {
        let server = numbered().await;
        let app = app_with(backend, &server).await;
        assert_eq!(succeeded(&call(&app, json!({})).await), "run 1");
        let changed = with(http_tool("t", json!({"url": server.url("/run")})), global());
        let changed = with(changed, json!({"description": "Asks otherwise."}));
        app.put("/tools/t", &changed).await.ok();
        assert_eq!(succeeded(&call(&app, json!({})).await), "run 2");
        assert_eq!(succeeded(&call(&app, json!({})).await), "run 2");

        assert_eq!(app.delete("/tools/t").await.status, 204);
        app.tool("t", &server, with(global(), json!({"title": "Another"}))).await;
        assert_eq!(succeeded(&call(&app, json!({})).await), "run 3");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn restart_clears_the_cache() {
    let server = numbered().await;
    let app = app_with(Backend::Sqlite, &server).await;
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 1");
    let app = app.restart().await;
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_runs_if_the_cache_has_no_memory() {
    let server = numbered().await;
    let app = App::tuned(Backend::Sqlite, |config| config.cache.max_mib = 0).await;
    app.tool("t", &server, global()).await;
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 1");
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 2");
}
