//! Arguments that an approver changes, and definitions that change while a call waits.

use serde_json::json;

use super::{Service, decide, gated, key, open, waiting};
use crate::support::calls::id_of;
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{Backend, eventually};

on_both_databases!(
    async fn approver_replaces_the_arguments(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting(&app, "pay", json!({"amount": 90})).await;
        let wrong = decide(&app, &call, "approve", json!({"arguments": {"amount": 1000}})).await.problem(422);
        points_at(&wrong, "/arguments/amount");
        let rejected = decide(&app, &call, "reject", json!({"arguments": {"amount": 9}})).await.problem(422);
        points_at(&rejected, "/arguments");
        let decided = decide(&app, &call, "approve", json!({"arguments": {"amount": "9"}})).await.ok();
        assert_ne!(decided["approval"]["digest"], call["approval"]["digest"]);
        let ended = app.ended(&id_of(&call)).await;
        assert_eq!(succeeded(&ended), r#"{"amount":9}"#);
        assert_eq!(
            (&ended["arguments"], &ended["effective_arguments"]),
            (&json!({"amount": 90}), &json!({"amount": 9}))
        );
        assert_eq!(ended["approval"], decided["approval"]);
    }
);

on_both_databases!(
    async fn edit_is_one_approval_and_others_approve_the_new_digest(backend: Backend) {
        let Service { _app, admin, caller, approver: first } = Service::start(backend).await;
        let (editor, _) = key(&admin, json!({"scopes": ["approve", "read"]})).await;
        gated(&caller, "pay", json!({"min_approvals": 2})).await;
        let call = waiting(&caller, "pay", json!({"amount": 90})).await;
        decide(&first, &call, "approve", json!({})).await.ok();
        let edited = decide(&editor, &call, "approve", json!({"arguments": {"amount": 9}})).await.ok();
        assert_eq!(edited["approval"]["status"], "pending");
        assert_eq!(edited["approval"]["decisions"].as_array().unwrap().len(), 1);
        assert_eq!(edited["effective_arguments"], json!({"amount": 9}));
        assert_eq!(decide(&first, &call, "approve", json!({})).await.problem(409)["code"], "APPROVAL_STALE");
        decide(&first, &edited, "approve", json!({})).await.ok();
        assert_eq!(succeeded(&caller.ended(&id_of(&call)).await), r#"{"amount":9}"#);
    }
);

on_both_databases!(
    async fn changed_definition_requests_a_new_approval(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting(&app, "pay", json!({"amount": 5})).await;
        let other = waiting(&app, "pay", json!({"amount": 50})).await;
        let schema = json!({"type": "object", "properties": {"amount": {"type": "integer", "maximum": 10}}});
        let changed = json!({"description": "Pays less.", "input_schema": schema, "approval": {},
            "executor": {"type": "builtin", "name": "echo"}});
        app.put("/tools/pay", &changed).await.ok();
        let path = format!("/tool-calls/{}", id_of(&call));
        let request = eventually("a new request", || async {
            let now = app.get(&path).await.ok();
            (now["approval"]["digest"] != call["approval"]["digest"]).then_some(now)
        });
        let request = request.await;
        assert_eq!((&request["phase"], &request["approval"]["status"]), (&json!("approval"), &json!("pending")));
        assert_eq!(decide(&app, &call, "approve", json!({})).await.problem(409)["code"], "APPROVAL_STALE");
        decide(&app, &request, "approve", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&call)).await);
        failed(&app.ended(&id_of(&other)).await, "TOOL_VALIDATION_ERROR");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_removed_tool_ends() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let call = waiting(&app, "pay", json!({})).await;
    assert_eq!(app.delete("/tools/pay").await.status, 204);
    failed(&app.ended(&id_of(&call)).await, "TOOL_NOT_FOUND");
    assert_eq!(app.get("/approvals").await.ok()["approvals"], json!([]));
}
