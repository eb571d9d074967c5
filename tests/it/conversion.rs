//! Conversion of a server's response to the output that a model reads.

use base64::Engine;
use serde_json::{Value, json};

use crate::support::shapes::{HARD_TEXT, failed, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

/// The smallest PNG: one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// Returns the call of a tool whose server sends this response.
async fn converted(answer: Answer) -> Value {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::answering(answer).await;
    app.http_tool("t", &server).await;
    app.call("t", json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn string_is_the_text_unchanged() {
    for text in ["plain", "", " \"quoted\" ", HARD_TEXT, "line\nline"] {
        assert_eq!(succeeded(&converted(Answer::json(&json!(text))).await), text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_is_the_text_as_it_is() {
    for text in ["It rains.", "\"quoted\"", "<p>ü 😀</p>", "a\r\nb"] {
        assert_eq!(succeeded(&converted(Answer::text(text)).await), text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_booleans_and_arrays_are_compact_json_and_structured() {
    for value in [json!(42), json!(-2.5), json!(true), json!(false), json!([1, "a", null]), json!([])] {
        let call = converted(Answer::json(&value)).await;
        assert_eq!(succeeded(&call), value.to_string());
        assert_eq!(call["structured"], value);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_is_null_and_an_empty_body_is_done() {
    let null = converted(Answer::json(&Value::Null)).await;
    assert_eq!((succeeded(&null), &null["structured"]), ("null", &Value::Null));
    assert_eq!(succeeded(&converted(Answer::status(204, "application/json", "")).await), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn object_is_compact_json_in_its_order() {
    let call = converted(Answer::body("application/json", "{ \"z\": 1,\n \"a\": { \"y\" : [ ] } }")).await;
    assert_eq!(succeeded(&call), r#"{"z":1,"a":{"y":[]}}"#);
    assert_eq!(call["structured"], json!({"z": 1, "a": {"y": []}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_read_however_its_base64_is_written() {
    let url_safe = PIXEL.replace('+', "-").replace('/', "_");
    let lines = format!("{}\n{}\r\n", &PIXEL[..40], &PIXEL[40..]);
    let url = format!("data:image/jpeg;base64,{PIXEL}");
    for data in [PIXEL, &url_safe, PIXEL.trim_end_matches('='), &lines, &url] {
        let content = json!([{"type": "text", "text": "before"}, {"type": "image", "data": data}]);
        let call = converted(Answer::json(&json!({ "content": content }))).await;
        let image = json!({"type": "image", "data": PIXEL, "mime_type": "image/png"});
        assert_eq!(call["content"], json!([{"type": "text", "text": "before"}, image]), "{data}");
        assert_eq!((succeeded(&call), &call["structured"]), ("before", &Value::Null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_image_becomes_a_text_and_the_other_blocks_stay() {
    let image = json!({"type": "image", "data": PIXEL, "mime_type": "image/png"});
    let text = json!({"type": "text", "text": "seen"});
    let bad = [
        json!({"type": "image", "data": "@@@", "mime_type": "image/png"}),
        json!({"type": "image", "data": 5, "mime_type": "image/png"}),
        json!({"type": "image", "mime_type": "image/png"}),
        json!({"type": "image", "data": "data:image/svg+xml,%3Csvg%3E"}),
        json!({"type": "image", "data": "AAAA"}),
    ];
    for bad in bad {
        let call = converted(Answer::json(&json!({"content": [text, bad, image]}))).await;
        assert_eq!((&call["content"][0], &call["content"][2]), (&text, &image), "{call:#}");
        let text = call["content"][1]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("[Image left out: "), "{call:#}");
        assert_eq!((succeeded(&call), &call["structured"]), (format!("seen\n{text}").as_str(), &Value::Null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_is_the_word_null() {
    assert_eq!(succeeded(&converted(Answer::json(&Value::Null)).await), "null");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_body_is_done() {
    let nothing = |status| Answer::Whole { status, headers: Vec::new(), body: Vec::new() };
    for status in [200, 201, 204] {
        assert_eq!(succeeded(&converted(nothing(status)).await), "Done", "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn object_with_an_output_is_used_unchanged() {
    let answer =
        json!({"output": "It rains.", "structured": {"mm": 3}, "details": {"icon": "rain"}, "metadata": {"m": 1}});
    let call = converted(Answer::json(&answer)).await;
    assert_eq!(succeeded(&call), "It rains.");
    assert_eq!((&call["structured"], &call["metadata"]["m"]), (&json!({"mm": 3}), &json!(1)));
    assert_eq!((&call["details"]["icon"], &call["details"]["success"]), (&json!("rain"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_content_is_used_unchanged_and_its_texts_are_the_output() {
    let image = json!({"type": "image", "data": PIXEL, "mime_type": "image/png"});
    let content = json!([{"type": "text", "text": "one"}, image, {"type": "text", "text": "two"}]);
    let call = converted(Answer::json(&json!({"content": content}))).await;
    assert_eq!(succeeded(&call), "one\ntwo");
    assert_eq!(call["content"], content);
}

#[tokio::test(flavor = "multi_thread")]
async fn untyped_content_is_an_ordinary_object() {
    for object in [json!({"content": [1, 2]}), json!({"content": "text"}), json!({"output": 5})] {
        assert_eq!(succeeded(&converted(Answer::json(&object)).await), object.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_with_is_error_is_an_error() {
    let call = converted(Answer::json(&json!({"output": "no such city", "is_error": true}))).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("no such city"), "{call:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn object_that_reports_a_failure_is_an_error() {
    let answers = [
        json!({"success": false, "message": "no such city"}),
        json!({"status": "error", "message": "no such city"}),
        json!({"error": "no such city"}),
        json!({"error": {"message": "no such city"}}),
    ];
    for answer in answers {
        let call = converted(Answer::json(&answer)).await;
        let output = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(output.starts_with("Error executing tool \"t\": ") && output.contains("no such city"), "{output}");
        assert_eq!(call["error"]["retryable"], false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn object_with_a_false_error_is_no_error() {
    for answer in [
        json!({"error": null, "a": 1}),
        json!({"error": false}),
        json!({"error": ""}),
        json!({"success": true}),
        json!({"success": "false"}),
        json!({"status": "ok"}),
    ] {
        assert_eq!(succeeded(&converted(Answer::json(&answer)).await), answer.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_an_image_block() {
    let bytes = base64::engine::general_purpose::STANDARD.decode(PIXEL).unwrap();
    let call = converted(Answer::body("image/png", bytes)).await;
    succeeded(&call);
    assert_eq!(call["content"], json!([{"type": "image", "data": PIXEL, "mime_type": "image/png"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_answer_is_read_completely() {
    let chunks = ["{\"a\":", "[1,", "2]}"].map(|chunk| chunk.as_bytes().to_vec()).to_vec();
    let call = converted(Answer::Chunked { media_type: "application/json".into(), chunks }).await;
    assert_eq!(succeeded(&call), r#"{"a":[1,2]}"#);
}

on_both_databases!(
    async fn any_text_of_a_server_survives(backend: Backend) {
        let app = App::with_egress(backend).await;
        let answer = json!({"output": HARD_TEXT, "details": {HARD_TEXT: HARD_TEXT}, "metadata": {"m": HARD_TEXT}});
        let server = HttpTool::answering(Answer::json(&answer)).await;
        app.http_tool("t", &server).await;
        let call = app.call("t", json!({})).await;
        assert_eq!(succeeded(&call), HARD_TEXT);
        assert_eq!(call["details"][HARD_TEXT], HARD_TEXT);
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn answer_of_15_mib_is_accepted_and_one_over_16_mib_is_an_error() {
    let app = App::with_egress(Backend::Sqlite).await;
    let answers = [Answer::Stream(17 << 20), Answer::body("text/plain", vec![b'x'; 17 << 20])];
    for (n, answer) in answers.into_iter().enumerate() {
        let server = HttpTool::answering(answer).await;
        let name = format!("t{n}");
        app.http_tool(&name, &server).await;
        let call = app.call(&name, json!({})).await;
        let output = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(output.starts_with(&format!("Error executing tool \"{name}\": ")) && output.len() < 1000);
    }
    let server = HttpTool::answering(Answer::Stream(15 << 20)).await;
    app.http_tool("large", &server).await;
    assert_eq!(app.call("large", json!({})).await["status"], "SUCCESS");
}
