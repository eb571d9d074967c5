//! Notifications to clients about changes of the tool list.

use serde_json::{Value, json};

use super::modern;
use super::sessions::session;
use crate::support::{App, Backend, bounded};

/// Returns the next notification of a stream with this method.
async fn next(answer: &mut reqwest::Response, method: &str) -> Value {
    let mut text = String::new();
    let found = async {
        loop {
            let chunk = answer.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&chunk));
            let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
            if let Some(found) = messages.find(|message| message["method"] == method) {
                return found;
            }
        }
    };
    bounded(method, found).await
}

on_both_databases!(
    async fn subscription_is_notified_of_changed_tools(backend: Backend) {
        let app = App::start(backend).await;
        let params = json!({"notifications": {"toolsListChanged": true}});
        let request = modern(&app, "subscriptions/listen", params, json!({}));
        let mut stream = bounded("a stream", request.send()).await.unwrap();
        next(&mut stream, "notifications/subscriptions/acknowledged").await;
        app.echo_of("newcomer", json!({})).await;
        let notification = next(&mut stream, "notifications/tools/list_changed").await;
        assert_eq!(notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn session_is_notified_of_changed_tools() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let request = app.request(reqwest::Method::GET, "/mcp").header("accept", "text/event-stream");
    let mut stream = bounded("a stream", request.header("mcp-session-id", &id).send()).await.unwrap();
    assert_eq!(stream.status(), 200);
    app.echo_of("newcomer", json!({})).await;
    next(&mut stream, "notifications/tools/list_changed").await;
}
