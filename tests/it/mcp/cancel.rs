//! Clients that cancel a call or disconnect: the call ends and is stored.

use serde_json::{Value, json};

use super::sessions::session;
use super::{ended, modern, posted};
use crate::support::client::send;
use crate::support::{App, Backend, bounded, eventually};

/// Waits until a call of `wait` runs.
async fn runs(app: &App) {
    eventually("a running call", || async {
        let calls = app.get("/tool-calls?name=wait&status=DOING").await.ok();
        calls["tool_calls"].get(0).is_some().then_some(())
    })
    .await;
}

fn long() -> Value {
    json!({"name": "wait", "arguments": {"ms": 60_000, "steps": 100}})
}

on_both_databases!(
    async fn disconnect_cancels_the_call(backend: Backend) {
        let app = App::start(backend).await;
        let request = modern(&app, "tools/call", long(), json!({}));
        let client = tokio::spawn(send(request));
        runs(&app).await;
        client.abort();
        assert_eq!(ended(&app, "wait").await["error"]["code"], "CANCELLED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_during_progress_cancels_the_call() {
    let app = App::on_sqlite().await;
    let request = modern(&app, "tools/call", long(), json!({"progressToken": 1}));
    let mut answer = bounded("an answer", request.send()).await.unwrap();
    let first = bounded("progress", answer.chunk()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("notifications/progress"));
    drop(answer);
    assert_eq!(ended(&app, "wait").await["error"]["code"], "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn session_cancels_a_call_by_its_id() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let call = json!({"jsonrpc": "2.0", "id": "c-1", "method": "tools/call", "params": long()});
    let request = posted(&app, &call).header("mcp-session-id", &id);
    let client = tokio::spawn(request.send());
    runs(&app).await;
    let params = json!({"requestId": "c-1", "reason": "no more"});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(send(posted(&app, &cancel).header("mcp-session-id", &id)).await.status, 202);
    assert_eq!(ended(&app, "wait").await["error"]["code"], "CANCELLED");
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_session_ends_its_calls() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": long()});
    let client = tokio::spawn(posted(&app, &call).header("mcp-session-id", &id).send());
    runs(&app).await;
    let deleted = app.request(reqwest::Method::DELETE, "/mcp").header("mcp-session-id", &id);
    assert_eq!(send(deleted).await.status, 200);
    assert_eq!(ended(&app, "wait").await["error"]["code"], "CANCELLED");
    drop(client);
}
