//! `new_task`: creates a session whose end settles the call.

use serde_json::{Value, json};

use super::{abort, complete, made, read};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{App, Backend, Client, Node};

fn task() -> Value {
    let arguments = json!({"agent_name": "researcher", "task_name": "Prices", "input": "Find them.\u{0}"});
    json!({"name": "new_task", "session": "main", "arguments": arguments})
}

/// Starts a task in a session. Returns the ids of the call and of the task's session.
async fn started(client: &Client) -> (String, String) {
    let session = json!({"id": "main", "tools": ["new_task"], "context": {"user": {"name": "Ada"}}});
    made(client, session).await;
    let id = client.accepted(task()).await;
    let call = client.in_phase(&id, "external").await;
    assert_eq!(call["status"], "DOING");
    let child = call["metadata"]["session"].as_str().unwrap().to_owned();
    (id, child)
}

on_both_databases!(
    async fn end_of_the_task_ends_the_call(backend: Backend) {
        let app = App::start(backend).await;
        let (id, child) = started(&app).await;
        let session = read(&app, &child).await;
        assert_eq!((&session["parent"], &session["parent_call"]), (&json!("main"), &json!(id)));
        let expected = json!({"agent_name": "researcher", "task_name": "Prices", "input": "Find them.\u{0}"});
        assert_eq!((&session["task"], &session["context"]), (&expected, &json!(["user"])));
        let listed = app.get("/sessions?parent=main").await.ok();
        assert_eq!(listed["sessions"][0]["id"], json!(child));
        app.call_with(json!({"name": "echo", "session": child})).await;
        points_at(&complete(&app, &child, json!({"success": true})).await.problem(422), "/summary");
        points_at(&complete(&app, &child, json!({"success": true, "summary": "", "x": 1})).await.problem(422), "/x");
        assert_eq!(app.stored(&id).await["status"], "DOING");
        let done = complete(&app, &child, json!({"success": true, "summary": "They are 5.\u{0}"})).await.ok();
        assert_eq!((&done["state"], &done["ignored"]), (&json!("COMPLETED"), &json!(false)));
        let call = app.ended(&id).await;
        assert_eq!(succeeded(&call), "They are 5.\u{0}");
        assert_eq!((&call["structured"]["session"], &call["metadata"]["session"]), (&json!(child), &json!(child)));
        let again = complete(&app, &child, json!({"success": false, "summary": "late"})).await.ok();
        assert_eq!((&again["ignored"], &again["completion"]["summary"]), (&json!(true), &json!("They are 5.\u{0}")));
        assert_eq!(read(&app, "main").await["state"], "ACTIVE");
    }
);

on_both_databases!(
    async fn failed_task_is_an_error_of_the_call(backend: Backend) {
        let app = App::start(backend).await;
        let (id, child) = started(&app).await;
        complete(&app, &child, json!({"success": false, "summary": "half of it", "error": "no network"})).await.ok();
        let call = app.ended(&id).await;
        let text = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(text.contains("no network") && text.contains("half of it"), "{text}");
    }
);

on_both_databases!(
    async fn aborting_either_side_ends_the_other(backend: Backend) {
        let app = App::start(backend).await;
        let (id, child) = started(&app).await;
        abort(&app, &child).await;
        failed(&app.ended(&id).await, "CANCELLED");
        assert_eq!(read(&app, "main").await["state"], "ACTIVE");
        let id = app.accepted(task()).await;
        let call = app.in_phase(&id, "external").await;
        let child = call["metadata"]["session"].as_str().unwrap();
        abort(&app, "main").await;
        failed(&app.ended(&id).await, "CANCELLED");
        assert_eq!(read(&app, child).await["state"], "ABORTED");
        let late = complete(&app, child, json!({"success": true, "summary": "late"})).await.ok();
        assert_eq!((&late["ignored"], &late["state"]), (&json!(true), &json!("ABORTED")));
    }
);

on_both_databases!(
    async fn task_survives_a_crash_of_the_service(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        let (id, child) = started(&node).await;
        node.kill().await;
        node.start_again().await;
        assert_eq!(node.stored(&id).await["phase"], "external");
        let done = complete(&node, &child, json!({"success": true, "summary": "at last"})).await.ok();
        assert_eq!(done["ignored"], false);
        let call = node.ended(&id).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("at last", &json!(1)));
    }
);

on_both_databases!(
    async fn session_without_a_waiting_call_is_completed(backend: Backend) {
        let app = App::start(backend).await;
        made(&app, json!({"id": "s"})).await;
        let done = complete(&app, "s", json!({"success": true, "summary": "done"})).await.ok();
        assert_eq!((&done["state"], &done["ignored"]), (&json!("COMPLETED"), &json!(false)));
        assert_eq!(complete(&app, "s", json!({"success": true, "summary": "x"})).await.ok()["ignored"], true);
    }
);
