//! The `cache` member of definitions.

use serde_json::{Value, json};

use crate::support::App;
use crate::support::app::echo_tool;
use crate::support::calls::{idempotent, with};
use crate::support::shapes::points_at;

fn definition(more: Value) -> Value {
    with(echo_tool("t", json!({"type": "object"})), more)
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_is_for_idempotent_tools_only() {
    let app = App::on_sqlite().await;
    for annotations in [json!({}), json!({"read_only": true}), json!({"idempotent": false})] {
        let body = definition(json!({"annotations": annotations, "cache": {"ttl_ms": 1000}}));
        points_at(&app.post("/tools", &body).await.problem(422), "/cache");
    }
    assert_eq!(app.get("/tools/t").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_members_are_checked() {
    let app = App::on_sqlite().await;
    for (cache, pointer) in [
        (json!({"ttl_ms": 0}), "/cache/ttl_ms"),
        (json!({"ttl_ms": 1_u64 << 40}), "/cache/ttl_ms"),
        (json!({"ttl_ms": 1, "scope": "mine"}), "/cache/scope"),
        (json!({"ttl_ms": 1, "scope": {"global": null}}), "/cache/scope"),
        (json!({"ttl_ms": 1, "more": 1}), "/cache"),
        (json!({"scope": "global"}), "/cache"),
        (json!([1, "global"]), "/cache"),
    ] {
        let body = definition(json!({"annotations": idempotent(), "cache": cache}));
        points_at(&app.post("/tools", &body).await.problem(422), pointer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_is_shown_as_declared() {
    let app = App::on_sqlite().await;
    let cache = json!({"ttl_ms": 1000, "scope": "global"});
    app.register(definition(json!({"annotations": idempotent(), "cache": cache}))).await;
    assert_eq!(app.get("/tools/t").await.ok()["cache"], cache);
    assert_eq!(app.get("/tools/echo").await.ok().get("cache"), None);
}
