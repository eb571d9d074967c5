//! Contents of the response to a message, in every response mode.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{VENDORS, message, result_ids, results};
use crate::support::calls::{gated, with};
use crate::support::shapes::{HARD_TEXT, failed, succeeded};
use crate::support::sse::{EventStream, count};
use crate::support::{Answer, App, Backend, HttpTool};

/// A pixel, base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Starts a service with a tool named `talk` that returns text, images and details.
async fn with_talk(backend: Backend) -> (App, HttpTool) {
    let app = App::with_egress(backend).await;
    let image = json!({"type": "image", "data": PIXEL, "mime_type": "image/png"});
    let content = json!([{"type": "text", "text": HARD_TEXT}, image]);
    let answer =
        json!({"content": content, "details": {"planted": "secret-detail"}, "metadata": {"m": "secret-detail"}});
    let server = HttpTool::answering(Answer::json(&answer)).await;
    app.http_tool("talk", &server).await;
    (app, server)
}

fn is_ended_for(vendor: &str, messages: &Value, count: usize) {
    let ids: Vec<String> = (0..count).map(|n| format!("call_{n}")).collect();
    assert_eq!(result_ids(vendor, messages), ids);
}

async fn batch_of(mut stream: EventStream) -> Value {
    let events = stream.rest().await;
    assert_eq!(count(&events, "batch"), 1);
    events.last().unwrap().data.clone()
}

on_both_databases!(
    async fn json_the_batch_event_and_replays_carry_the_same_messages(backend: Backend) {
        let (app, server) = with_talk(backend).await;
        for vendor in VENDORS {
            let body = message(vendor, &["talk", "nobody", "echo"]);
            let messages = app.post("/tool-calls", &body).await.ok()["messages"].clone();
            is_ended_for(vendor, &messages, 3);
            assert_eq!(batch_of(app.call_streamed(&body).await).await["messages"], messages, "{vendor}");
            let before = server.requests().len();
            for _ in 0..2 {
                let keyed = app.post_with("/tool-calls", &[("idempotency-key", vendor)], &body).await.ok();
                assert_eq!(keyed["messages"], messages, "{vendor}");
            }
            assert_eq!(server.requests().len(), before + 1, "{vendor}");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn replay_as_events_ends_with_the_messages() {
    let (app, server) = with_talk(Backend::Sqlite).await;
    for vendor in VENDORS {
        let body = with(message(vendor, &["talk", "echo"]), json!({"session": vendor, "dedupe": "call_id"}));
        let first = app.post("/tool-calls", &body).await.ok();
        is_ended_for(vendor, &first["messages"], 2);
        assert_eq!(batch_of(app.call_streamed(&body).await).await["messages"], first["messages"], "{vendor}");
    }
    assert_eq!(server.requests().len(), VENDORS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn details_and_metadata_are_in_no_message() {
    let (app, _server) = with_talk(Backend::Sqlite).await;
    for vendor in VENDORS {
        let answer = app.post("/tool-calls", &message(vendor, &["talk"])).await.ok();
        assert_eq!(answer["results"][0]["details"]["planted"], "secret-detail");
        assert!(!answer["messages"].to_string().contains("secret-detail"), "{vendor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_included_where_the_vendor_accepts_them() {
    let (app, _server) = with_talk(Backend::Sqlite).await;
    for vendor in VENDORS {
        let body = message(vendor, &["talk"]);
        for messages in [
            app.post("/tool-calls", &body).await.ok()["messages"].clone(),
            batch_of(app.call_streamed(&body).await).await["messages"].clone(),
        ] {
            let text = messages.to_string();
            assert_eq!(text.contains(PIXEL), vendor != "openai", "{vendor}: {text}");
            assert_eq!(text.contains("was omitted"), vendor == "openai", "{vendor}: {text}");
            let hard = serde_json::to_string(HARD_TEXT).unwrap();
            assert!(text.contains(hard.trim_matches('"')), "{vendor}: {text}");
        }
    }
}

on_both_databases!(
    async fn unfinished_call_has_a_message(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("late").await);
        app.tool("job", &server, json!({"async": true})).await;
        for vendor in VENDORS {
            let answer = app.post("/tool-calls", &message(vendor, &["echo", "job"])).await;
            assert_eq!(answer.status, 202, "{}", answer.text());
            let batch = answer.json["batch_id"].as_str().unwrap();
            assert_eq!(answer.header("location"), format!("/tool-calls?batch_id={batch}"));
            is_ended_for(vendor, &answer.json["messages"], 2);
            let going = results(vendor, &answer.json["messages"])[1].1.to_string();
            let id = answer.json["results"][1]["id"].as_str().unwrap();
            assert!(going.contains(id) && going.contains("background"), "{vendor}: {going}");
        }
        server.open();
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn streamed_message_without_a_call_is_one_batch_event() {
    let app = App::on_sqlite().await;
    for vendor in VENDORS {
        let nothing = json!({"batch_id": null, "results": [], "messages": []});
        let body = with(message(vendor, &[]), json!({"session": "s", "wait": "accepted"}));
        assert_eq!(app.post("/tool-calls", &body).await.ok(), nothing, "{vendor}");
        let events = app.call_streamed(&body).await.rest().await;
        let kinds: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
        assert_eq!((kinds, &events[0].data), (vec!["batch"], &nothing), "{vendor}");
    }
    assert_eq!(app.all_calls().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_ids_are_generated_and_each_result_has_one() {
    let app = App::on_sqlite().await;
    let call = |id: Value| json!({"id": id, "type": "function", "function": {"name": "echo", "arguments": ""}});
    let body = json!({"role": "assistant", "tool_calls": [call(json!("")), call(Value::Null), call(json!("x"))]});
    let answer = app.post("/tool-calls", &body).await.ok();
    let ids = result_ids("openai", &answer["messages"]);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3);
    assert_eq!((&json!(ids[0]), &json!(ids[1])), (&answer["results"][0]["id"], &answer["results"][1]["id"]));
    assert_eq!(ids[2], "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_ids_of_any_length_are_accepted() {
    let app = App::on_sqlite().await;
    let (name, id) = ("n".repeat(5000), format!("toolu \u{0}/😀{}", "i".repeat(5000)));
    let body = json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {}}]});
    let answer = app.post("/tool-calls", &body).await.ok();
    failed(&answer["results"][0], "TOOL_NOT_FOUND");
    assert_eq!(answer["results"][0]["call_id"], id);
    assert_eq!(result_ids("anthropic", &answer["messages"]), [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_reported_to_the_model_and_affect_no_other_call() {
    let app = App::on_sqlite().await;
    let call = |id: &str, name: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
    let body = json!([call("a", "echo", "{\"n\": 1"), call("b", "wait", "{\"ms\":\"soon\"}"), call("c", "echo", "{}")]);
    let answer = app.post("/tool-calls", &body).await.ok();
    let results = answer["results"].as_array().unwrap();
    let texts = [
        failed(&results[0], "ARGUMENTS_MALFORMED"),
        failed(&results[1], "TOOL_VALIDATION_ERROR"),
        succeeded(&results[2]),
    ];
    for (message, text) in answer["messages"].as_array().unwrap().iter().zip(texts) {
        assert_eq!(message["output"], text);
    }
}
