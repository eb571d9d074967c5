//! Approvals that count for the rest of a session.

use serde_json::{Value, json};

use super::{decide, gated, open, waiting_with};
use crate::support::calls::id_of;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Client};

fn body(amount: u32) -> Value {
    json!({"name": "pay", "arguments": {"amount": amount}, "session": "s"})
}

/// Starts a service with a call that was approved for the rest of its session.
async fn approved(backend: Backend) -> (App, Value) {
    let app = open(backend).await;
    gated(&app, "pay", json!({})).await;
    let call = waiting_with(&app, body(1)).await;
    decide(&app, &call, "approve", json!({"remember": "session"})).await.ok();
    succeeded(&app.ended(&id_of(&call)).await);
    (app, call)
}

async fn runs_at_once(client: &Client) -> Value {
    let call = client.post("/tool-calls", &body(1)).await.ok();
    succeeded(&call);
    call
}

on_both_databases!(
    async fn remembered_approval_survives_a_restart(backend: Backend) {
        let (app, first) = approved(backend).await;
        let app = app.restart().await;
        let again = runs_at_once(&app).await;
        assert_eq!(again["approval"]["digest"], first["approval"]["digest"]);
        let decisions = again["approval"]["decisions"].as_array().unwrap();
        assert_eq!((decisions.len(), &decisions[0]["decision"]), (1, &json!("approve")));
    }
);

on_both_databases!(
    async fn remembered_approval_ends_with_a_change_of_the_tool(backend: Backend) {
        let (app, _) = approved(backend).await;
        runs_at_once(&app).await;
        let mut changed = app.get("/tools/pay").await.ok();
        changed["description"] = json!("Pays at once.");
        app.put("/tools/pay", &changed).await.ok();
        waiting_with(&app, body(1)).await;
    }
);

on_both_databases!(
    async fn remembered_approval_ends_with_its_session(backend: Backend) {
        let (app, _) = approved(backend).await;
        runs_at_once(&app).await;
        assert_eq!(app.delete("/sessions/s").await.status, 204);
        waiting_with(&app, body(1)).await;
    }
);

on_both_databases!(
    async fn call_with_a_remembered_approval_is_decided(backend: Backend) {
        let (app, _) = approved(backend).await;
        let call = runs_at_once(&app).await;
        let late = decide(&app, &call, "approve", json!({})).await.problem(409);
        assert_eq!(late["code"], "APPROVAL_DECIDED");
    }
);

on_both_databases!(
    async fn approval_without_remember_counts_once(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting_with(&app, body(1)).await;
        decide(&app, &call, "approve", json!({})).await.ok();
        app.ended(&id_of(&call)).await;
        waiting_with(&app, body(1)).await;
    }
);

on_both_databases!(
    async fn remembered_edit_counts_for_the_new_arguments(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting_with(&app, body(2)).await;
        let edit = json!({"arguments": {"amount": 1}, "remember": "session"});
        decide(&app, &call, "approve", edit).await.ok();
        app.ended(&id_of(&call)).await;
        runs_at_once(&app).await;
        waiting_with(&app, body(2)).await;
    }
);
