//! A service that waits for its upstream servers while it starts.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolpost::config::Config;
use toolpost::domain::Tenant;
use toolpost::store::Stores;

use super::{Fixture, options, quick};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options, bounded};

/// A request to the server, and its response.
#[derive(Clone, Default)]
struct Gate {
    requested: CancellationToken,
    open: CancellationToken,
}

/// Starts a server that refuses requests once the current gate is open. Returns its address.
async fn gated(gate: Arc<Mutex<Gate>>) -> String {
    let answer = async move || {
        let gate = gate.lock().unwrap().clone();
        gate.requested.cancel();
        gate.open.cancelled().await;
        StatusCode::FORBIDDEN
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(answer))).await.unwrap() });
    format!("http://{address}/mcp")
}

/// Lets the service learn of changes by its start alone.
fn without_polls(config: &mut Config) {
    quick(config);
    config.node.poll_ms = 3_600_000;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_deleted_during_a_start_does_not_run() {
    let (fixture, gate) = (Fixture::new(&json!([])), Arc::new(Mutex::new(Gate::default())));
    gate.lock().unwrap().open.cancel();
    let file = fixture.file_of(&json!({"s": {"type": "http", "url": gated(gate.clone()).await}}));
    let options = Options { configure: Some(without_polls), ..options(file) };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.echo_of("gone", json!({})).await;
    succeeded(&app.call("gone", json!({})).await);
    let closed = Gate::default();
    *gate.lock().unwrap() = closed.clone();
    let database = app.database_url();
    let delete = async {
        bounded("the start", closed.requested.cancelled()).await;
        let stores = Stores::open(&database).await.unwrap();
        stores.for_tenant(&Tenant::default()).delete_tool("gone", None).await.unwrap().unwrap();
        stores.close().await;
        closed.open.cancel();
    };
    let (app, ()) = tokio::join!(app.restart(), delete);
    failed(&app.call("gone", json!({})).await, "TOOL_NOT_FOUND");
}
