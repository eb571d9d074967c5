//! The lifecycle of a call while the model still generates.

use serde_json::json;

use super::{Pipe, batch, block, call, delta, end, message_start, next, stop};
use crate::support::{App, Backend};

on_both_databases!(
    async fn call_starts_when_its_block_closes_during_the_stream(backend: Backend) {
        let app = App::start(backend).await;
        let (pipe, mut events) = Pipe::open(&app, "format=anthropic&session=s").await;
        pipe.say(&[message_start(), block(0, "toolu_1", "echo")]);
        let card = next(&mut events, |event| event.event == "tool_call").await;
        assert_eq!((&card.data["name"], &card.data["session"]), (&json!("echo"), &json!("s")));
        pipe.say(&[delta(0, "{\"city\":\"Ber")]);
        let shown = next(&mut events, |event| event.data["params"]["city"] == "Ber").await;
        assert_eq!((&shown.data["status"], &shown.data["phase"]), (&json!("WAIT"), &json!("arguments")));
        pipe.say(&[delta(0, "lin\"}")]);
        next(&mut events, |event| event.data["params"]["city"] == "Berlin").await;
        // Arguments that are valid JSON are complete only when their block is closed.
        assert_eq!(app.stats("echo").await["execution_count"], 0);
        pipe.say(&[stop(0)]);
        let result = next(&mut events, |event| event.is_result()).await;
        assert_eq!(result.data["output"], "{\"city\":\"Berlin\"}");
        pipe.say(&call(1, "toolu_2", "echo", &json!({"n": 2})));
        next(&mut events, |event| event.is_result() && event.data["call_id"] == "toolu_2").await;
        pipe.say(&end("tool_use"));
        drop(pipe);
        let rest = events.rest().await;
        assert_eq!(batch(&rest)["results"].as_array().unwrap().len(), 2);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_does_not_stop_complete_calls() {
    let app = App::on_sqlite().await;
    let (pipe, mut events) = Pipe::open(&app, "format=anthropic").await;
    pipe.say(&[message_start()]);
    pipe.say(&call(0, "toolu_1", "wait", &json!({"ms": 300})));
    pipe.say(&[block(1, "toolu_2", "echo"), delta(1, "{")]);
    let is_card = |event: &crate::support::sse::Event| event.event == "tool_call";
    let complete = next(&mut events, is_card).await.data["id"].as_str().unwrap().to_owned();
    let open = next(&mut events, is_card).await.data["id"].as_str().unwrap().to_owned();
    drop((pipe, events));
    assert_eq!(app.ended(&complete).await["status"], "SUCCESS");
    assert_eq!(app.ended(&open).await["error"]["code"], "ARGUMENTS_TRUNCATED");
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_cancels_calls_on_request() {
    let app = App::on_sqlite().await;
    let (pipe, mut events) = Pipe::open(&app, "format=anthropic&on_disconnect=cancel").await;
    pipe.say(&[message_start()]);
    pipe.say(&call(0, "toolu_1", "wait", &json!({"ms": 60000})));
    let id = next(&mut events, |event| event.is_status("DOING")).await.data["id"].as_str().unwrap().to_owned();
    drop((pipe, events));
    assert_eq!(app.ended(&id).await["error"]["code"], "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_options_of_a_stream_are_rejected() {
    let app = App::on_sqlite().await;
    for query in ["format=cohere", "mode=fast", "sesion=s", "timeout_ms=0", "session=", "callback_url=x"] {
        let answer = app.post(&format!("/tool-calls/stream?{query}"), &json!({})).await;
        assert_eq!(answer.status, 422, "{query}: {}", answer.json);
    }
    let keyed = app.request(reqwest::Method::POST, "/tool-calls/stream?format=gemini").header("idempotency-key", "k");
    assert_eq!(crate::support::client::send(keyed).await.problem(422)["code"], "INVALID_REQUEST");
}
