//! The client of rmcp, in both of its lifecycles.

use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, ClientConfig, ClientRequest, ProgressNotificationParam, ProtocolVersion, Request,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::ended;
use crate::support::{App, bounded};

/// A client that records progress notifications.
#[derive(Clone, Default)]
struct Notes {
    steps: Arc<Mutex<Vec<f64>>>,
    any: Arc<Notify>,
}

impl ClientHandler for Notes {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }

    async fn on_progress(&self, step: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.steps.lock().unwrap().push(step.progress);
        self.any.notify_one();
    }
}

fn call(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

async fn connected(app: &App, mode: ClientLifecycleMode) -> (RunningService<RoleClient, Notes>, Notes) {
    let notes = Notes::default();
    let transport = StreamableHttpClientTransport::from_uri(app.url("/mcp"));
    let client = bounded("a client", notes.clone().serve_with_lifecycle(transport, mode)).await.unwrap();
    (client, notes)
}

async fn is_content(mode: ClientLifecycleMode) {
    let app = App::on_sqlite().await;
    let (client, notes) = connected(&app, mode).await;
    let tools = bounded("the tools", client.list_all_tools()).await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "calculate"));

    let good = bounded("a result", client.call_tool(call("calculate", json!({"expression": "6 * 7"})))).await.unwrap();
    assert_eq!(good.structured_content, Some(json!({"result": 42})));
    let bad = bounded("a result", client.call_tool(call("calculate", json!({})))).await.unwrap();
    assert_eq!(bad.is_error, Some(true));

    let long = ClientRequest::CallToolRequest(Request::new(call("wait", json!({"ms": 60_000, "steps": 100}))));
    let handle = client.send_cancellable_request(long, PeerRequestOptions::no_options()).await.unwrap();
    bounded("progress", notes.any.notified()).await;
    handle.cancel(Some("no more".into())).await.unwrap();
    assert_eq!(ended(&app, "wait").await["error"]["code"], "CANCELLED");
    assert!(!notes.steps.lock().unwrap().is_empty());
    client.cancel().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_sdk_works() {
    is_content(ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_sdk_works_before_2026() {
    is_content(ClientLifecycleMode::Initialize).await;
}
