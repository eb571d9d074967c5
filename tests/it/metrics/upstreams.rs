//! Upstream MCP servers: their states and the outcomes of their calls.

use serde_json::json;

use crate::support::calls::with;
use crate::upstreams::Fixture;

fn calls(outcome: &str) -> String {
    format!(r#"toolpost_upstream_calls_total{{upstream="s",outcome="{outcome}"}}"#)
}

fn state(state: &str) -> String {
    format!(r#"toolpost_upstream_state{{upstream="s",state="{state}"}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_calls_are_counted_by_outcome() {
    let fixture = Fixture::named(&["echo", "fail", "refuse", "wait", "crash"]);
    let app = fixture.served(json!({})).await;
    let tools = |state: &str| format!(r#"toolpost_upstream_tools{{upstream="s",state="{state}"}}"#);
    let restarts = r#"toolpost_upstream_restarts_total{upstream="s"}"#;
    let errors = r#"toolpost_upstream_errors_total{upstream="s"}"#;
    app.counted(&[
        (&state("ready"), 1.0),
        (&state("starting"), 0.0),
        (&tools("available"), 5.0),
        (&tools("quarantined"), 0.0),
        (&calls("ok"), 0.0),
        (restarts, 0.0),
        (errors, 0.0),
    ])
    .await;
    for tool in ["echo", "echo", "fail", "refuse"] {
        app.call(&format!("s.{tool}"), json!({})).await;
    }
    let short = with(json!({"name": "s.wait", "arguments": {}}), json!({"limits": {"timeout_ms": 50}}));
    app.call_with(short).await;
    app.call("s.crash", json!({})).await;
    app.counted(&[
        (&calls("ok"), 2.0),
        (&calls("error"), 1.0),
        (&calls("failed"), 2.0),
        (&calls("given_up"), 1.0),
        (&calls("unavailable"), 0.0),
        (&state("ready"), 1.0),
        (restarts, 1.0),
        (errors, 1.0),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_server_is_failed_and_has_no_tools() {
    let fixture = Fixture::named(&["crash", "echo"]);
    let app = fixture.served(json!({})).await;
    std::fs::write(fixture.path("broken"), "").unwrap();
    app.call("s.crash", json!({})).await;
    app.counted(&[
        (&state("failed"), 1.0),
        (&state("ready"), 0.0),
        (r#"toolpost_upstream_tools{upstream="s",state="available"}"#, 0.0),
    ])
    .await;
}
