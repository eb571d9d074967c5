//! The output of a program and the result that it becomes.

use serde_json::json;

use super::*;
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::count;

#[tokio::test(flavor = "multi_thread")]
async fn plain_output_is_the_result() {
    let app = service().await;
    for (script, output, structured) in [
        ("printf 'hello\\nyou'", "hello\nyou", json!(null)),
        ("echo '{\"a\": [1, 2]}'", "{\"a\":[1,2]}", json!({"a": [1, 2]})),
        ("echo '{\"output\": \"shown\", \"details\": {\"d\": 1}}'", "shown", json!(null)),
        ("true", "Done", json!(null)),
        ("echo null", "null", json!(null)),
        ("echo '{\"event\":\"result\",\"result\":null}'", "null", json!(null)),
        ("printf 'caf\\351'", "caf\u{fffd}", json!(null)),
        ("echo noise; echo '{\"event\":\"result\",\"result\":42}'; echo more", "42", json!(42)),
        ("echo '{\"event\":\"result\",\"output\":\"o\"}'", "o", json!(null)),
    ] {
        let call = shell(&app, script).await;
        assert_eq!((succeeded(&call), &call["structured"]), (output, &structured), "{script}");
        assert_eq!(call["details"]["sandbox"]["no_new_privs"], true, "{call:#}");
    }
    let call = shell(&app, "echo '{\"success\": false, \"message\": \"m\"}'").await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").ends_with(": m"));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_written_to_standard_input() {
    let app = service().await;
    app.register(program("cat", &["cat"], json!({}))).await;
    let call = app.call_with(json!({"name": "cat", "id": "call_1", "arguments": {"text": "a\u{0}😀"}})).await;
    let input = &call["structured"];
    assert_eq!(input["arguments"], json!({"text": "a\u{0}😀"}), "{call:#}");
    assert_eq!((&input["id"], &input["call_id"], &input["name"]), (&call["id"], &json!("call_1"), &json!("cat")));
    assert_eq!((&input["attempt"], &input["deadline_ms"]), (&json!(1), &json!(30_000)));
    assert_eq!((&input["context"], &input["agent"]), (&json!({}), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn program_need_not_read_its_input() {
    let app = service().await;
    app.register(program("deaf", &["echo", "fine"], json!({}))).await;
    let call = app.call("deaf", json!({"text": "x".repeat(2 << 20)})).await;
    assert_eq!(succeeded(&call), "fine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_lines_are_reported_and_are_no_output() {
    let app = service().await;
    let script = "echo '{\"event\":\"progress\",\"tip\":\"half\",\"progress\":{\"current\":1,\"total\":2}}'
        echo '{\"event\":\"progress\",\"content\":\"seen\",\"details\":{\"d\":1}}'
        echo '{\"event\":\"progress\",\"tpi\":1}'; printf end";
    app.register(program("steps", &["sh", "-c", script], json!({}))).await;
    let events = app.call_streamed(&json!({"name": "steps"})).await.rest().await;
    assert_eq!(count(&events, "progress"), 2, "{events:#?}");
    let call = app.stored(&app.only("steps").await).await;
    assert_eq!((succeeded(&call), &call["tip"]), ("end", &json!("half")));
    assert_eq!(call["progress"]["total"], 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_program_is_an_error_with_its_output() {
    let app = service().await;
    let call = shell(&app, "echo out; echo err >&2; exit 3").await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.ends_with("\": out\n\nerr\n\nCommand exited with code 3"), "{text}");
    assert_eq!(call["error"]["details"]["exit_code"], 3);
    assert_eq!(call["details"]["stderr"], "err\n");
    let call = shell(&app, "kill -KILL $$").await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").ends_with(": Command was killed by signal 9"));
    let call = shell(&app, "yes | head -c 1000000; exit 1").await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.len() < 20_000 && text.ends_with("Command exited with code 1"), "{}", text.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_cannot_start_is_reported() {
    let app = service().await;
    app.register(program("none", &["/no/such/program"], json!({}))).await;
    let call = app.call("none", json!({})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").ends_with(": program \"/no/such/program\" not found"), "{call:#}");
    let mut long = program("long", &["true"], json!({"env": {"TEXT": "{text}"}}));
    long["input_schema"]["properties"] = json!({"text": {}});
    app.register(long).await;
    let call = app.call("long", json!({"text": "x".repeat(1 << 20)})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("it cannot be started: Argument list too long"), "{call:#}");
    let call = shell_with(&app, "true", json!({"cwd": "/no/such/folder"})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("/no/such/folder does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_output_ends_the_program() {
    let app = service().await;
    let mark = mark();
    let call = shell_with(&app, "yes", json!({"env": {"MARK": mark}})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("larger than 16777216 bytes"));
    wait_for_none(&mark).await;
    // Only the end of standard error is kept.
    let call = shell(&app, "yes | head -c 50000000 >&2; echo end >&2; printf fine").await;
    assert_eq!(succeeded(&call), "fine");
    let stderr = call["details"]["stderr"].as_str().unwrap();
    assert!(stderr.len() < 20_000 && stderr.ends_with("end\n"));
}
