//! A long session, rendered for each vendor and as text.

use serde_json::{Value, json};
use toolpost::domain::{ContentBlock, Time};
use toolpost::tool::{NoArgs, tool_fn};

use super::{abort, external, made};
use crate::support::fixture::{same_as_file, same_json};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Options};

const HOW: &str = "UPDATE_FIXTURES=1 cargo test --test it sessions::told";
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Builds a session with concurrent calls, a failure, an abort, an image, a duplicate id, a name that vendors reject,
/// and a running call.
async fn long_session() -> App {
    let chart = tool_fn("chart", "Draws a chart.", |_: NoArgs| {
        let image = ContentBlock::Image { data: PIXEL.to_owned(), mime_type: "image/png".to_owned() };
        Ok(vec![ContentBlock::Text("the chart".to_owned()), image])
    });
    let frozen_at = Some(Time(1_767_225_600_000_000));
    let app = App::start_with(Backend::Sqlite, Options { extra: vec![chart], frozen_at, ..Options::default() }).await;
    external(&app, "ask").await;
    app.echo_of("files.read", json!({"path": {"type": "string"}})).await;
    made(&app, json!({"id": "s", "tools": ["ask", "chart", "echo", "files.read", "attempt_completion", "new_task"]}))
        .await;
    let batch = json!([
        {"id": "call_0", "name": "echo", "arguments": {"city": "北京"}},
        {"id": "call_1", "name": "calculate_it", "arguments": "{\"a\":"},
        {"id": "call_2", "name": "echo", "arguments": "{\"b\": [1, 2]}"},
    ]);
    app.batch(json!({"session": "s", "calls": batch})).await;
    let image = app.call_with(json!({"session": "s", "id": "call_0", "name": "chart"})).await;
    assert_eq!(succeeded(&image), "the chart");
    app.call_with(json!({"session": "s", "id": "toolu/odd id", "name": "files.read", "arguments": {"path": "a"}}))
        .await;
    let external = app.accepted(json!({"session": "s", "id": "call_3", "name": "ask", "wait": "accepted"})).await;
    app.in_phase(&external, "external").await;
    abort(&app, "s").await;
    app.ended(&external).await;
    let body = json!({"session": "s", "id": "call_4", "name": "ask", "arguments": {"q": "why?"}, "wait": "accepted"});
    let going = app.accepted(body).await;
    app.in_phase(&going, "external").await;
    app
}

/// Numbers the ids of the service in order of appearance, so that they do not depend on earlier ids.
fn numbered(text: &str) -> String {
    const BEGINNING: &str = "00000000-0000-7000-8000-";
    let (mut seen, mut parts) = (Vec::new(), text.split(BEGINNING));
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (id, rest) = part.split_at(12);
        let index = seen.iter().position(|known| *known == id).unwrap_or(seen.len());
        if index == seen.len() {
            seen.push(id);
        }
        numbered.push_str(&format!("{BEGINNING}{index:012}{rest}"));
    }
    numbered
}

#[tokio::test(flavor = "multi_thread")]
async fn each_vendor_gets_the_full_conversation() {
    let app = long_session().await;
    for format in ["openai", "openai-responses", "anthropic", "gemini"] {
        let answer = app.get(&format!("/sessions/s/messages?format={format}")).await.ok();
        assert_eq!((&answer["format"], &answer["truncated"]), (&json!(format), &json!(false)));
        let messages = serde_json::from_str(&numbered(&answer["messages"].to_string())).unwrap();
        same_json(&format!("sessions/{format}"), &messages);
    }
    let newest = app.get("/sessions/s/messages?format=openai&limit=1").await.ok();
    assert_eq!((newest["messages"].as_array().unwrap().len(), &newest["truncated"]), (2, &json!(true)));
    app.get("/sessions/s/messages?format=vendor").await.problem(422);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_prompt_has_tools_rules_and_state() {
    let app = long_session().await;
    let answer = app.get("/sessions/s/prompt").await;
    assert_eq!(answer.header("content-type"), "text/markdown; charset=utf-8");
    same_as_file("tests/fixtures/sessions/prompt.md", &numbered(&answer.text()), HOW);
}

#[tokio::test(flavor = "multi_thread")]
async fn details_for_people_are_in_no_message() {
    let app = App::on_sqlite().await;
    external(&app, "ask").await;
    let id = app.accepted(json!({"session": "s", "name": "ask", "wait": "accepted"})).await;
    let result: Value = json!({"output": "seen", "details": {"hidden": "for people"}});
    app.post(&format!("/tool-calls/{id}/result"), &result).await.ok();
    app.ended(&id).await;
    for format in ["openai", "openai-responses", "anthropic", "gemini"] {
        let text = app.get(&format!("/sessions/s/messages?format={format}")).await.text();
        assert!(text.contains("seen") && !text.contains("for people"), "{text}");
    }
}
