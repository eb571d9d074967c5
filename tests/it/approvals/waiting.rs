//! Calls while they wait: durable, in their turn, without clocks, and cancelled like any other.

use serde_json::{Value, json};

use super::{Service, decide, gated, key, open, waiting, waiting_with};
use crate::support::calls::{assert_counts, id_of};
use crate::support::shapes::{failed, is_time, succeeded};
use crate::support::sse::statuses;
use crate::support::{Backend, eventually};

on_both_databases!(
    async fn call_waits_for_its_approval_and_then_runs(backend: Backend) {
        let Service { _app, caller, approver, .. } = Service::start(backend).await;
        gated(&caller, "pay", json!({"required": true})).await;
        let response = caller.post("/tool-calls", &json!({"name": "pay", "arguments": {"amount": "5"}})).await;
        assert_eq!(response.status, 202);
        let call = response.json.clone();
        assert_eq!(response.header("location"), format!("/tool-calls/{}", id_of(&call)));
        let approval = &call["approval"];
        assert_eq!((&approval["status"], &approval["required_by"]), (&json!("pending"), &json!("tool")));
        assert_eq!((&approval["min_approvals"], &approval["decisions"]), (&json!(1), &json!([])));
        assert!(approval["digest"].as_str().unwrap().starts_with("sha256:"), "{approval}");
        assert!(is_time(&approval["requested_at"]) && is_time(&approval["expires_at"]));
        assert_eq!(caller.stored(&id_of(&call)).await["approval"], *approval);
        let decided = decide(&approver, &call, "approve", json!({"reason": "fine"})).await.ok();
        assert_eq!(decided["approval"]["status"], "approved");
        let ended = caller.ended(&id_of(&call)).await;
        assert_eq!(succeeded(&ended), r#"{"amount":5}"#);
        let decision = &ended["approval"]["decisions"][0];
        assert_eq!((&decision["decision"], &decision["reason"]), (&json!("approve"), &json!("fine")));
        assert!(is_time(&decision["at"]) && decision["by"].is_string());
        assert_counts(&caller.stats("pay").await, json!({"execution_count": 1, "success_count": 1}));
    }
);

on_both_databases!(
    async fn waiting_call_survives_a_restart_with_a_decision(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let (one, other) = (waiting(&app, "pay", json!({})).await, waiting(&app, "pay", json!({})).await);
        let app = app.restart().await;
        for call in [&one, &other] {
            assert_eq!(app.stored(&id_of(call)).await["approval"], call["approval"]);
        }
        decide(&app, &one, "approve", json!({})).await.ok();
        decide(&app, &other, "reject", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&one)).await);
        failed(&app.ended(&id_of(&other)).await, "APPROVAL_DENIED");
    }
);

on_both_databases!(
    async fn only_the_expiry_applies_while_a_call_waits(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({"expires_ms": 60_000})).await;
        gated(&app, "soon", json!({"expires_ms": 1})).await;
        let limits = json!({"queue_timeout_ms": 1, "timeout_ms": 20_000});
        let call = waiting_with(&app, json!({"name": "pay", "limits": limits})).await;
        let body = json!({"name": "soon", "wait": "result"});
        let expired = app.post("/tool-calls", &body).await.ok();
        assert_eq!(failed(&expired, "APPROVAL_EXPIRED"), "Error: Tool call \"soon\" was not approved in time");
        assert_eq!(expired["approval"]["status"], "expired");
        assert_counts(&app.stats("soon").await, json!({"execution_count": 0, "rejected_count": 1}));
        decide(&app, &call, "approve", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&call)).await);
    }
);

