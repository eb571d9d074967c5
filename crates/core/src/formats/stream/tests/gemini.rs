//! Google's `generateContent`.

use serde_json::{Value, json};

use super::*;

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "usageMetadata": {}})
}

fn call(call: Value) -> Value {
    parts(json!([{ "functionCall": call }]))
}

fn last(event: Value, reason: &str) -> Value {
    let mut event = event;
    event["candidates"][0]["finishReason"] = reason.into();
    event
}

fn stop(reason: &str) -> Value {
    last(parts(json!([{"text": ""}])), reason)
}

/// Creates a chunk of an argument, with more of the call to follow.
fn piece(path: &str, value: Value) -> Value {
    let mut piece = value;
    piece["jsonPath"] = path.into();
    call(json!({"partialArgs": [piece], "willContinue": true}))
}

#[test]
fn each_function_call_part_is_a_call() {
    let story = parse_events(&[
        parts(
            json!([{"text": "x"}, {"functionCall": {"name": "f", "args": {"x": 1}}}, {"functionCall": {"id": "a", "name": "g"}}]),
        ),
        last(call(json!({"name": "h", "args": {}})), "STOP"),
    ]);
    let none = json!({});
    assert_eq!(story.short(), [("f", Some(&json!({"x": 1}))), ("g", Some(&none)), ("h", Some(&none))]);
    assert_eq!((story.calls[0].id.clone(), story.calls[1].id.as_deref()), (None, Some("a")));
    assert!(story.ended);
}

#[test]
fn call_of_the_chunk_that_hits_the_limit_never_runs() {
    let story = parse_events(&[
        call(json!({"name": "f", "args": {}})),
        last(call(json!({"name": "g", "args": {"x": 1}})), "MAX_TOKENS"),
    ]);
    assert_eq!(story.short(), [("f", Some(&json!({}))), ("g", None)]);
    assert_eq!(story.calls[1].value, Some(json!({"x": 1})));
}

#[test]
fn arguments_are_assembled_from_paths() {
    let story = parse_events(&[
        call(json!({"name": "cook", "willContinue": true})),
        piece("$.recipe.steps[0].text", json!({"stringValue": "Boi", "willContinue": true})),
        piece("$.recipe.steps[0].text", json!({"stringValue": "l ö\n", "willContinue": true})),
        piece("$.recipe.steps[0].text", json!({"stringValue": ""})),
        call(json!({"willContinue": true})),
        piece("$.recipe.steps[1].minutes", json!({"numberValue": 12.5})),
        piece("$.recipe.vegan", json!({"boolValue": true})),
        piece("$.recipe.note", json!({"nullValue": "NULL_VALUE"})),
        call(json!({})),
        call(json!({"name": "cook", "willContinue": true})),
        call(json!({"partialArgs": [{"jsonPath": "$.n", "numberValue": 7}]})),
        stop("STOP"),
    ]);
    let recipe = json!({"steps": [{"text": "Boil ö\n"}, {"minutes": 12.5}], "vegan": true, "note": null});
    assert_eq!(story.short(), [("cook", Some(&json!({ "recipe": recipe }))), ("cook", Some(&json!({"n": 7})))]);
    assert_eq!(story.calls[0].value, Some(json!({ "recipe": recipe })), "shown before it was closed");
}

#[test]
fn unfinished_call_never_runs() {
    let begun = [call(json!({"name": "f", "willContinue": true})), piece("$.x", json!({"stringValue": "a"}))];
    for (next, name) in [
        (vec![], None),
        (vec![stop("STOP")], None),
        (vec![last(call(json!({})), "MAX_TOKENS")], None),
        (vec![call(json!({"name": "g"})), stop("STOP")], Some("g")),
    ] {
        let story = parse_events(&[&begun[..], &next].concat());
        assert_eq!(story.short()[0], ("f", None), "{next:?}");
        let second = story.short().get(1).map(|(name, arguments)| (*name, arguments.is_some()));
        assert_eq!(second, name.map(|name| (name, true)));
    }
}

#[test]
fn repeated_name_continues_the_same_call() {
    for id in [json!(null), json!("a")] {
        let more = |x: &str, goes_on: bool| {
            call(
                json!({"id": id, "name": "f", "partialArgs": [{"jsonPath": "$.x", "stringValue": x}], "willContinue": goes_on}),
            )
        };
        assert_eq!(
            parse_events(&[more("a", true), more("b", true), more("c", false)]).short(),
            [("f", Some(&json!({"x": "abc"})))]
        );
    }
}

#[test]
fn invalid_paths_are_errors() {
    for path in ["x", "$.x[3000000]", "$.a.b"] {
        let story = parse_events(&[
            call(json!({"name": "f", "args": {"a": "text"}, "willContinue": true})),
            piece(path, json!({"numberValue": 1})),
            call(json!({})),
        ]);
        assert_eq!((story.short(), story.broken.is_some()), (vec![("f", None)], true), "{path}");
    }
}

#[test]
fn long_arguments_are_sent_occasionally() {
    let mut events = vec![call(json!({"name": "f", "willContinue": true}))];
    events.extend((0..5000).map(|_| piece("$.x", json!({"stringValue": "twenty characters ok"}))));
    let (mut parser, mut out) = (Parser::new(None), Vec::new());
    parser.push(sse(&events).as_bytes(), &mut out).unwrap();
    let shown = out.iter().filter(|event| matches!(event, StreamEvent::Value { .. })).count();
    assert!((50..300).contains(&shown), "{shown}");
}

#[test]
fn arguments_have_a_limit() {
    let mut events = vec![call(json!({"name": "f", "willContinue": true}))];
    events.extend((0..12).map(|_| piece("$.x", json!({"stringValue": "x".repeat(100_000)}))));
    let story = parse(None, [sse(&events).as_bytes()]);
    assert_eq!((story.short(), &story.broken), (vec![("f", None)], &Some(StreamError::TooLarge)));
}

#[test]
fn only_the_first_candidate_counts() {
    let other = json!({"candidates": [{"index": 1, "content": {"parts": [{"functionCall": {"name": "other"}}]}, "finishReason": "MAX_TOKENS"}]});
    assert_eq!(parse_events(&[other, call(json!({"name": "f"}))]).short(), [("f", Some(&json!({})))]);
}

#[test]
fn code_run_by_the_provider_is_shown() {
    let story = parse_events(&[
        parts(
            json!([{"executableCode": {"language": "PYTHON", "code": "1+1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}]),
        ),
        parts(json!([{"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}}])),
        stop("STOP"),
    ]);
    let code = json!({"language": "PYTHON", "code": "1+1"});
    assert_eq!(
        story.short(),
        [("code_execution", Some(&code)), ("google_search_web", Some(&json!({"queries": ["x"]})))]
    );
    assert!(story.calls.iter().all(|call| call.kind == Kind::Provider));
}
