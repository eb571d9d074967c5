//! Definitions that change while calls wait, and what a digest contains.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Service, decide, gated, key, open, waiting};
use crate::support::calls::id_of;
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{Backend, Client, eventually};

/// Builds the definition with another limit and a property with a default.
fn changed() -> Value {
    let properties = json!({"amount": {"type": "integer"}, "currency": {"type": "string", "default": "EUR"}});
    json!({"description": "Pays.", "input_schema": {"type": "object", "properties": properties}, "approval": {},
        "executor": {"type": "builtin", "name": "echo"}})
}

/// Waits until approval was requested again.
async fn new_request(client: &Client, call: &Value) -> Value {
    let request = eventually("a new request", || async {
        let now = client.stored(&id_of(call)).await;
        (now["approval"]["digest"] != call["approval"]["digest"]).then_some(now)
    });
    request.await
}

on_both_databases!(
    async fn digest_is_the_hash_of_arguments_name_and_revision(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let revision = app.get("/tools/pay").await.ok()["revision"].clone();
        let call = waiting(&app, "pay", json!({"z": "é", "amount": "5", "a": 1.50})).await;
        let canonical = format!(r#"{{"arguments":{{"a":1.5,"amount":5,"z":"é"}},"name":"pay","revision":{revision}}}"#);
        let hash = Sha256::digest(canonical.as_bytes());
        let expected = hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(call["approval"]["digest"], expected);
    }
);

on_both_databases!(
    async fn change_voids_earlier_approvals(backend: Backend) {
        let Service { _app, admin, caller, approver } = Service::start(backend).await;
        let (second, _) = key(&admin, json!({"scopes": ["approve"]})).await;
        gated(&caller, "pay", json!({"min_approvals": 2})).await;
        let call = waiting(&caller, "pay", json!({"amount": 5})).await;
        decide(&approver, &call, "approve", json!({})).await.ok();
        let two = crate::support::calls::with(changed(), json!({"approval": {"min_approvals": 2}}));
        caller.put("/tools/pay", &two).await.ok();
        let request = new_request(&caller, &call).await;
        assert_eq!(
            (&request["approval"]["status"], &request["approval"]["decisions"]),
            (&json!("pending"), &json!([]))
        );
        assert_eq!(decide(&second, &call, "approve", json!({})).await.problem(409)["code"], "APPROVAL_STALE");
        decide(&second, &request, "approve", json!({})).await.ok();
        decide(&approver, &request, "approve", json!({})).await.ok();
        assert_eq!(succeeded(&caller.ended(&id_of(&call)).await), r#"{"amount":5,"currency":"EUR"}"#);
    }
);

on_both_databases!(
    async fn edited_arguments_of_a_changed_tool_match_its_digest(backend: Backend) {
        let Service { _app, admin, caller, approver } = Service::start(backend).await;
        let (editor, _) = key(&admin, json!({"scopes": ["approve"]})).await;
        gated(&caller, "pay", json!({"min_approvals": 2})).await;
        let call = waiting(&caller, "pay", json!({"amount": 90})).await;
        let edited = decide(&editor, &call, "approve", json!({"arguments": {"amount": 9}})).await.ok();
        caller.put("/tools/pay", &changed()).await.ok();
        let request = new_request(&caller, &edited).await;
        assert_eq!(request["effective_arguments"], json!({"amount": 9, "currency": "EUR"}));
        decide(&approver, &request, "approve", json!({})).await.ok();
        let ended = caller.ended(&id_of(&call)).await;
        assert_eq!(succeeded(&ended), r#"{"amount":9,"currency":"EUR"}"#);
        assert_eq!(ended["approval"]["digest"], request["approval"]["digest"]);
    }
);

on_both_databases!(
    async fn approval_right_after_a_change_is_stale(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        for amount in 0..5 {
            let call = waiting(&app, "pay", json!({"amount": amount})).await;
            let next = crate::support::calls::with(changed(), json!({"description": format!("Version {amount}.")}));
            app.put("/tools/pay", &next).await.ok();
            assert_eq!(decide(&app, &call, "approve", json!({})).await.problem(409)["code"], "APPROVAL_STALE");
            let request = new_request(&app, &call).await;
            decide(&app, &request, "approve", json!({})).await.ok();
            succeeded(&app.ended(&id_of(&call)).await);
        }
    }
);

on_both_databases!(
    async fn change_while_no_node_runs_requests_a_new_approval(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting(&app, "pay", json!({"amount": 5})).await;
        app.put("/tools/pay", &changed()).await.ok();
        let app = app.restart().await;
        let request = new_request(&app, &call).await;
        assert_eq!(decide(&app, &call, "approve", json!({})).await.problem(409)["code"], "APPROVAL_STALE");
        decide(&app, &request, "approve", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&call)).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn change_on_another_node_requests_a_new_approval() {
    requires_postgres!();
    let one = open(Backend::Postgres).await;
    let other = one.second().await;
    gated(&one, "pay", json!({})).await;
    let call = waiting(&one, "pay", json!({"amount": 5})).await;
    eventually("the tool", || async { (other.get("/tools/pay").await.status == 200).then_some(()) }).await;
    other.put("/tools/pay", &changed()).await.ok();
    let request = new_request(&other, &call).await;
    let edit = json!({"arguments": {"amount": 7, "currency": "USD"}});
    decide(&other, &request, "approve", edit).await.ok();
    assert_eq!(succeeded(&one.ended(&id_of(&call)).await), r#"{"amount":7,"currency":"USD"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_call_is_requested_again_even_if_the_changed_tool_needs_no_approval() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let call = waiting(&app, "pay", json!({"amount": 5})).await;
    let free = crate::support::calls::with(changed(), json!({"approval": null}));
    app.put("/tools/pay", &free).await.ok();
    let request = new_request(&app, &call).await;
    assert_eq!(request["phase"], "approval");
    decide(&app, &request, "reject", json!({})).await.ok();
    failed(&app.ended(&id_of(&call)).await, "APPROVAL_DENIED");
    succeeded(&app.call("pay", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_of_another_shape_are_rejected() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let call = waiting(&app, "pay", json!({"amount": 5})).await;
    for (more, pointer) in [
        (json!({"reason": "x".repeat(2001)}), "/reason"),
        (json!({"remember": "forever"}), "/remember"),
        (json!({"until": "tomorrow"}), "/until"),
        (json!({"arguments": {"amount": "much"}}), "/arguments/amount"),
        (json!({"arguments": [1]}), "/arguments"),
    ] {
        points_at(&decide(&app, &call, "approve", more).await.problem(422), pointer);
    }
    assert_eq!(app.stored(&id_of(&call)).await["approval"], call["approval"]);
}
