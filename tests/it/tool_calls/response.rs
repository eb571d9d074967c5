//! The ToolCall in the response.

use serde_json::{Value, json};

use crate::support::shapes::{HARD_TEXT, is_time, succeeded};
use crate::support::{Answer, App, Backend, HttpTool, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn tool_call_has_all_members() {
    let app = App::on_sqlite().await;
    let call = app.call_with(json!({"name": "echo", "arguments": {"a": 1}, "id": "call_abc"})).await;
    assert_eq!(succeeded(&call), r#"{"a":1}"#);
    assert_eq!(call["phase"], "done");
    assert_eq!(call["call_id"], "call_abc");
    assert_eq!(call["name"], "echo");
    assert_eq!(call["arguments"], json!({"a": 1}));
    assert_eq!(call["effective_arguments"], json!({"a": 1}));
    assert_eq!(call["content"], json!([{"type": "text", "text": r#"{"a":1}"#}]));
    assert_eq!(call["structured"], json!({"a": 1}));
    assert_eq!((&call["attempts"], &call["cached"]), (&json!(1), &json!(false)));
    assert_eq!((&call["coerced"], &call["metadata"]), (&json!([]), &json!({})));
    assert_eq!((&call["session"], &call["batch_id"], &call["index"]), (&Value::Null, &Value::Null, &json!(0)));
    assert!(call["title"].is_string() && call["node"].is_string());
    assert!(call["queued_ms"].is_u64() && call["duration_ms"].is_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn details_name_the_tool_its_time_and_its_success() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({})).await;
    assert_eq!(call["details"]["tool_name"], "echo");
    assert_eq!(call["details"]["success"], true);
    assert!(call["details"]["execution_time_ms"].is_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_ids_are_uuid_v7_and_times_are_rfc_3339() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({})).await;
    let id: uuid::Uuid = call["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(id.get_version_num(), 7);
    let times = ["created_at", "started_at", "ended_at"].map(|field| &call[field]);
    assert!(times.iter().all(|time| is_time(time)), "{call:#}");
    assert!(times.is_sorted_by_key(|time| time.as_str()));
}

on_both_databases!(
    async fn stored_call_equals_the_response(backend: Backend) {
        let app = App::start(backend).await;
        for (name, arguments) in [("echo", json!({"a": [1, {"b": null}]})), ("calculate", json!({})), ("no", json!({}))]
        {
            let call = app.call(name, arguments).await;
            assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        }
    }
);

on_both_databases!(
    async fn stored_call_survives_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        let call = app.call("echo", json!({"text": HARD_TEXT})).await;
        let app = app.restart().await;
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn echo_keeps_the_order_of_keys() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({"z": 1, "a": {"y": 2, "b": 3}, "m": []})).await;
    assert_eq!(succeeded(&call), r#"{"z":1,"a":{"y":2,"b":3},"m":[]}"#);
    let keys: Vec<&String> = call["structured"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["z", "a", "m"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn effective_limits_are_shown() {
    let app = App::on_sqlite().await;
    assert_eq!(app.call("echo", json!({})).await["limits"]["timeout_ms"], 30_000);
    let body = json!({"name": "echo", "arguments": {}, "limits": {"timeout_ms": 1234}});
    assert_eq!(app.call_with(body).await["limits"]["timeout_ms"], 1234);
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_id_is_kept_up_to_512_characters() {
    let app = App::on_sqlite().await;
    for id in ["toolu_01A".to_owned(), "x".repeat(512), "😀".repeat(512), HARD_TEXT.to_owned()] {
        let call = app.call_with(json!({"name": "echo", "id": id})).await;
        assert_eq!(call["call_id"], id);
    }
    let long = app.post("/tool-calls", &json!({"name": "echo", "id": "x".repeat(513)})).await.client_problem();
    crate::support::shapes::points_at(&long, "/id");
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_id_can_be_reused_in_another_request() {
    let app = App::on_sqlite().await;
    let first = app.call_with(json!({"name": "echo", "id": "call_0"})).await;
    let second = app.call_with(json!({"name": "echo", "id": "call_0"})).await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!((&first["call_id"], &second["call_id"]), (&json!("call_0"), &json!("call_0")));
}

on_both_databases!(
    async fn disconnect_does_not_stop_the_call(backend: Backend) {
        let app = App::with_egress(backend).await;
        let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done anyway")))).await;
        app.http_tool("slow", &server).await;
        let caller = tokio::spawn({
            let client = (*app).clone();
            async move { client.call("slow", json!({})).await }
        });
        server.received(1).await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        server.open();
        let call = eventually("the call to end", || async {
            let list = app.get("/tool-calls?status=SUCCESS").await.ok();
            list["tool_calls"].get(0).cloned()
        })
        .await;
        assert_eq!(succeeded(&call), "done anyway");
    }
);
