//! Anthropic's Messages.

use serde_json::{Value, json};

use super::*;

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn tool(index: u64, name: &str) -> Value {
    start(index, json!({"type": "tool_use", "id": format!("toolu_{name}"), "name": name, "input": {}}))
}

fn delta(index: u64, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn ends(reason: &str) -> [Value; 2] {
    [json!({"type": "message_delta", "delta": {"stop_reason": reason}}), json!({"type": "message_stop"})]
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "stop_reason": null}})
}

#[test]
fn call_closes_with_its_block_before_the_stream_ends() {
    let (mut parser, mut out) = (Parser::new(Some(Vendor::Anthropic)), Vec::new());
    parser.push(sse(&[begin(), tool(0, "f"), delta(0, "{\"x\":1}")]).as_bytes(), &mut out).unwrap();
    assert!(
        !out.iter().any(|event| matches!(event, StreamEvent::Closed { .. })),
        "a prefix that parses closes nothing"
    );
    parser.push(sse(&[stop(0)]).as_bytes(), &mut out).unwrap();
    assert_eq!(out.last(), Some(&StreamEvent::Closed { call_index: 0, arguments: None }));
    assert!(!parser.has_ended());
}

#[test]
fn blocks_may_interleave() {
    let mut events = vec![begin(), start(0, json!({"type": "text", "text": ""})), tool(1, "f"), tool(2, "g")];
    events.extend([
        delta(2, "{\"y\":"),
        delta(1, "{\"x\":\"\\u00"),
        delta(2, "2}"),
        delta(1, "e9\"}"),
        stop(2),
        stop(0),
        stop(1),
    ]);
    events.extend(ends("tool_use"));
    let story = parse_events(&events);
    assert_eq!(story.short(), [("f", Some(&json!({"x": "é"}))), ("g", Some(&json!({"y": 2})))]);
    assert!(story.ended);
}

#[test]
fn block_without_deltas_has_the_input_of_its_start() {
    for (input, expected) in [(json!({}), json!({})), (json!({"x": 1}), json!({"x": 1}))] {
        let mut events = vec![begin(), start(0, json!({"type": "tool_use", "id": "a", "name": "f", "input": input}))];
        events.extend([delta(0, ""), stop(0)]);
        events.extend(ends("tool_use"));
        assert_eq!(parse_events(&events).short(), [("f", Some(&expected))]);
    }
    let mut events = vec![
        start(0, json!({"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}})),
        delta(0, "{\"x\":2}"),
        stop(0),
    ];
    events.extend(ends("tool_use"));
    assert_eq!(parse_events(&events).short(), [("f", Some(&json!({"x": 2})))]);
}

#[test]
fn next_event_shows_whether_a_block_was_truncated() {
    for text in ["", "{\"x\":"] {
        for (next, runs) in [
            (ends("max_tokens").to_vec(), false),
            (ends("model_context_window_exceeded").to_vec(), false),
            (ends("refusal").to_vec(), false),
            (vec![json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})], false),
            (vec![], false),
            (ends("tool_use").to_vec(), true),
            (ends("end_turn").to_vec(), true),
            ([&[tool(1, "g"), delta(1, "{}"), stop(1)], &ends("max_tokens")[..]].concat(), true),
        ] {
            let story = parse_events(
                &[&[begin(), tool(0, "f"), delta(0, text), stop(0), json!({"type": "ping"})], &next[..]].concat(),
            );
            assert_eq!(story.calls[0].closed.is_some(), runs, "{text:?} then {next:?}");
        }
    }
}

#[test]
fn block_that_never_stops_never_runs() {
    for reason in ["tool_use", "end_turn", "max_tokens"] {
        let story = parse_events(&[&[tool(0, "f"), delta(0, "{}")], &ends(reason)[..]].concat());
        assert_eq!(story.short(), [("f", None)]);
        assert!(story.ended);
    }
    let replaced = parse_events(
        &[&[tool(0, "f"), delta(0, "{}"), tool(0, "g"), delta(0, "{}"), stop(0)], &ends("tool_use")[..]].concat(),
    );
    assert_eq!(replaced.short(), [("f", None), ("g", Some(&json!({})))]);
}

#[test]
fn calls_of_the_provider_are_shown() {
    let mut events = vec![
        start(0, json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})),
        delta(0, "{\"query\":\"x\"}"),
        stop(0),
        start(1, json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []})),
        stop(1),
        start(
            2,
            json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s", "input": {"a": 1}}),
        ),
        stop(2),
    ];
    events.extend(ends("end_turn"));
    let story = parse_events(&events);
    assert_eq!(story.short(), [("web_search", Some(&json!({"query": "x"}))), ("echo", Some(&json!({"a": 1})))]);
    assert!(story.calls.iter().all(|call| call.kind == Kind::Provider));
}

#[test]
fn invalid_json_is_closed_unchanged() {
    let story = parse_events(&[&[tool(0, "f"), delta(0, "{\"x\": celsius}"), stop(0)], &ends("tool_use")[..]].concat());
    assert_eq!(story.short(), [("f", Some(&json!("{\"x\": celsius}")))]);
}

#[test]
fn restarted_message_discards_the_previous_one() {
    let mut events =
        vec![begin(), tool(1, "f"), delta(1, "{\"x\":1"), begin(), tool(1, "f"), delta(1, "{\"x\":2}"), stop(1)];
    events.extend(ends("tool_use"));
    assert_eq!(parse_events(&events).short(), [("f", None), ("f", Some(&json!({"x": 2})))]);
}

#[test]
fn messages_may_follow_one_another() {
    let one = |name: &str| [&[begin(), tool(0, name), stop(0)], &ends("tool_use")[..]].concat();
    assert_eq!(
        parse_events(&[one("f"), one("g")].concat()).short(),
        [("f", Some(&json!({}))), ("g", Some(&json!({})))]
    );
}

#[test]
fn content_without_streaming_is_parsed() {
    let content =
        json!([{"type": "text", "text": "x"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}]);
    for (reason, runs) in [("tool_use", true), ("max_tokens", false)] {
        let message = json!({"type": "message", "role": "assistant", "content": content, "stop_reason": reason});
        let streamed =
            parse_events(&[json!({"type": "message_start", "message": message}), json!({"type": "message_stop"})]);
        let whole = story(&message.to_string());
        for story in [streamed, whole] {
            assert_eq!((story.calls[0].closed.is_some(), story.ended), (runs, true));
        }
    }
}

#[test]
fn delta_without_text_is_an_error() {
    let lost = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}});
    let story = parse_events(
        &[&[tool(0, "f"), delta(0, "{\"x\":"), lost, delta(0, "1}"), stop(0)], &ends("tool_use")[..]].concat(),
    );
    assert_eq!(story.short(), [("f", None)]);
    assert_eq!(story.broken, Some(StreamError::Misshapen("`partial_json`")));
}
