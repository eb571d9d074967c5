//! Import of OpenAPI documents: the resulting tools, and the requests of their calls.

mod api;
mod cli;
mod golden;
mod hostile;
mod petshop;
mod registered;
mod schemas;
mod styles;

use serde_json::{Value, json};
use toolpost::import::document::{self, Bounds};

use crate::support::fixture::project_file;
use crate::support::{Answer, App, Backend, Client, HttpTool};

/// Reads a document of the fixtures as text.
fn text(name: &str) -> String {
    std::fs::read_to_string(project_file("tests/fixtures/import").join(name)).unwrap()
}

/// Parses a document of the fixtures.
fn value(name: &str) -> Value {
    document::parse(text(name).as_bytes(), Bounds::SENT).unwrap()
}

/// Returns a document of version 3.1 with these paths.
fn of_paths(paths: Value) -> Value {
    json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths})
}

/// Imports and returns the report. Panics if the request is rejected.
async fn import(client: &Client, body: Value) -> Value {
    client.post("/imports/openapi", &body).await.ok()
}

/// Starts a service and a server that it may reach, which answers every request with `{}`.
async fn app_and_server() -> (App, HttpTool) {
    let server = HttpTool::answering(Answer::json(&json!({}))).await;
    (App::with_egress(Backend::Sqlite).await, server)
}

/// Returns the names in a list of the report.
fn names(report: &Value, list: &str) -> Vec<String> {
    report[list].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}
