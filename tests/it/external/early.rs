//! Results of calls that have not started: they are kept until the call starts.

use serde_json::json;

use super::{answer, call_external, post_result, service};
use crate::nodes::pair;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Client, eventually};

/// Accepts three calls of which one runs and two wait: one in the queue, and one for an earlier call of its batch.
async fn waiting(client: &Client) -> [String; 2] {
    let calls: Vec<_> = (0..2).map(|n| json!({"name": "ask", "arguments": {"n": n}})).collect();
    let batch = client.post("/tool-calls", &json!({"calls": calls, "mode": "serial", "wait": "accepted"})).await;
    assert_eq!(batch.status, 202, "{}", batch.text());
    let ids = [0, 1].map(|n: usize| batch.json["results"][n]["id"].as_str().unwrap().to_owned());
    client.in_phase(&ids[0], "external").await;
    assert_eq!(client.stored(&ids[1]).await["status"], "WAIT");
    ids
}

/// Posts the result of a waiting call at `poster`, and ends the call before it at `owner`.
async fn keeps(owner: &Client, poster: &Client) {
    let [first, second] = waiting(owner).await;
    let receipt = post_result(poster, &second, &json!("early")).await.ok();
    assert_eq!((&receipt["ignored"], &receipt["status"]), (&json!(false), &json!("WAIT")));
    assert_eq!(post_result(poster, &second, &json!("later")).await.ok()["ignored"], true);
    assert_eq!(post_result(owner, &second, &json!("early")).await.ok()["ignored"], false, "a repeated request");
    assert_eq!(post_result(owner, &first, &json!("first")).await.ok()["ignored"], false);
    assert_eq!(succeeded(&owner.ended(&first).await), "first");
    assert_eq!(succeeded(&owner.ended(&second).await), "early");
}

on_both_databases!(
    async fn waiting_call_keeps_its_result(backend: Backend) {
        let app = service(backend, json!({})).await;
        keeps(&app, &app).await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn waiting_call_keeps_the_result_received_by_another_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})).await;
    eventually("the tool", async || (other.get("/tools/ask").await.status == 200).then_some(())).await;
    keeps(&one, &other).await;
}

on_both_databases!(
    async fn queued_call_keeps_its_result(backend: Backend) {
        let app = service(backend, json!({"limits": {"max_concurrency": 1}})).await;
        let running = call_external(&app).await;
        let waiting = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
        assert_eq!(app.stored(&waiting).await["phase"], "queued");
        answer(&app, &waiting, &json!("early")).await;
        assert_eq!(app.stored(&waiting).await["status"], "WAIT");
        answer(&app, &running, &json!("one")).await;
        assert_eq!(succeeded(&app.ended(&waiting).await), "early");
    }
);

on_both_databases!(
    async fn cancelled_call_keeps_its_received_result(backend: Backend) {
        let app = service(backend, json!({})).await;
        let [_, second] = waiting(&app).await;
        assert_eq!(post_result(&app, &second, &json!("early")).await.ok()["ignored"], false);
        app.cancel(&second).await;
        let call = app.ended(&second).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("early", &json!(1)));
    }
);

on_both_databases!(
    async fn result_of_a_call_that_needs_an_approval_is_rejected(backend: Backend) {
        let app = service(backend, json!({"approval": {"required": true}})).await;
        let id = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
        app.in_phase(&id, "approval").await;
        let problem = post_result(&app, &id, &json!("too early")).await;
        assert_eq!((problem.status, &problem.json["code"]), (409, &json!("RESULT_NOT_AWAITED")));
        assert!(problem.text().contains("approval"), "{}", problem.text());
        app.cancel(&id).await;
        failed(&app.ended(&id).await, "CANCELLED");
    }
);
