//! OpenAI's Chat Completions, and compatible servers.

use serde_json::{Value, json};

use super::*;

fn chunk(delta: Value, finish_reason: Value) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

/// Creates a chunk with these entries of `tool_calls`.
fn entries(entries: Value) -> Value {
    chunk(json!({ "tool_calls": entries }), Value::Null)
}

fn function(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn finish(reason: &str) -> Value {
    chunk(json!({}), reason.into())
}

#[test]
fn interleaved_calls_close_together_at_the_finish_reason() {
    let story = parse_events(&[
        entries(json!([function(0, Some("a"), Some("one"), "")])),
        entries(json!([function(1, Some("b"), Some("two"), "{\"x\":")])),
        entries(json!([function(0, None, None, "{\"y\":\"é\\ud83d"), function(1, None, None, "1}")])),
        entries(json!([function(0, None, None, "\\ude00\"}")])),
        finish("tool_calls"),
    ]);
    assert_eq!(story.short(), [("one", Some(&json!({"y": "é😀"}))), ("two", Some(&json!({"x": 1})))]);
    assert_eq!(story.calls[1].id.as_deref(), Some("b"));
    assert!(story.ended && story.broken.is_none());
}

#[test]
fn whole_object_does_not_close_a_call() {
    for end in [vec![], vec![finish("length")], vec![finish("content_filter")]] {
        let mut events = vec![entries(json!([function(0, Some("a"), Some("one"), "{\"x\":1}")]))];
        let is_ended = !end.is_empty();
        events.extend(end);
        let story = parse_events(&events);
        assert_eq!(story.short(), [("one", None)]);
        assert_eq!(story.ended, is_ended);
    }
}

#[test]
fn done_marker_closes_calls_without_a_finish_reason() {
    let events = [entries(json!([function(0, Some("a"), Some("one"), "{}")])), chunk(json!({}), "".into())];
    let story = story(
        &(sse(&events) + "data: [DONE]\n\n" + &sse(&[entries(json!([function(1, Some("b"), Some("late"), "{}")]))])),
    );
    assert_eq!(story.short(), [("one", Some(&json!({})))]);
    assert!(story.ended);
}

#[test]
fn calls_without_index_are_distinguished() {
    let whole = |id: Option<&str>, name: &str, arguments: &str| json!({"id": id, "function": {"name": name, "arguments": arguments}});
    let more = |id: &str, arguments: &str| json!({"id": id, "function": {"arguments": arguments}});
    for events in [
        vec![entries(json!([whole(Some("a"), "f", "{\"x\":1}"), whole(Some("b"), "f", "{\"x\":2}")]))],
        vec![entries(json!([whole(None, "f", "{\"x\":1}"), whole(None, "f", "{\"x\":2}")]))],
        vec![entries(json!([whole(None, "f", "{\"x\":1}")])), entries(json!([whole(None, "f", "{\"x\":2}")]))],
        vec![
            entries(json!([whole(Some("a"), "f", "{\"x\":"), whole(Some("b"), "f", "")])),
            entries(json!([more("b", "{\"x\":"), more("a", "1}")])),
            entries(json!([more("b", "2}")])),
        ],
    ] {
        let story = parse_events(&[&events[..], &[finish("tool_calls")]].concat());
        assert_eq!(story.short(), [("f", Some(&json!({"x": 1}))), ("f", Some(&json!({"x": 2})))], "{events:?}");
    }
}

#[test]
fn calls_with_the_same_index_are_distinguished() {
    for events in [
        vec![
            entries(json!([function(0, Some("a"), Some("f"), "{\"x\":1}")])),
            entries(json!([function(0, Some("b"), Some("f"), "{\"x\":2}")])),
        ],
        vec![
            entries(json!([function(0, Some("a"), Some("f"), "{\"x\":")])),
            entries(json!([function(0, None, None, "1}")])),
            entries(json!([function(0, Some("b"), Some("f"), "{\"x\":2")])),
            entries(json!([function(0, Some("b"), Some("f"), "}")])),
        ],
        vec![entries(json!([
            function(0, Some(""), Some("f"), "{\"x\":1}"),
            function(0, Some(""), Some("f"), "{\"x\":2}")
        ]))],
        vec![
            entries(json!([function(0, None, Some("f"), "{\"x\":1}")])),
            entries(json!([function(0, None, Some("f"), "{\"x\":2}")])),
        ],
    ] {
        let story = parse_events(&[&events[..], &[finish("tool_calls")]].concat());
        assert_eq!(story.short(), [("f", Some(&json!({"x": 1}))), ("f", Some(&json!({"x": 2})))], "{events:?}");
    }
}

#[test]
fn id_and_name_in_every_chunk_are_one_call() {
    let story = parse_events(&[
        entries(json!([function(0, Some("a"), Some("f"), "{\"x\":")])),
        entries(json!([function(0, Some("a"), Some("f"), "1")])),
        entries(json!([function(0, Some("a"), Some("f"), "}")])),
        entries(json!([function(0, Some("a"), Some("f"), "")])),
        finish("stop"),
        entries(json!([function(0, Some("a"), Some("f"), "")])),
        finish("stop"),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1})))]);
}

