//! `POST /tool-calls/cancel`: many calls at once.

use serde_json::{Value, json};

use super::aborted;
use crate::support::calls::{has_ended, with};
use crate::support::{Answer, App, Backend, Client, HttpTool};

/// Starts a service with the tools `job` and `other`, which never answer.
async fn service(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
    for name in ["job", "other"] {
        app.tool(name, &server, json!({"async": true})).await;
    }
    (app, server)
}

async fn cancelled(client: &Client, filter: Value) -> u64 {
    client.post("/tool-calls/cancel", &filter).await.ok()["cancelled"].as_u64().unwrap()
}

async fn accepted(app: &App, more: Value) -> String {
    app.accepted(with(json!({"name": "job"}), more)).await
}

on_both_databases!(
    async fn calls_that_match_every_member_end(backend: Backend) {
        let (app, _server) = service(backend).await;
        let in_session = accepted(&app, json!({"session": "s"})).await;
        let other_tool = accepted(&app, json!({"name": "other", "session": "s"})).await;
        let outside = accepted(&app, json!({})).await;
        let batch = app.post("/tool-calls", &json!({"calls": [{"name": "job"}, {"name": "other"}]})).await;
        let batch_id = batch.json["batch_id"].as_str().unwrap();
        let of_batch: Vec<&str> =
            batch.json["results"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();

        assert_eq!(cancelled(&app, json!({"session": "s", "name": "job"})).await, 1);
        aborted(&app.ended(&in_session).await);
        assert_eq!(cancelled(&app, json!({"ids": [outside, in_session], "session": "s"})).await, 0);
        assert!(!has_ended(&app.stored(&outside).await));
        assert_eq!(cancelled(&app, json!({"batch_id": batch_id})).await, 2);
        for id in of_batch {
            aborted(&app.ended(id).await);
        }
        assert_eq!(cancelled(&app, json!({"name": "job"})).await, 1);
        aborted(&app.ended(&outside).await);
        assert!(!has_ended(&app.stored(&other_tool).await));
        let unknown = "0197a1b2-0000-7000-8000-000000000000";
        assert_eq!(cancelled(&app, json!({"ids": [other_tool, unknown, in_session]})).await, 1);
        aborted(&app.ended(&other_tool).await);
        assert_eq!(cancelled(&app, json!({"name": "other"})).await, 0);
    }
);

on_both_databases!(
    async fn more_calls_than_a_page_all_end(backend: Backend) {
        let (app, _server) = service(backend).await;
        let calls: Vec<Value> = (0..60).map(|_| json!({"name": "job"})).collect();
        for _ in 0..5 {
            let answer = app.post("/tool-calls", &json!({"calls": calls, "session": "many", "wait": "accepted"})).await;
            assert_eq!(answer.status, 202, "{}", answer.text());
        }
        assert_eq!(cancelled(&app, json!({"session": "many"})).await, 300);
        for call in app.all_calls().await {
            aborted(&app.ended(call["id"].as_str().unwrap()).await);
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_another_node_end() {
    requires_postgres!();
    let (app, server) = service(Backend::Postgres).await;
    let other = app.second().await;
    let id = accepted(&app, json!({"session": "s"})).await;
    server.received(1).await;
    assert_eq!(cancelled(&other, json!({"session": "s"})).await, 1);
    aborted(&app.ended(&id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_ends_only_calls_of_its_tools() {
    let (app, _server) = service(Backend::Sqlite).await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let admin = app.with_key(&admin);
    let (key, _) = admin.key(json!({"scopes": ["call"], "tools": ["other"]})).await;
    let ids = [
        admin.accepted(json!({"name": "job", "session": "s"})).await,
        admin.accepted(json!({"name": "other", "session": "s"})).await,
    ];
    assert_eq!(cancelled(&app.with_key(&key), json!({"session": "s", "ids": ids})).await, 1);
    aborted(&admin.ended(&ids[1]).await);
    assert!(!has_ended(&admin.stored(&ids[0]).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_matches_everything_is_rejected() {
    let (app, _server) = service(Backend::Sqlite).await;
    let id = accepted(&app, json!({})).await;
    for body in [json!({}), json!({"session": null})] {
        let problem = app.post("/tool-calls/cancel", &body).await.problem(422);
        let detail = problem["errors"][0]["message"].as_str().unwrap();
        assert!(detail.contains("`session`, `batch_id`, `name` or `ids`"), "{problem}");
    }
    for wrong in [json!({"tool": "job"}), json!({"ids": ["x"]}), json!({"session": "a\u{0}"}), json!([])] {
        app.post("/tool-calls/cancel", &wrong).await.problem(422);
    }
    let many = vec!["0197a1b2-0000-7000-8000-000000000000"; 1001];
    assert_eq!(
        app.post("/tool-calls/cancel", &json!({"ids": many})).await.problem(422)["errors"][0]["pointer"],
        "/ids"
    );
    assert!(!has_ended(&app.stored(&id).await));
}
