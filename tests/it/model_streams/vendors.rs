//! Each vendor's stream becomes calls, and the batch has the messages that continue the conversation.

use serde_json::{Value, json};

use super::{anthropic, batch, call, end, message_start, piped};
use crate::support::{App, Backend};

/// Returns a stream of this vendor with two calls of `echo`.
fn stream_of(format: &str) -> String {
    let lines = |events: Vec<Value>| events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>();
    match format {
        "anthropic" => {
            let mut events = vec![message_start()];
            events.extend(call(0, "toolu_1", "echo", &json!({"city": "北京"})));
            events.extend(call(1, "toolu_2", "nobody", &json!({})));
            events.extend(end("tool_use"));
            anthropic(&events)
        }
        "openai" => {
            let delta = |calls: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
            let opened = |index: u32, id: &str, name: &str| json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            let more = |index: u32, text: &str| json!({"index": index, "function": {"arguments": text}});
            let mut text = lines(vec![
                delta(json!([opened(0, "call_1", "echo")])),
                delta(json!([more(0, "{\"city\":")])),
                delta(json!([opened(1, "call_2", "nobody")])),
                delta(json!([more(1, "{}")])),
                delta(json!([more(0, "\"北京\"}")])),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            ]);
            text.push_str("data: [DONE]\n\n");
            text
        }
        "openai-responses" => {
            let item = |id: &str, name: &str, arguments: &str, status: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": status});
            let added = |index: u32, item: Value| json!({"type": "response.output_item.added", "output_index": index, "item": item});
            let done = |index: u32, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
            lines(vec![
                json!({"type": "response.created", "response": {"status": "in_progress"}}),
                added(0, item("call_1", "echo", "", "in_progress")),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_call_1", "delta": "{\"city\":"}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_call_1", "delta": "\"北京\"}"}),
                done(0, item("call_1", "echo", "{\"city\":\"北京\"}", "completed")),
                added(1, item("call_2", "nobody", "", "in_progress")),
                done(1, item("call_2", "nobody", "{}", "completed")),
                json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
            ])
        }
        _ => {
            let part = |name: &str, args: Value| json!({"functionCall": {"name": name, "args": args}});
            let chunk = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
            let mut last = chunk(part("nobody", json!({})));
            last["candidates"][0]["finishReason"] = json!("STOP");
            lines(vec![chunk(part("echo", json!({"city": "北京"}))), last])
        }
    }
}

async fn both_calls_are_made(backend: Backend, format: &str, ids: [&str; 2]) {
    let app = App::start(backend).await;
    for query in [format!("format={format}"), String::new()] {
        for size in [7, 100_000] {
            let events = piped(&app, &query, &stream_of(format), size).await;
            let batch = batch(&events);
            assert_eq!(batch.get("stream_error"), None, "{batch}");
            let results = batch["results"].as_array().unwrap();
            assert_eq!(results.len(), 2, "{batch}");
            assert_eq!(
                (&results[0]["status"], &results[0]["structured"]),
                (&json!("SUCCESS"), &json!({"city": "北京"}))
            );
            assert_eq!(results[1]["error"]["code"], "TOOL_NOT_FOUND");
            for (result, id) in results.iter().zip(ids) {
                let expected = if id.is_empty() { result["id"].clone() } else { json!(id) };
                assert_eq!(result["call_id"], expected);
                assert_eq!(result["batch_id"], batch["batch_id"]);
                let stored = app.stored(result["id"].as_str().unwrap()).await;
                assert_eq!(stored["status"], result["status"]);
            }
            let messages = batch["messages"].to_string();
            assert!(messages.contains("Tool not found: nobody"), "{messages}");
            assert!(ids.iter().all(|id| messages.contains(id)), "{messages}");
            let results = events.iter().filter(|event| event.event == "tool_result").count();
            assert_eq!(results, 2, "{events:#?}");
        }
    }
}

on_both_databases!(
    async fn anthropic_s_stream_is_run(backend: Backend) {
        both_calls_are_made(backend, "anthropic", ["toolu_1", "toolu_2"]).await;
    }
);

on_both_databases!(
    async fn openai_s_chat_stream_is_run(backend: Backend) {
        both_calls_are_made(backend, "openai", ["call_1", "call_2"]).await;
    }
);

on_both_databases!(
    async fn openai_s_responses_stream_is_run(backend: Backend) {
        both_calls_are_made(backend, "openai-responses", ["call_1", "call_2"]).await;
    }
);

on_both_databases!(
    async fn gemini_s_stream_is_run(backend: Backend) {
        both_calls_are_made(backend, "gemini", ["", ""]).await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn stream_without_calls_is_an_empty_batch() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start()];
    events.extend(end("end_turn"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 10).await;
    let batch = batch(&events);
    assert_eq!((&batch["results"], &batch["messages"]), (&json!([]), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_calls_are_shown_and_never_run() {
    let app = App::on_sqlite().await;
    let mut events = vec![message_start()];
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "echo", "input": {}});
    events.push(json!({"type": "content_block_start", "index": 0, "content_block": search}));
    events.push(super::delta(0, "{\"query\":\"x\"}"));
    events.push(super::stop(0));
    events.extend(end("end_turn"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 50).await;
    let card = events.iter().find(|event| event.event == "tool_call").expect("a card");
    assert_eq!((&card.data["call_id"], &card.data["executed_by"]), (&json!("srvtoolu_1"), &json!("provider")));
    assert!(events.iter().any(|event| event.data["params"] == json!({"query": "x"})), "{events:#?}");
    assert!(events.iter().all(|event| !event.id.is_empty()), "{events:#?}");
    let batch = batch(&events);
    assert_eq!((&batch["results"], &batch["messages"]), (&json!([]), &json!([])));
    assert_eq!(app.stats("echo").await["execution_count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn card_of_a_provider_resumes_after_earlier_events() {
    let app = App::on_sqlite().await;
    app.call("echo", json!({"of": "another request"})).await;
    let mut events = vec![message_start()];
    let search = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    for (index, id) in [(0, "srvtoolu_1"), (2, "srvtoolu_2")] {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": search(id)}));
        events.push(super::stop(index));
        if index == 0 {
            events.extend(super::call(1, "toolu_1", "echo", &json!({"a": 1})));
        }
    }
    events.extend(end("tool_use"));
    let events = piped(&app, "format=anthropic", &anthropic(&events), 50).await;
    let id = |event: &crate::support::sse::Event| event.id.parse::<i64>().unwrap_or_else(|_| panic!("{event:?}"));
    let ids: Vec<i64> = events.iter().map(id).collect();
    assert!(ids.is_sorted(), "{events:#?}");
    let first = events.iter().find(|event| event.data["call_id"] == "srvtoolu_1").unwrap();
    let mut all = app.events_after("/events", &first.id).await;
    // All events of this request, and none of the other.
    let received = all.until(|event| event.is_result()).await;
    assert!(received.iter().all(|event| event.data["call_id"] == "toolu_1"), "{received:#?}");
    assert_eq!(received[0].event, "tool_call");
}