on_both_databases!(
    async fn cancelled_call_cannot_be_approved(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting(&app, "pay", json!({})).await;
        app.cancel(&id_of(&call)).await;
        failed(&app.ended(&id_of(&call)).await, "CANCELLED");
        let late = decide(&app, &call, "approve", json!({})).await.problem(409);
        assert_eq!(late["code"], "APPROVAL_DECIDED");
        assert_eq!(app.get("/approvals").await.ok()["approvals"], json!([]));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn waiting_caller_gets_the_result() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let posted = app.posted(json!({"name": "pay", "wait": "result"}));
    let seen = || async { app.get("/approvals").await.ok()["approvals"].as_array()?.first().cloned() };
    let call = eventually("the approval", seen).await;
    decide(&app, &call, "approve", json!({})).await.ok();
    let response = posted.await.unwrap();
    assert_eq!(response.status, 200);
    succeeded(&response.ok());
    let call = app.post("/tool-calls", &json!({"name": "pay", "wait": 50})).await;
    assert_eq!(call.status, 202);
    let id = id_of(&call.json);
    let phase = || async { (app.stored(&id).await["phase"] == "approval").then_some(()) };
    eventually("the approval of the second call", phase).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_keeps_its_position_in_a_batch() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let calls = json!([{"name": "calculate", "arguments": {"expression": "1+1"}}, {"name": "pay"},
        {"name": "calculate", "arguments": {"expression": "2+2"}}]);
    let response = app.post("/tool-calls", &json!({"calls": calls})).await;
    assert_eq!(response.status, 202, "{}", response.text());
    let results = response.json["results"].as_array().unwrap().clone();
    succeeded(&results[0]);
    assert_eq!((&results[1]["phase"], &results[2]["status"]), (&json!("approval"), &json!("WAIT")));
    decide(&app, &results[1], "approve", json!({})).await.ok();
    for result in &results {
        succeeded(&app.ended(&id_of(result)).await);
    }
    let ended: Vec<Value> = app.all_calls().await;
    assert!(ended[0]["started_at"].as_str() >= ended[1]["ended_at"].as_str(), "the third call ran after the second");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_an_approval_is_a_status_event() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let mut all = app.events("/approvals/events").await;
    let call = waiting(&app, "pay", json!({})).await;
    decide(&app, &call, "approve", json!({})).await.ok();
    app.ended(&id_of(&call)).await;
    let events = app.events(&format!("/tool-calls/{}/events", id_of(&call))).await.rest().await;
    assert_eq!(statuses(&events), ["WAIT", "DOING", "SUCCESS"]);
    let states: Vec<&Value> = events.iter().map(|event| &event.data["approval"]["status"]).collect();
    let mut states: Vec<&str> = states.into_iter().filter_map(Value::as_str).collect();
    states.dedup();
    assert_eq!(states, ["pending", "approved"]);
    let seen = all.until(|event| event.data["status"] == "SUCCESS").await;
    assert!(seen.iter().all(|event| event.event == "status" && event.data["approval"].is_object()), "{seen:#?}");
    assert_eq!(seen[0].data["phase"], "approval");
}

on_both_databases!(
    async fn each_decision_edit_and_expiry_is_a_status_event(backend: Backend) {
        let Service { _app, admin, caller, approver } = Service::start(backend).await;
        let (editor, _) = key(&admin, json!({"scopes": ["approve"]})).await;
        gated(&caller, "pay", json!({"min_approvals": 2})).await;
        gated(&caller, "soon", json!({"expires_ms": 1})).await;
        let call = waiting(&caller, "pay", json!({"amount": 5})).await;
        let path = format!("/tool-calls/{}/events", id_of(&call));
        let mut live = caller.events(&path).await;
        decide(&approver, &call, "approve", json!({})).await.ok();
        let edited = decide(&editor, &call, "approve", json!({"arguments": {"amount": 4}})).await.ok();
        decide(&approver, &edited, "approve", json!({})).await.ok();
        let live = live.rest().await;
        let mut seen: Vec<(Value, usize, bool)> = live
            .iter()
            .filter(|event| event.event == "status" && event.data["approval"].is_object())
            .map(|event| &event.data["approval"])
            .map(|one| {
                let is_first = one["digest"] == call["approval"]["digest"];
                (one["status"].clone(), one["decisions"].as_array().unwrap().len(), is_first)
            })
            .collect();
        seen.dedup();
        let (pending, approved) = (json!("pending"), json!("approved"));
        let expected =
            [(pending.clone(), 0, true), (pending.clone(), 1, true), (pending, 1, false), (approved, 2, false)];
        assert_eq!(seen, expected);
        let soon = caller.post("/tool-calls", &json!({"name": "soon", "wait": "result"})).await.ok();
        let events = caller.events(&format!("/tool-calls/{}/events", id_of(&soon))).await.rest().await;
        let last = events.iter().rfind(|event| event.event == "status").unwrap();
        assert_eq!((&last.data["status"], &last.data["approval"]["status"]), (&json!("ERROR"), &json!("expired")));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_finds_the_waiting_call() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let body = json!({"name": "pay"});
    let first = app.post_with("/tool-calls", &[("idempotency-key", "k")], &body).await;
    let again = app.post_with("/tool-calls", &[("idempotency-key", "k")], &body).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.json["id"], again.json["id"]);
}
