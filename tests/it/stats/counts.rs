//! Counted calls and their categories.

use serde_json::{Value, json};

use crate::support::shapes::is_time;
use crate::support::{App, Backend};

/// Returns only these fields of `stats`.
fn shown(stats: &Value, fields: &[&str]) -> Value {
    fields.iter().map(|field| ((*field).to_owned(), stats[field].clone())).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn uncalled_tool_has_zeros() {
    let app = App::on_sqlite().await;
    let expected = json!({
        "tool_name": "echo", "execution_count": 0, "success_count": 0, "failure_count": 0, "failures_by_code": {},
        "total_duration_ms": 0, "average_duration_ms": 0, "min_duration_ms": 0, "max_duration_ms": 0,
        "p50_duration_ms": 0, "p95_duration_ms": 0, "p99_duration_ms": 0, "retry_count": 0, "cache_hit_count": 0,
        "rejected_count": 0, "rejected_by_code": {}, "last_called_at": null,
    });
    let stats = app.stats("echo").await;
    for (field, value) in expected.as_object().unwrap() {
        let same = stats[field] == *value || (value.is_number() && stats[field].as_f64() == value.as_f64());
        assert!(same, "{field} in {stats:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_of_an_unknown_tool_are_a_404() {
    App::on_sqlite().await.get("/tools/nobody/stats").await.problem(404);
}

on_both_databases!(
    async fn runs_are_counted_by_how_they_ended(backend: Backend) {
        let app = App::start(backend).await;
        for expression in ["1+1", "2+2", "2 +* (", "1+2"] {
            app.call("calculate", json!({"expression": expression})).await;
        }
        let stats = app.stats("calculate").await;
        let fields = ["execution_count", "success_count", "failure_count", "failures_by_code", "rejected_count"];
        let expected = json!({"execution_count": 4, "success_count": 3, "failure_count": 1,
            "failures_by_code": {"TOOL_EXECUTION_ERROR": 1}, "rejected_count": 0});
        assert_eq!(shown(&stats, &fields), expected);
        assert!(is_time(&stats["last_called_at"]), "{stats:#}");
    }
);

on_both_databases!(
    async fn timeout_is_counted_under_its_code(backend: Backend) {
        let app = App::start(backend).await;
        let body = json!({"name": "wait", "arguments": {"ms": 60_000}, "limits": {"timeout_ms": 20}});
        app.call_with(body).await;
        let stats = app.stats("wait").await;
        assert_eq!(stats["failures_by_code"], json!({"TOOL_TIMEOUT": 1}));
    }
);

on_both_databases!(
    async fn calls_that_never_ran_are_counted_as_rejected(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_with("t", json!({"type": "object", "required": ["a"]})).await;
        for arguments in [json!({}), json!({}), json!("{\"a\":"), json!({"a": 1})] {
            app.call("t", arguments).await;
        }
        let stats = app.stats("t").await;
        let fields = ["execution_count", "success_count", "failure_count", "rejected_count", "rejected_by_code"];
        let expected = json!({"execution_count": 1, "success_count": 1, "failure_count": 0, "rejected_count": 3,
            "rejected_by_code": {"TOOL_VALIDATION_ERROR": 2, "ARGUMENTS_MALFORMED": 1}});
        assert_eq!(shown(&stats, &fields), expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn durations_add_up() {
    let app = App::on_sqlite().await;
    for ms in [5, 20, 40] {
        app.call("wait", json!({"ms": ms})).await;
    }
    let stats = app.stats("wait").await;
    let of = |field: &str| stats[field].as_f64().unwrap();
    assert!(0.0 < of("min_duration_ms") && of("min_duration_ms") < of("max_duration_ms"), "{stats:#}");
    assert!(of("total_duration_ms") >= of("min_duration_ms") + of("max_duration_ms"), "{stats:#}");
    assert!((of("average_duration_ms") - of("total_duration_ms") / 3.0).abs() <= 1.0, "{stats:#}");
    let percentiles = ["p50_duration_ms", "p95_duration_ms", "p99_duration_ms"].map(of);
    assert!(percentiles.is_sorted() && percentiles[0] > 0.0, "{stats:#}");
}

on_both_databases!(
    async fn unknown_names_share_one_bucket(backend: Backend) {
        let app = App::start(backend).await;
        for name in ["nobody", "no one", "\u{0}😀"] {
            app.call(name, json!({})).await;
        }
        let all = app.get("/stats").await.ok();
        assert_eq!(all["unknown_tools"]["rejected_count"], 3);
        let tools = all["tools"].as_array().unwrap();
        assert!(tools.iter().all(|stats| stats["rejected_count"] == 0), "{all:#}");
    }
);

on_both_databases!(
    async fn all_stats_include_those_of_each_tool(backend: Backend) {
        let app = App::start(backend).await;
        app.call("echo", json!({})).await;
        app.call("calculate", json!({"expression": "1"})).await;
        let all = app.get("/stats").await.ok();
        for name in ["echo", "calculate"] {
            let listed = all["tools"].as_array().unwrap().iter().find(|stats| stats["tool_name"] == name).unwrap();
            let own = app.stats(name).await;
            for field in ["execution_count", "success_count", "total_duration_ms", "last_called_at"] {
                assert_eq!(listed[field], own[field], "{field}");
            }
        }
    }
);

on_both_databases!(
    async fn stats_of_one_tool_can_be_reset(backend: Backend) {
        let app = App::start(backend).await;
        app.call("echo", json!({})).await;
        app.call("calculate", json!({"expression": "1"})).await;
        let gone = app.delete("/tools/echo/stats").await;
        assert!((200..300).contains(&gone.status), "{}", gone.text());
        let stats = app.stats("echo").await;
        assert_eq!((&stats["execution_count"], &stats["last_called_at"]), (&json!(0), &Value::Null));
        assert_eq!(app.stats("calculate").await["execution_count"], 1);
        app.call("echo", json!({})).await;
        assert_eq!(app.stats("echo").await["execution_count"], 1);
    }
);

on_both_databases!(
    async fn all_stats_can_be_reset(backend: Backend) {
        let app = App::start(backend).await;
        app.call("echo", json!({})).await;
        app.call("echo", json!([])).await;
        app.call("nobody", json!({})).await;
        let gone = app.delete("/stats").await;
        assert!((200..300).contains(&gone.status), "{}", gone.text());
        let stats = app.stats("echo").await;
        assert_eq!((&stats["execution_count"], &stats["rejected_by_code"]), (&json!(0), &json!({})));
        assert_eq!(app.get("/stats").await.ok()["unknown_tools"]["rejected_count"], 0);
        assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"].as_array().unwrap().len(), 3);
    }
);
