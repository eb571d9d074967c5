//! Results of any size: the output for the model and the full output (docs/reference/contract.md, sections 2 to 4).

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::{Answer, App, HttpTool};

mod images;
mod modes;
mod ranges;
mod read_result;
mod stored;

pub use images::png;

/// Returns `count` numbered lines.
fn lines(count: usize) -> String {
    (1..=count).map(|number| format!("line {number}\n")).collect()
}

/// Registers the tool `name` that answers with this text.
async fn saying(app: &App, name: &str, text: &str, limits: Value) -> HttpTool {
    answering(app, name, Answer::text(text), limits).await
}

/// Registers the tool `name` that gives this answer.
async fn answering(app: &App, name: &str, answer: Answer, limits: Value) -> HttpTool {
    let server = HttpTool::answering(answer).await;
    let definition = json!({
        "name": name, "description": "Says much.", "input_schema": {"type": "object"},
        "executor": {"type": "http", "url": server.url("/run")},
    });
    app.register(with(definition, json!({"limits": limits}))).await;
    server
}

async fn whole(app: &App, call: &Value) -> String {
    let answer = app.get(&format!("/tool-calls/{}/output", call["id"].as_str().unwrap())).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}
