//! OpenAI's Responses.

use serde_json::{Value, json};

use super::*;

fn function(id: &str, arguments: Value, status: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"), "name": id, "arguments": arguments, "status": status})
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(index: u64, id: &str, text: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": format!("fc_{id}"), "delta": text})
}

fn arguments(index: u64, id: &str, text: &str) -> Value {
    json!({"type": "response.function_call_arguments.done", "output_index": index, "item_id": format!("fc_{id}"), "arguments": text})
}

fn ends(status: &str, output: Value) -> Value {
    json!({"type": format!("response.{status}"), "response": {"object": "response", "status": status, "error": null, "output": output}})
}

#[test]
fn call_closes_with_its_item_before_the_stream_ends() {
    let (mut parser, mut out) = (Parser::new(None), Vec::new());
    let events =
        [added(0, function("f", json!(""), "in_progress")), delta(0, "f", "{\"x\":1}"), arguments(0, "f", "{\"x\":1}")];
    parser.push(sse(&events).as_bytes(), &mut out).unwrap();
    assert!(!out.iter().any(|event| matches!(event, StreamEvent::Closed { .. })));
    parser.push(sse(&[done(0, function("f", json!("{\"x\":1}"), "completed"))]).as_bytes(), &mut out).unwrap();
    assert_eq!(out.last(), Some(&StreamEvent::Closed { call_index: 0, arguments: Some("{\"x\":1}".into()) }));
    assert_eq!((parser.vendor(), parser.has_ended()), (Some(Vendor::OpenAiResponses), false));
}

#[test]
fn interleaved_items_are_closed_with_the_items_arguments() {
    let story = parse_events(&[
        added(0, json!({"type": "reasoning", "id": "rs_1"})),
        added(1, function("f", json!(""), "in_progress")),
        added(2, function("g", json!(""), "in_progress")),
        delta(2, "g", "{\"y\":"),
        delta(1, "f", "{\"x\":"),
        delta(2, "g", "2}"),
        delta(1, "f", "0}"),
        done(2, function("g", json!("{\"y\":2}"), "completed")),
        done(1, function("f", json!("{\"x\":1}"), "completed")),
        ends(
            "completed",
            json!([{"type": "reasoning"}, function("f", json!("{\"x\":1}"), "completed"), function("g", json!("{\"y\":2}"), "completed")]),
        ),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1}))), ("g", Some(&json!({"y": 2})))]);
    assert_eq!(story.calls[0].id.as_deref(), Some("call_f"));
    assert!(story.ended);
}

#[test]
fn changing_ids_are_tolerated() {
    let renamed = |mut event: Value, id: &str| {
        match event.get_mut("item") {
            Some(item) => item["id"] = id.into(),
            None => event["item_id"] = id.into(),
        }
        event
    };
    let mut last = function("f", json!("{\"x\":1}"), "completed");
    last["id"] = "5".into();
    let story = parse_events(&[
        renamed(added(0, function("f", json!(""), "in_progress")), "1"),
        renamed(delta(0, "f", "{\"x\":"), "2"),
        renamed(delta(0, "f", "1}"), "3"),
        renamed(done(0, function("f", json!("{\"x\":1}"), "completed")), "4"),
        ends("completed", json!([last])),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1})))]);
}

#[test]
fn calls_with_the_same_index_are_distinguished() {
    let call = |id: &str, arguments: &str, status: &str| {
        let mut item = function(id, json!(arguments), status);
        item["name"] = "f".into();
        item
    };
    let both = [added(0, call("a", "", "in_progress")), added(0, call("b", "", "in_progress"))];
    let deltas = [delta(0, "a", "{\"x\":1}"), delta(0, "b", "{\"x\":2}")];
    let last = [done(0, call("a", "{\"x\":1}", "completed")), done(0, call("b", "{\"x\":2}", "completed"))];
    let ends = [ends("completed", json!([]))];
    for events in
        [&[&both[..], &deltas, &ends].concat(), &[&both[..], &last, &ends].concat(), &[&last[..], &ends].concat()]
    {
        assert_eq!(parse_events(events).short(), [("f", Some(&json!({"x": 1}))), ("f", Some(&json!({"x": 2})))]);
    }
}

#[test]
fn end_closes_and_adds_missing_items() {
    let story = parse_events(&[
        added(0, function("f", json!(""), "in_progress")),
        delta(0, "f", "{\"x\":1}"),
        added(1, function("g", json!(""), "in_progress")),
        arguments(1, "g", "{\"y\":2}"),
        ends(
            "completed",
            json!([function("f", json!("{\"x\":1}"), "completed"), {"type": "message"}, function("h", json!("{}"), "completed")]),
        ),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1}))), ("g", Some(&json!({"y": 2}))), ("h", Some(&json!({})))]);
}

#[test]
fn incomplete_calls_never_run() {
    let begun = [added(0, function("f", json!(""), "in_progress")), delta(0, "f", "{\"x\":1}")];
    for end in [
        vec![],
        vec![ends("incomplete", json!([]))],
        vec![ends("cancelled", json!([]))],
        vec![
            done(0, function("f", json!("{\"x\":1}"), "incomplete")),
            ends("incomplete", json!([function("f", json!("{\"x\":1}"), "incomplete")])),
        ],
        vec![ends("incomplete", json!([function("f", json!("{\"x\":1}"), "completed")]))],
        vec![
            json!({"type": "response.completed", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}),
        ],
        vec![json!({"type": "error", "message": "out of order", "code": null})],
    ] {
        let story = parse_events(&[&begun[..], &end].concat());
        assert_eq!(story.short(), [("f", None)], "{end:?}");
    }
    let revealed = parse_events(&[ends("incomplete", json!([function("f", json!("{}"), "completed")]))]);
    assert_eq!((revealed.short(), revealed.ended), (vec![("f", None)], true));
}

