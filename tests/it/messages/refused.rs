//! Bodies that match no vendor's format, or not the given format.

use serde_json::{Value, json};

use super::message;
use crate::support::App;
use crate::support::shapes::points_at;

#[tokio::test(flavor = "multi_thread")]
async fn invalid_message_is_rejected_with_a_pointer_and_nothing_runs() {
    let app = App::on_sqlite().await;
    let good = json!({"type": "function", "id": "a", "function": {"name": "echo", "arguments": "{}"}});
    for (body, pointer) in [
        (json!({"choices": [{"message": {"tool_calls": 1}}]}), "/choices/0/message/tool_calls"),
        (json!({"choices": [{"delta": {}}]}), "/choices/0/message"),
        (json!({"tool_calls": [good, {"type": "function", "id": "b"}]}), "/tool_calls/1/function"),
        (json!({"tool_calls": [good, {"function": {"arguments": "{}"}}]}), "/tool_calls/1/function/name"),
        (json!({"tool_calls": [good, {"id": 7, "function": {"name": "echo"}}]}), "/tool_calls/1/id"),
        (json!({"output": [{"type": "function_call", "call_id": "a"}]}), "/output/0/name"),
        (json!([{"type": "function_call", "name": "echo"}, 1]), "/1"),
        (json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}), "/content/0/name"),
        (json!({"candidates": [{"content": {"parts": {}}}]}), "/candidates/0/content/parts"),
        (json!({"parts": [{"functionCall": {"name": 1}}]}), "/parts/0/functionCall/name"),
    ] {
        points_at(&app.post("/tool-calls", &body).await.problem(422), pointer);
    }
    assert_eq!(app.all_calls().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn message_of_another_vendor_than_declared_is_rejected() {
    let app = App::on_sqlite().await;
    for (format, vendor) in [
        ("openai", "gemini"),
        ("openai-responses", "openai"),
        ("anthropic", "openai-responses"),
        ("gemini", "openai-responses"),
        ("native", "openai"),
    ] {
        let mut body = message(vendor, &["echo"]);
        body["format"] = format.into();
        app.post("/tool-calls", &body).await.problem(422);
    }
    assert_eq!(app.all_calls().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_message_is_rejected() {
    let app = App::on_sqlite().await;
    for body in
        [json!([]), json!([1]), json!(["x"]), json!([{}]), json!({}), json!({"role": "user"}), json!("x"), json!(null)]
    {
        app.post("/tool-calls", &body).await.problem(422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_has_at_most_the_calls_of_a_batch() {
    let app = App::on_sqlite().await;
    app.post("/tool-calls", &message("anthropic", &["echo"; 1025])).await.problem(413);
    assert_eq!(app.batch(message("anthropic", &["nobody"; 30])).await.len(), 30);
}
