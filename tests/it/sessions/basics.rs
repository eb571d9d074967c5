//! Creating, listing, reading and deleting sessions.

use serde_json::{Value, json};

use super::{listed, made, read};
use crate::support::shapes::{ids, is_time, points_at, succeeded};
use crate::support::{App, Backend};

on_both_databases!(
    async fn session_is_read_with_tools_calls_and_results_but_no_context(backend: Backend) {
        let app = App::start(backend).await;
        let new = json!({
            "id": "chat/ü 1", "context": {"user": {"token": "planted-value"}}, "groups": {"a": false},
            "limits": {"timeout_ms": 9000}, "tools": ["echo"], "callback_url": "http://127.0.0.1:9/x",
        });
        app.post("/sessions", &new).await.problem(404);
        app.post("/tool-groups", &json!({"name": "a"})).await;
        let answer = app.post("/sessions", &new).await;
        assert_eq!((answer.status, answer.header("location")), (201, "/sessions/chat%2F%C3%BC%201"));
        assert_eq!((&answer.json["state"], &answer.json["context"]), (&json!("ACTIVE"), &json!(["user"])));
        app.post("/sessions", &new).await.problem(409);
        app.call_with(json!({"name": "echo", "id": "call_1", "session": "chat/ü 1", "arguments": {"a": 1}})).await;
        app.call_with(json!({"name": "nobody", "id": "call_2", "session": "chat/ü 1"})).await;
        let found = app.get("/sessions/chat%2F%C3%BC%201").await;
        assert!(!found.text().contains("planted-value"));
        let found = found.ok();
        assert_eq!((&found["id"], &found["limits"]["timeout_ms"]), (&json!("chat/ü 1"), &json!(9000)));
        assert_eq!(listed(&found, "tool_definitions", "name"), ["echo"]);
        assert_eq!(listed(&found, "tool_calls", "call_id"), ["call_1", "call_2"]);
        assert_eq!(listed(&found, "tool_results", "call_id"), ["call_1", "call_2"]);
        assert_eq!((&found["tool_results"][0]["output"], &found["pending"]), (&json!("{\"a\":1}"), &json!([])));
        assert_eq!(found["tool_results"][1]["is_error"], true);
        assert!(is_time(&found["created_at"]));
        assert_eq!(app.delete("/sessions/chat%2F%C3%BC%201").await.status, 204);
        app.get("/sessions/chat%2F%C3%BC%201").await.problem(404);
        app.delete("/sessions/chat%2F%C3%BC%201").await.problem(404);
        let audit = app.get("/tool-calls?session=chat%2F%C3%BC%201").await.ok();
        assert_eq!(audit["tool_calls"].as_array().unwrap().len(), 2, "the calls stay in the audit trail");
    }
);

on_both_databases!(
    async fn pages_are_newest_first(backend: Backend) {
        let app = App::start(backend).await;
        let mut expected = Vec::new();
        for _ in 0..5 {
            expected.insert(0, made(&app, json!({})).await["id"].as_str().unwrap().to_owned());
        }
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.get(&format!("/sessions?limit=2{cursor}")).await.ok();
            found.extend(ids(&page["sessions"]));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        // Sessions of the same microsecond are ordered by id, which is sequential as well.
        assert_eq!(found, expected);
        app.get("/sessions?cursor=none").await.problem(422);
        app.get("/sessions?limit=0").await.problem(422);
        app.get("/sessions?sate=ACTIVE").await.problem(422);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_session_is_rejected_with_its_pointer() {
    let app = App::on_sqlite().await;
    for (body, pointer) in [
        (json!({"contxt": {}}), "/contxt"),
        (json!({"id": ""}), "/id"),
        (json!({"id": "a\u{0}"}), "/id"),
        (json!({"id": "x".repeat(513)}), "/id"),
        (json!({"context": {"user": "Ada"}}), "/context/user"),
        (json!({"groups": {"a": "on"}}), "/groups/a"),
        (json!({"limits": {"timeout_ms": 0}}), "/limits/timeout_ms"),
        (json!({"tools": ["no name"]}), "/tools/0"),
        (json!({"callback_url": "ftp://x"}), "/callback_url"),
    ] {
        points_at(&app.post("/sessions", &body).await.problem(422), pointer);
    }
    app.post("/sessions", &json!({"parent": "nobody"})).await.problem(404);
    assert_eq!(app.get("/sessions").await.ok()["sessions"], json!([]), "none of them was made");
    for path in ["", "/events", "/messages", "/prompt"] {
        app.get(&format!("/sessions/nobody{path}")).await.problem(404);
    }
    app.post_empty("/sessions/nobody/abort").await.problem(404);
    app.post("/sessions/nobody/complete", &json!({"success": true, "summary": ""})).await.problem(404);
    app.get("/sessions/no%00body").await.problem(404);
}

on_both_databases!(
    async fn session_with_a_reused_id_is_empty(backend: Backend) {
        let app = App::start(backend).await;
        app.call_with(json!({"name": "echo", "session": "s", "arguments": {"old": 1}})).await;
        assert_eq!(app.delete("/sessions/s").await.status, 204);
        app.call_with(json!({"name": "echo", "session": "s", "id": "new", "arguments": {"new": 1}})).await;
        assert_eq!(listed(&read(&app, "s").await, "tool_calls", "call_id"), ["new"]);
        let messages = app.get("/sessions/s/messages").await;
        assert!(!messages.text().contains("old"), "{}", messages.text());
    }
);

on_both_databases!(
    async fn limits_of_the_session_have_the_lowest_precedence(backend: Backend) {
        let app = App::start(backend).await;
        let session = json!({"id": "s", "limits": {"timeout_ms": 4000, "idle_timeout_ms": 3000}});
        made(&app, session).await;
        let own = json!({
            "name": "own", "input_schema": {"type": "object"}, "limits": {"timeout_ms": 7000},
            "executor": {"type": "builtin", "name": "echo"},
        });
        app.register(own).await;
        let limits = |call: Value| (call["limits"]["timeout_ms"].clone(), call["limits"]["idle_timeout_ms"].clone());
        let of = async |body: Value| limits(app.call_with(body).await);
        assert_eq!(of(json!({"name": "echo", "session": "s"})).await, (json!(4000), json!(3000)));
        assert_eq!(of(json!({"name": "own", "session": "s"})).await, (json!(7000), json!(3000)));
        let body = json!({"name": "own", "session": "s", "limits": {"timeout_ms": 9000}});
        assert_eq!(of(body).await, (json!(9000), json!(3000)));
        assert_eq!(of(json!({"name": "echo"})).await, (json!(30_000), Value::Null));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn ended_session_continues_with_its_next_call() {
    let app = App::on_sqlite().await;
    made(&app, json!({"id": "s"})).await;
    assert_eq!(super::abort(&app, "s").await["state"], "ABORTED");
    let call = app.call_with(json!({"name": "echo", "session": "s"})).await;
    assert_eq!((succeeded(&call), &read(&app, "s").await["state"]), ("{}", &json!("ACTIVE")));
}