#[test]
fn item_with_partial_arguments_waits_for_the_next_event() {
    let begun = [
        added(0, function("f", json!(""), "in_progress")),
        delta(0, "f", "{\"x\":"),
        done(0, function("f", json!("{\"x\":"), "")),
    ];
    for (next, runs) in [
        (vec![ends("incomplete", json!([]))], false),
        (vec![], false),
        (vec![ends("completed", json!([]))], true),
        (vec![added(1, json!({"type": "message"})), ends("incomplete", json!([]))], true),
    ] {
        assert_eq!(parse_events(&[&begun[..], &next].concat()).calls[0].closed.is_some(), runs, "{next:?}");
    }
}

#[test]
fn custom_tool_has_its_text_as_input() {
    let custom = |input: &str| json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "sql", "input": input});
    let piece = |text: &str| json!({"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ctc_1", "delta": text});
    let begun = [added(0, custom("")), piece("select \""), piece("a\"\n")];
    for last in [done(0, custom("select \"a\"\n")), ends("completed", json!([]))] {
        let story = parse_events(&[&begun[..], &[last]].concat());
        assert_eq!(story.short(), [("sql", Some(&json!({"input": "select \"a\"\n"})))]);
        assert_eq!((story.calls[0].kind, story.calls[0].id.as_deref()), (Kind::Custom, Some("call_1")));
    }
}

#[test]
fn undeclared_custom_call_is_the_providers() {
    for (tools, kind) in [
        (json!([{"type": "x_search"}]), Kind::Provider),
        (json!([{"type": "x_search"}, {"type": "custom", "name": "x"}]), Kind::Custom),
        (json!([]), Kind::Custom),
    ] {
        let custom =
            json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "x", "input": "{\"q\":1}"});
        let created = json!({"type": "response.created", "response": {"tools": tools}});
        assert_eq!(parse_events(&[created, added(0, custom.clone()), done(0, custom)]).calls[0].kind, kind, "{tools}");
    }
}

#[test]
fn built_in_tools_are_shown() {
    for (item, name, arguments) in [
        (
            json!({"type": "web_search_call", "id": "1", "action": {"type": "search", "query": "x"}}),
            "web_search",
            json!({"type": "search", "query": "x"}),
        ),
        (
            json!({"type": "file_search_call", "id": "1", "queries": ["x"], "results": null}),
            "file_search",
            json!({"queries": ["x"]}),
        ),
        (
            json!({"type": "code_interpreter_call", "id": "1", "code": "1+1", "container_id": "c"}),
            "code_interpreter",
            json!({"code": "1+1", "container_id": "c"}),
        ),
        (
            json!({"type": "mcp_call", "id": "1", "name": "roll", "arguments": "{\"n\":6}", "server_label": "dice"}),
            "roll",
            json!({"n": 6}),
        ),
        (
            json!({"type": "tool_search_call", "id": "1", "arguments": {"goal": "x"}}),
            "tool_search",
            json!({"goal": "x"}),
        ),
        (json!({"type": "image_generation_call", "id": "1", "result": "…"}), "image_generation", json!({})),
    ] {
        let story = parse_events(&[added(0, item.clone()), done(0, item.clone()), ends("completed", json!([item]))]);
        assert_eq!(story.short(), [(name, Some(&arguments))]);
        assert_eq!((story.calls[0].kind, story.calls[0].id.as_deref()), (Kind::Provider, Some("1")));
    }
    for other in ["message", "reasoning", "mcp_list_tools", "mcp_approval_request", "program"] {
        assert_eq!(parse_events(&[done(0, json!({"type": other, "id": "1"}))]).calls.len(), 0, "{other}");
    }
}

#[test]
fn failed_response_has_its_reason() {
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "it broke"}}});
    let story = parse_events(&[added(0, function("f", json!(""), "in_progress")), failed]);
    assert_eq!(story.broken, Some(StreamError::Provider("it broke".to_owned())));
    assert_eq!((story.short(), story.ended), (vec![("f", None)], false));
}

#[test]
fn response_without_streaming_is_parsed() {
    let whole = json!({"object": "response", "status": "completed", "error": null, "output": [function("f", json!("{\"x\":1}"), "completed")]});
    let story = story(&format!("{whole:#}"));
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1})))]);
    assert!(story.ended);
}

#[test]
fn invalid_character_in_text_is_tolerated() {
    let (mut parser, mut out) = (Parser::new(None), Vec::new());
    let text = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"\\ud83d\"}\n\n";
    let call =
        sse(&[added(0, function("f", json!(""), "in_progress")), done(0, function("f", json!("{}"), "completed"))]);
    parser
        .push(
            format!("{}{text}{call}", sse(&[json!({"type": "response.created", "response": {}})])).as_bytes(),
            &mut out,
        )
        .unwrap();
    assert!(out.iter().any(|event| matches!(event, StreamEvent::Closed { .. })), "{out:?}");
    let delta =
        "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":1,\"delta\":\"\\ud83d\"}\n\n";
    assert!(matches!(parser.push(delta.as_bytes(), &mut out), Err(StreamError::NotJson(_))));
}
