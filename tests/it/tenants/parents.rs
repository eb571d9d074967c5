//! The parent of a session belongs to the same tenant, even if other tenants use the same id.

use serde_json::{Value, json};

use super::{service, tenant};
use crate::support::{Backend, Client, eventually};

/// Calls `new_task`. Returns the ids of the new session and of the call.
async fn task(client: &Client) -> (String, String) {
    let session = json!({"id": "asker", "tools": ["new_task"]});
    assert_eq!(client.post("/sessions", &session).await.status, 201);
    let arguments = json!({"agent_name": "a", "task_name": "b", "input": "c"});
    let call = client.accepted(json!({"name": "new_task", "arguments": arguments, "session": "asker"})).await;
    let child = eventually("the session of the task", || async {
        client.stored(&call).await["metadata"]["session"].as_str().map(str::to_owned)
    });
    (child.await, call)
}

/// Returns the ids of the sessions under a parent.
async fn under(client: &Client, parent: &str) -> Vec<Value> {
    let page = client.get(&format!("/sessions?parent={parent}")).await.ok();
    page["sessions"].as_array().unwrap().iter().map(|session| session["id"].clone()).collect()
}

on_both_databases!(
    async fn parent_session_of_another_tenant_is_rejected(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let one = tenant(&operator, "one").await;
        assert_eq!(one.post("/sessions", &json!({"id": "made"})).await.status, 201);
        one.call_with(json!({"name": "echo", "session": "used"})).await;
        let (child, _) = task(&one).await;
        for stranger in [&tenant(&operator, "other").await, &operator] {
            for parent in ["made", "used", &child] {
                let id = format!("under-{parent}");
                let refused = stranger.post("/sessions", &json!({"id": id, "parent": parent})).await;
                assert_eq!(refused.problem(404)["code"], "NOT_FOUND", "{parent}");
                stranger.get(&format!("/sessions/{id}")).await.problem(404);
                assert_eq!(under(stranger, parent).await, [Value::Null; 0]);
            }
        }
    }
);

on_both_databases!(
    async fn id_used_by_two_tenants_names_a_parent_of_each(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let (one, other) = (tenant(&operator, "one").await, tenant(&operator, "other").await);
        assert_eq!(one.post("/sessions", &json!({"id": "both"})).await.status, 201);
        other.call_with(json!({"name": "echo", "session": "both"})).await;
        for (client, id) in [(&one, "ones"), (&other, "others")] {
            let made = client.post("/sessions", &json!({"id": id, "parent": "both"})).await;
            assert_eq!((made.status, &made.json["parent"]), (201, &json!("both")));
            assert_eq!(under(client, "both").await, [json!(id)]);
        }
        one.get("/sessions/others").await.problem(404);
        // Deleting one session leaves the other active.
        assert_eq!(other.delete("/sessions/both").await.status, 204);
        assert_eq!(one.get("/sessions/both").await.ok()["state"], "ACTIVE");
        other.post("/sessions", &json!({"id": "later", "parent": "both"})).await.problem(404);
    }
);

on_both_databases!(
    async fn session_with_the_id_of_a_foreign_task_ends_nothing_there(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let (one, other) = (tenant(&operator, "one").await, tenant(&operator, "other").await);
        let (child, call) = task(&one).await;
        assert_eq!(other.post("/sessions", &json!({"id": child})).await.status, 201);
        let own = other.get(&format!("/sessions/{child}")).await.ok();
        assert_eq!((&own["parent"], &own["parent_call"]), (&Value::Null, &Value::Null));
        let completion = json!({"success": true, "summary": "not theirs"});
        assert_eq!(other.post(&format!("/sessions/{child}/complete"), &completion).await.status, 200);
        assert_eq!(other.post_empty(&format!("/sessions/{child}/abort")).await.status, 202);
        assert_eq!(other.delete(&format!("/sessions/{child}")).await.status, 204);
        assert_eq!(one.stored(&call).await["status"], "DOING");
        let task = one.get(&format!("/sessions/{child}")).await.ok();
        assert_eq!((&task["state"], &task["parent"]), (&json!("ACTIVE"), &json!("asker")));
        let completion = json!({"success": true, "summary": "done"});
        assert_eq!(one.post(&format!("/sessions/{child}/complete"), &completion).await.status, 200);
        assert_eq!(one.ended(&call).await["output"], "done");
    }
);
