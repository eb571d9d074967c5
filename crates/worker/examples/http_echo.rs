//! A plain `http` tool that returns its arguments, for comparison with the worker: `http_echo ADDRESS`.

use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

async fn echo(Json(mut call): Json<Value>) -> Json<Value> {
    Json(call["arguments"].take())
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8090".into());
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, Router::new().route("/", post(echo))).await
}
