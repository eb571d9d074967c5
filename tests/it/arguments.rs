//! The member `arguments`: an object, a JSON string, or malformed JSON from a model.

use serde_json::{Value, json};

use crate::support::shapes::{HARD_TEXT, failed, succeeded};
use crate::support::{App, Backend};

async fn app_with_tool() -> App {
    let app = App::on_sqlite().await;
    app.echo_of("t", json!({"a": {}, "unit": {"type": "string", "default": "C"}})).await;
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn object_and_its_text_are_equal() {
    let app = App::on_sqlite().await;
    let object = json!({"city": "Rome", "days": [1, 2.5, null]});
    let from_object = app.call("echo", object.clone()).await;
    let from_text = app.call("echo", json!(object.to_string())).await;
    assert_eq!(succeeded(&from_object), succeeded(&from_text));
    assert_eq!(from_text["effective_arguments"], object);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_arguments_are_an_empty_object() {
    let app = App::on_sqlite().await;
    let absent = app.call_with(json!({"name": "echo"})).await;
    assert_eq!(succeeded(&absent), "{}");
    for nothing in [json!(null), json!(""), json!("  \n\t "), json!({}), json!("{}")] {
        let call = app.call("echo", nothing).await;
        assert_eq!(succeeded(&call), "{}");
        assert_eq!(call["effective_arguments"], json!({}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_may_have_surrounding_blanks() {
    let app = App::on_sqlite().await;
    assert_eq!(succeeded(&app.call("echo", json!(" \n{ \"a\" : 1 }\n ")).await), r#"{"a":1}"#);
}

/// Returns the `(line, column)` at the end of the output.
fn line_and_column(output: &str) -> (usize, usize) {
    let (rest, column) = output.rsplit_once(" column ").unwrap();
    let (_, line) = rest.rsplit_once(" at line ").unwrap();
    (line.parse().unwrap(), column.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_json_text_is_malformed_with_its_position() {
    let app = App::on_sqlite().await;
    for text in
        ["{\"a\":", "{'a':1}", "{\"a\":1,}", "{\"a\":1} and more", "hello", "{\"a\":NaN}", "{\"a\":\"b}", "{a:1}"]
    {
        let call = app.call("echo", json!(text)).await;
        let output = failed(&call, "ARGUMENTS_MALFORMED");
        assert!(output.starts_with("Error: Invalid JSON in arguments for tool \"echo\": "), "{output}");
        assert_eq!(line_and_column(output).0, 1, "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn line_of_malformed_json_is_counted() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!("{\n  \"a\": 1,\n  \"b\" 2\n}")).await;
    assert_eq!(line_and_column(failed(&call, "ARGUMENTS_MALFORMED")).0, 3);
}

on_both_databases!(
    async fn tool_never_runs_on_malformed_arguments(backend: Backend) {
        let app = App::start(backend).await;
        let call = app.call("echo", json!("{\"a\":")).await;
        assert_eq!((&call["attempts"], &call["started_at"]), (&json!(0), &Value::Null));
        let stats = app.stats("echo").await;
        assert_eq!((&stats["execution_count"], &stats["rejected_count"]), (&json!(0), &json!(1)));
        assert_eq!(stats["rejected_by_code"], json!({"ARGUMENTS_MALFORMED": 1}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn non_object_root_is_invalid() {
    let app = App::on_sqlite().await;
    for root in [json!("[1,2]"), json!("5"), json!("true"), json!([1, 2]), json!(5), json!(true)] {
        let call = app.call("echo", root).await;
        let output = failed(&call, "TOOL_VALIDATION_ERROR");
        assert!(output.starts_with("Error: Invalid parameters for tool \"echo\"\n- "), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_arguments_are_kept_next_to_the_effective_ones() {
    let app = app_with_tool().await;
    let call = app.call("t", json!({"a": 1})).await;
    assert_eq!(call["arguments"], json!({"a": 1}));
    assert_eq!(call["effective_arguments"], json!({"a": 1, "unit": "C"}));
    assert_eq!(call["structured"], call["effective_arguments"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_of_64_bits_keep_every_digit() {
    let app = App::on_sqlite().await;
    for number in ["9223372036854775807", "-9223372036854775808", "18446744073709551615", "9007199254740993"] {
        let text = format!("{{\"n\":{number}}}");
        assert_eq!(succeeded(&app.call("echo", json!(text)).await), text);
        let body = format!("{{\"name\":\"echo\",\"arguments\":{text}}}");
        assert_eq!(app.post_raw("/tool-calls", body).await.ok()["output"], text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn integer_beyond_both_ranges_is_rejected_and_never_rounded() {
    let app = App::on_sqlite().await;
    let text = "{\"n\":123456789012345678901234567891}";
    let call = app.call("echo", json!(text)).await;
    failed(&call, "ARGUMENTS_MALFORMED");
    let body = format!("{{\"name\":\"echo\",\"arguments\":{text}}}");
    app.post_raw("/tool-calls", body).await.client_problem();
    assert_eq!(app.stats("echo").await["execution_count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn doubles_keep_their_value() {
    let app = App::on_sqlite().await;
    for number in [0.1, 1e300, 5e-324, 1.7976931348623157e308, -2.5, 0.30000000000000004] {
        let call = app.call("echo", json!({"n": number})).await;
        succeeded(&call);
        assert_eq!(call["structured"]["n"].as_f64(), Some(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn last_duplicate_key_wins() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!("{\"a\":1,\"a\":3}")).await;
    assert_eq!(call["structured"], json!({"a": 3}));
    let body = "{\"name\":\"nobody\",\"name\":\"echo\",\"arguments\":{\"a\":1,\"a\":3}}";
    assert_eq!(app.post_raw("/tool-calls", body).await.ok()["structured"], json!({"a": 3}));
}

on_both_databases!(
    async fn any_text_survives_in_keys_and_values(backend: Backend) {
        let app = App::start(backend).await;
        let arguments = json!({HARD_TEXT: HARD_TEXT, "nested": [{"😀\u{0}": "\u{0}"}], "lone": "\u{fffd}\u{10ffff}"});
        for form in [arguments.clone(), json!(arguments.to_string())] {
            let call = app.call("echo", form).await;
            assert_eq!(succeeded(&call), arguments.to_string());
            let stored = app.stored(call["id"].as_str().unwrap()).await;
            assert_eq!((&stored["structured"], &stored["effective_arguments"]), (&arguments, &arguments));
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn large_arguments_within_the_limit_are_accepted() {
    let app = App::on_sqlite().await;
    let text = "é".repeat(1_000_000);
    let call = app.call("echo", json!({"text": text})).await;
    assert_eq!(call["status"], "SUCCESS");
    assert_eq!(call["structured"]["text"], text);
}
