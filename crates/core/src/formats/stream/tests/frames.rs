//! Tests for the streams of all vendors: framing, errors and detection.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::formats::stream::error::MAX_CALLS;

fn calls() -> [Value; 2] {
    let entry = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":\"é\"}"}});
    [
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]
}

#[test]
fn every_framing_yields_the_same_calls() {
    let [first, second] = calls();
    let none = json!({"choices": []});
    let pretty = format!("{first:#}").replace('\n', "\r\ndata: ");
    for body in [
        format!("data: {first}\n\ndata: {second}\n\ndata: [DONE]\n\n"),
        format!(
            "\u{feff}: hi\r\nevent: x\r\nid: 1\r\ndata:{pretty}\r\n\r\n: hi\r\n\r\ndata: {none}\r\n\r\ndata:\r\n\r\ndata: {second}"
        ),
        format!("data: {first}\r\rdata: {second}\r\r"),
        format!("{first}\n{second}\n[DONE]\n"),
        format!("{first}{second}"),
        format!("[{first},\n{second}]\n"),
        json!([first, second]).to_string(),
    ] {
        let story = story(&body);
        assert_eq!((story.short(), story.ended), (vec![("f", Some(&json!({"x": "é"})))], true), "{body}");
    }
}

#[test]
fn invalid_json_ends_the_stream_and_truncates_open_calls() {
    let [first, second] = calls();
    for fault in
        ["data: {\"choices\": [}", "data: hello", "data: 5", "data: {\"choices\": 123456789012345678901234567890}"]
    {
        let story = story(&format!("data: {first}\n\n{fault}\n\ndata: {second}\n\n"));
        assert_eq!(story.short(), [("f", None)]);
        assert!(matches!(story.broken, Some(StreamError::NotJson(_))), "{fault}");
    }
}

#[test]
fn invalid_utf8_ends_the_stream() {
    let story = parse(None, [&b"data: {\"choices\": [], \"x\": \"\xff\"}\n\n"[..]]);
    assert!(matches!(story.broken, Some(StreamError::NotJson(_))));
}

#[test]
fn provider_error_is_reported() {
    for (error, message) in [
        (json!({"error": {"message": "too many requests", "code": 429}}), "too many requests"),
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "Overloaded"),
        (json!({"type": "error", "message": "bad", "code": "x", "param": null}), "bad"),
        (json!({"error": "no model"}), "no model"),
        (json!([{"error": {"code": 503, "status": "UNAVAILABLE"}}]), "{\"code\":503,\"status\":\"UNAVAILABLE\"}"),
    ] {
        let story = story(&format!("data: {}\n\ndata: {error}\n\n", calls()[0]));
        assert_eq!(
            (story.short(), &story.broken),
            (vec![("f", None)], &Some(StreamError::Provider(message.to_owned())))
        );
    }
}

#[test]
fn first_event_determines_the_vendor() {
    for (event, vendor) in [
        (json!({"choices": []}), Vendor::OpenAi),
        (json!({"object": "chat.completion.chunk"}), Vendor::OpenAi),
        (json!({"type": "response.created", "response": {}}), Vendor::OpenAiResponses),
        (json!({"type": "message_start", "message": {}}), Vendor::Anthropic),
        (json!({"type": "content_block_start", "index": 0, "content_block": {}}), Vendor::Anthropic),
        (json!({"candidates": []}), Vendor::Gemini),
        (json!({"promptFeedback": {}}), Vendor::Gemini),
    ] {
        let push = |expected: Option<Vendor>| {
            let mut parser = Parser::new(expected);
            parser
                .push(sse(&[json!({"type": "ping"}), event.clone()]).as_bytes(), &mut Vec::new())
                .map(|()| parser.vendor())
        };
        assert_eq!(push(None), Ok(Some(vendor)));
        assert_eq!(push(Some(vendor)), Ok(Some(vendor)));
    }
    assert_eq!(parse_events(&[json!({"hello": 1})]).broken, Some(StreamError::UnknownShape));
    let other = parse(Some(Vendor::Anthropic), [sse(&calls()).as_bytes()]);
    assert_eq!(other.broken, Some(StreamError::OtherVendor { expected: Vendor::Anthropic, found: Vendor::OpenAi }));
}

#[test]
fn empty_stream_yields_no_events() {
    for body in ["", "\n\n", ": hi\n\n", "[]", "data: [DONE]\n\n"] {
        assert_eq!(story(body), Story::default(), "{body:?}");
    }
}

#[test]
fn stream_has_a_limit_of_calls() {
    let entries: Vec<Value> = (0..=MAX_CALLS)
        .map(|index| json!({"index": index, "id": format!("{index}"), "function": {"name": "f"}}))
        .collect();
    let story = parse(None, [sse(&[json!({"choices": [{"delta": {"tool_calls": entries}}]})]).as_bytes()]);
    assert_eq!((story.calls.len(), story.broken), (MAX_CALLS, Some(StreamError::TooManyCalls)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Values of any type in any member: parsing never panics, and leaves no call open.
    #[test]
    fn arbitrary_events_are_handled(event in odd(), vendor in prop::sample::select(vec![Vendor::OpenAi, Vendor::OpenAiResponses, Vendor::Anthropic, Vendor::Gemini])) {
        let body = sse(&[event.clone(), event]);
        let whole = parse(Some(vendor), [body.as_bytes()]);
        prop_assert_eq!(parse(Some(vendor), body.as_bytes().chunks(7)), whole);
    }

    #[test]
    fn any_text_is_preserved(text in any::<String>(), sizes in prop::collection::vec(1_usize..9, 1..9)) {
        let arguments = json!({ "x": text }).to_string();
        let letters: Vec<char> = arguments.chars().collect();
        let (mut events, mut at, mut sizes) = (vec![], 0, sizes.into_iter().cycle());
        while at < letters.len() {
            let end = letters.len().min(at + sizes.next().unwrap());
            let piece: String = letters[at..end].iter().collect();
            let id = (at == 0).then_some("a");
            let entry = json!({"index": 0, "id": id, "function": {"name": id.map(|_| "f"), "arguments": piece}});
            events.push(json!({"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]}));
            at = end;
        }
        events.push(calls()[1].clone());
        let story = parse(None, sse(&events).as_bytes().chunks(11));
        prop_assert_eq!(story.short(), [("f", Some(&json!({ "x": text })))]);
    }
}

/// Generates objects with the members that vendors use, and arbitrary values.
fn odd() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "type",
        "choices",
        "delta",
        "message",
        "tool_calls",
        "function",
        "function_call",
        "custom",
        "name",
        "id",
        "index",
        "arguments",
        "input",
        "finish_reason",
        "item",
        "item_id",
        "output_index",
        "response",
        "output",
        "status",
        "call_id",
        "content_block",
        "partial_json",
        "stop_reason",
        "content",
        "candidates",
        "parts",
        "functionCall",
        "partialArgs",
        "jsonPath",
        "stringValue",
        "willContinue",
        "args",
        "finishReason",
        "toolCall",
        "tools",
    ]);
    let text = prop::sample::select(vec![
        "",
        "f",
        "{}",
        "[DONE]",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
        "response.function_call_arguments.delta",
        "function_call",
        "custom_tool_call",
        "web_search_call",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
        "tool_use",
        "input_json_delta",
        "max_tokens",
        "STOP",
        "$.a[2].b",
        "completed",
        "incomplete",
    ]);
    let leaf = prop_oneof![
        text.prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (0_u8..3).prop_map(Value::from),
        Just(Value::Null)
    ];
    let value = leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    });
    value.prop_filter("an object", Value::is_object)
}
