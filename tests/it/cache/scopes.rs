//! The scopes in which callers share a result.

use serde_json::json;

use super::{app_with, call, numbered};
use crate::support::calls::idempotent;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_never_see_each_others_results() {
    let server = numbered().await;
    let app = App::with_egress(Backend::Sqlite).await;
    // `session` is the default.
    app.tool("t", &server, json!({"annotations": idempotent(), "cache": {"ttl_ms": 3_600_000}})).await;
    let mut outputs = Vec::new();
    for session in ["a", "b", "a", "b"] {
        outputs.push(succeeded(&call(&app, json!({"session": session})).await).to_owned());
    }
    assert_eq!(outputs, ["run 1", "run 2", "run 1", "run 2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_a_session_shares_no_session_cache() {
    let server = numbered().await;
    let app = App::with_egress(Backend::Sqlite).await;
    let cache = json!({"ttl_ms": 3_600_000, "scope": "session"});
    app.tool("t", &server, json!({"annotations": idempotent(), "cache": cache})).await;
    assert_eq!(succeeded(&call(&app, json!({})).await), "run 1");
    let second = call(&app, json!({})).await;
    assert_eq!((succeeded(&second), &second["cached"]), ("run 2", &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn global_result_is_shared_by_all_callers() {
    let server = numbered().await;
    let app = app_with(Backend::Sqlite, &server).await;
    for more in [json!({"session": "a"}), json!({"session": "b"}), json!({})] {
        assert_eq!(succeeded(&call(&app, more).await), "run 1");
    }
}