#[test]
fn name_may_follow_the_first_arguments() {
    let story = parse_events(&[
        entries(json!([function(0, Some("a"), Some(""), "{\"x\"")])),
        entries(json!([function(0, None, Some("f"), ":1}")])),
        entries(json!([function(1, Some("b"), None, "{}")])),
        entries(json!([function(2, None, None, "")])),
        finish("tool_calls"),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1}))), ("", Some(&json!({})))]);
    assert_eq!(story.calls[0].id.as_deref(), Some("a"));
}

#[test]
fn arguments_may_be_an_object() {
    let call = json!({"function": {"name": "f", "arguments": {"x": [1]}}});
    assert_eq!(parse_events(&[entries(json!([call])), finish("stop")]).short(), [("f", Some(&json!({"x": [1]})))]);
    let odd = parse_events(&[entries(json!([{"function": {"name": "f", "arguments": 5}}])), finish("stop")]);
    assert_eq!((odd.short(), odd.broken.is_some()), (vec![("f", None)], true));
}

#[test]
fn custom_tool_has_its_text_as_input() {
    let custom = |name: Option<&str>, input: &str| json!({"index": 0, "id": "a", "type": "custom", "custom": {"name": name, "input": input}});
    let story = parse_events(&[
        entries(json!([custom(Some("sql"), "")])),
        entries(json!([custom(None, "select \"a\"\n")])),
        entries(json!([custom(None, "\\ 'ö'")])),
        finish("tool_calls"),
    ]);
    assert_eq!(story.short(), [("sql", Some(&json!({"input": "select \"a\"\n\\ 'ö'"})))]);
    assert_eq!(story.calls[0].kind, Kind::Custom);
    let empty = parse_events(&[entries(json!([custom(Some("sql"), "")])), finish("tool_calls")]);
    assert_eq!(empty.short(), [("sql", Some(&json!({"input": ""})))]);
}

#[test]
fn legacy_function_call_is_parsed() {
    let call = |call: Value| chunk(json!({ "function_call": call }), Value::Null);
    let story = parse_events(&[
        call(json!({"name": "f", "arguments": ""})),
        call(json!({"arguments": "{\"x\""})),
        call(json!({"arguments": ":1}"})),
        finish("function_call"),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1})))]);
    assert_eq!((story.calls[0].kind, &story.calls[0].id), (Kind::Legacy, &None));
}

#[test]
fn only_the_first_choice_counts() {
    let choice = |index: u64, arguments: &str| json!({"index": index, "delta": {"tool_calls": [function(0, Some("a"), Some("f"), arguments)]}});
    let mut last = finish("tool_calls");
    last["choices"][0]["index"] = 1.into();
    let story = parse_events(&[
        json!({"choices": [choice(1, "{\"other\":1}")]}),
        json!({"choices": [choice(1, ""), choice(0, "{\"x\":")]}),
        last,
        json!({"choices": [choice(0, "1}")]}),
        json!({"choices": []}),
        finish("tool_calls"),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1})))]);
}

#[test]
fn response_without_streaming_is_parsed() {
    let message =
        json!({"role": "assistant", "content": null, "tool_calls": [function(0, Some("a"), Some("f"), "{\"x\":1}")]});
    let whole = json!({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let story = story(&format!("{whole:#}"));
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1})))]);
    assert!(story.ended);
}
