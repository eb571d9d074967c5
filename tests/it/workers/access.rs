//! Scopes, keys that are bound to queues or tools, tenants, and refused requests.

use serde_json::{Value, json};

use super::{called, claim_now, claim_one, claim_with, finish, heartbeat, tool};
use crate::support::calls::id_of;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Client};

async fn client(admin: &Client, body: Value) -> Client {
    let (key, _) = admin.key(body).await;
    admin.with_key(&key)
}

on_both_databases!(
    async fn worker_needs_its_scope(backend: Backend) {
        let app = App::start(backend).await;
        let admin = client(&app, json!({"scopes": ["admin"]})).await;
        tool(&admin, json!({})).await;
        let others = client(&admin, json!({"scopes": ["call", "read", "tools", "approve"]})).await;
        claim_with(&others, "w", json!({})).await.problem(403);
        others.post("/workers/q/heartbeat", &json!({"worker": "w", "calls": []})).await.problem(403);
        let worker = client(&admin, json!({"scopes": ["work"]})).await;
        let id = called(&others, json!({})).await;
        let call = claim_one(&worker, "w").await;
        // Its token is enough for the result.
        finish(&app, &call, &json!("ok")).await;
        assert_eq!(succeeded(&others.ended(&id).await), "ok");
        worker.get(&format!("/tool-calls/{id}")).await.problem(403);
        worker.post("/tool-calls", &json!({"name": "t"})).await.problem(403);
        for scopes in [json!(["work"]), json!(["tools"])] {
            let half = client(&admin, json!({"scopes": scopes})).await;
            half.put("/workers/q/tools", &json!({"worker": "w", "tools": []})).await.problem(403);
        }
        let both = client(&admin, json!({"scopes": ["work", "tools"]})).await;
        both.put("/workers/q/tools", &json!({"worker": "w", "tools": []})).await.ok();
    }
);

on_both_databases!(
    async fn key_can_be_bound_to_queues(backend: Backend) {
        let app = App::start(backend).await;
        let admin = client(&app, json!({"scopes": ["admin"]})).await;
        let bound = json!({"scopes": ["work", "tools"], "queues": ["mail", "eu-*"]});
        let worker = client(&admin, bound).await;
        for (queue, status) in [("mail", 200), ("eu-1", 200), ("q", 403), ("mail2", 403)] {
            for (method, path, body) in [
                (reqwest::Method::POST, "claim", json!({"worker": "w"})),
                (reqwest::Method::POST, "heartbeat", json!({"worker": "w", "calls": []})),
                (reqwest::Method::PUT, "tools", json!({"worker": "w", "tools": []})),
            ] {
                let request = worker.request(method, &format!("/workers/{queue}/{path}")).json(&body);
                assert_eq!(crate::support::client::send(request).await.status, status, "{queue} {path}");
            }
        }
        claim_now(&admin, "other").await;
        let listed = worker.get("/workers").await.ok();
        let queues: Vec<&Value> = listed["queues"].as_array().unwrap().iter().map(|queue| &queue["queue"]).collect();
        assert_eq!(queues, [&json!("eu-1"), &json!("mail")]);
        // A caller cannot grant a queue that its own key does not have.
        let bound_admin = client(&admin, json!({"scopes": ["admin"], "queues": ["mail"]})).await;
        bound_admin.post("/keys", &json!({"scopes": ["work"]})).await.problem(403);
        bound_admin.post("/keys", &json!({"scopes": ["work"], "queues": ["q"]})).await.problem(403);
        let created = bound_admin.post("/keys", &json!({"scopes": ["work"], "queues": ["mail"]})).await;
        assert_eq!((created.status, &created.json["queues"]), (201, &json!(["mail"])));
    }
);

on_both_databases!(
    async fn restricted_key_gets_only_calls_of_its_tools(backend: Backend) {
        let app = App::start(backend).await;
        let admin = client(&app, json!({"scopes": ["admin"]})).await;
        tool(&admin, json!({})).await;
        tool(&admin, json!({"name": "u"})).await;
        let (of_t, of_u) =
            (called(&admin, json!({})).await, { admin.accepted(json!({"name": "u", "wait": "accepted"})).await });
        let worker = client(&admin, json!({"scopes": ["work"], "tools": ["u*"]})).await;
        let call = claim_one(&worker, "w").await;
        assert_eq!((id_of(&call), &call["name"]), (of_u, &json!("u")));
        assert!(claim_now(&worker, "w").await.is_empty());
        assert_eq!(id_of(&claim_one(&admin, "w").await), of_t);
    }
);

on_both_databases!(
    async fn tenants_share_no_queue(backend: Backend) {
        let app = App::start(backend).await;
        let admin = client(&app, json!({"scopes": ["admin"]})).await;
        let other = client(&admin, json!({"scopes": ["admin"], "tenant": "other"})).await;
        tool(&admin, json!({})).await;
        let id = called(&admin, json!({})).await;
        assert!(claim_now(&other, "w").await.is_empty());
        let call = claim_one(&admin, "w").await;
        assert_eq!(id_of(&call), id);
        assert_eq!(heartbeat(&other, "w", &[&call]).await["lost"], json!([id]));
        assert_eq!(heartbeat(&admin, "w", &[&call]).await["lost"], json!([]));
        let listed = other.get("/workers").await.ok();
        assert_eq!(listed["queues"], json!([{"queue": "q", "waiting": 0, "running": 0, "oldest_ms": null}]));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn rejected_requests_name_the_field() {
    let app = App::start(Backend::Sqlite).await;
    for (body, pointer) in [
        (json!({}), "/worker"),
        (json!({"worker": ""}), "/worker"),
        (json!({"worker": "a\nb"}), "/worker"),
        (json!({"worker": "x".repeat(257)}), "/worker"),
        (json!({"worker": 1}), "/worker"),
        (json!({"worker": "w", "max": 0}), "/max"),
        (json!({"worker": "w", "max": 65}), "/max"),
        (json!({"worker": "w", "wait_ms": 60_001}), "/wait_ms"),
        (json!({"worker": "w", "wait_ms": -1}), "/wait_ms"),
        (json!({"worker": "w", "wait": 1}), "/wait"),
    ] {
        let problem = app.post("/workers/q/claim", &body).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem:#}");
    }
    for (body, pointer) in [
        (json!({"worker": "w", "calls": ["x"]}), "/calls/0"),
        (json!({"worker": "w", "calls": vec!["01890000-0000-7000-8000-000000000000"; 1001]}), "/calls"),
    ] {
        let problem = app.post("/workers/q/heartbeat", &body).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    app.post("/workers/a%20b/claim", &json!({"worker": "w"})).await.problem(404);
    for (executor, pointer) in [
        (json!({"type": "worker"}), "/executor/queue"),
        (json!({"type": "worker", "queue": "a b"}), "/executor/queue"),
        (json!({"type": "worker", "queue": "q", "lease_ms": 999}), "/executor/lease_ms"),
        (json!({"type": "worker", "queue": "q", "lease": 1}), "/executor/lease"),
    ] {
        let definition = json!({"name": "x", "input_schema": {"type": "object"}, "executor": executor});
        let problem = app.post("/tools", &definition).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
}
