//! Toolpost's own options next to a model's message.

use serde_json::{Value, json};

use super::{VENDORS, message};
use crate::support::App;
use crate::support::calls::with;
use crate::support::shapes::{failed, points_at};

#[tokio::test(flavor = "multi_thread")]
async fn options_next_to_a_message_apply() {
    let app = App::on_sqlite().await;
    for vendor in VENDORS {
        let body = with(message(vendor, &["echo"]), json!({"session": "s1", "limits": {"timeout_ms": 1234}}));
        let call = &app.batch(body).await[0];
        assert_eq!((&call["session"], &call["limits"]["timeout_ms"]), (&json!("s1"), &json!(1234)), "{vendor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_next_to_a_message_are_checked() {
    let app = App::on_sqlite().await;
    for vendor in VENDORS {
        for (option, value) in [
            ("session", json!(1)),
            ("session", json!("")),
            ("mode", json!("fast")),
            ("limits", json!({"timout_ms": 1})),
            ("wait", json!("never")),
            ("callback_url", json!("no url")),
            ("dedupe", json!("name")),
            ("format", json!("mistral")),
            ("format", json!(["openai"])),
        ] {
            let body = with(message(vendor, &["echo"]), json!({ option: value }));
            points_at(&app.post("/tool-calls", &body).await.problem(422), &format!("/{option}"));
        }
    }
    assert_eq!(app.all_calls().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_vendor_members_are_ignored() {
    let app = App::on_sqlite().await;
    let others = json!({"metadata": {"a": 1}, "status": "completed", "truncation": "auto", "usage": null, "session": null,
        "priority": null, "stop_reason": null, "id": "x", "anything": [1]});
    for vendor in VENDORS {
        assert_eq!(app.batch(with(message(vendor, &["echo"]), others.clone())).await.len(), 1, "{vendor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_reason_next_to_a_message_marks_truncation() {
    let app = App::on_sqlite().await;
    for (vendor, reason) in VENDORS.iter().zip(["length", "max_output_tokens", "max_tokens", "MAX_TOKENS"]) {
        let body = with(message(vendor, &["echo", "echo"]), json!({"stop_reason": reason}));
        for call in app.batch(body).await {
            failed(&call, "ARGUMENTS_TRUNCATED");
        }
    }
    assert_eq!(app.stats("echo").await["execution_count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dedupe_needs_ids_and_each_once() {
    let app = App::on_sqlite().await;
    let dedupe = json!({"dedupe": "call_id"});
    let nameless = with(json!({"functionCall": {"name": "echo", "args": {}}}), dedupe.clone());
    points_at(&app.post("/tool-calls", &nameless).await.problem(422), "/functionCall/id");
    let block = json!({"type": "tool_use", "id": "a", "name": "echo", "input": {}});
    let twice = with(json!({"role": "assistant", "content": [block, block]}), dedupe);
    points_at(&app.post("/tool-calls", &twice).await.problem(422), "/content/1/id");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_used_with_another_message_is_rejected() {
    let app = App::on_sqlite().await;
    let headers = [("idempotency-key", "k")];
    let first = app.post_with("/tool-calls", &headers, &message("anthropic", &["echo"])).await.ok();
    assert_eq!(first["results"].as_array().unwrap().len(), 1);
    let other = app.post_with("/tool-calls", &headers, &message("anthropic", &["echo", "echo"])).await.problem(422);
    assert_eq!(other["code"], "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test(flavor = "multi_thread")]
async fn numeric_stop_reason_is_ignored() {
    let app = App::on_sqlite().await;
    let call = json!({"id": "c", "type": "function", "function": {"name": "echo", "arguments": "{}"}});
    let choice = json!({"tool_calls": [call], "stop_reason": 128008});
    let answer = app.post("/tool-calls", &choice).await.ok();
    assert_eq!(answer["results"][0]["status"], "SUCCESS");
}
