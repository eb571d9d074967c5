//! The clock of an approval. No other clock runs while a call waits.

use serde_json::json;
use toolpost::domain::{Clock, Time};

use super::{decide, gated, waiting, waiting_with};
use crate::support::calls::{assert_counts, id_of, with};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options, eventually};

const START: i64 = 1_767_225_600_000_000;
const HOUR_MS: i64 = 3_600_000;

/// Starts a service whose clock moves only when the test moves it.
async fn frozen(backend: Backend) -> (App, Clock) {
    let clock = Clock::manual(Time(START));
    (App::start_with(backend, Options { clock: Some(clock.clone()), ..Options::default() }).await, clock)
}

on_both_databases!(
    async fn approval_can_be_decided_until_its_expiry(backend: Backend) {
        let (app, clock) = frozen(backend).await;
        gated(&app, "pay", json!({})).await;
        let (early, late) = (waiting(&app, "pay", json!({})).await, waiting(&app, "pay", json!({})).await);
        assert_eq!(early["approval"]["requested_at"], "2026-01-01T00:00:00.000Z");
        assert_eq!(early["approval"]["expires_at"], "2026-01-01T01:00:00.000Z");
        clock.advance_ms(HOUR_MS - 1);
        decide(&app, &early, "approve", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&early)).await);
        clock.advance_ms(1);
        let refused = decide(&app, &late, "approve", json!({})).await.problem(409);
        assert_eq!(refused["code"], "APPROVAL_DECIDED");
    }
);

on_both_databases!(
    async fn call_ends_at_its_expiry(backend: Backend) {
        let (app, clock) = frozen(backend).await;
        gated(&app, "soon", json!({"expires_ms": 30})).await;
        let call = waiting(&app, "soon", json!({})).await;
        clock.advance_ms(29);
        assert_eq!(app.stored(&id_of(&call)).await["phase"], "approval");
        clock.advance_ms(1);
        let ended = app.ended(&id_of(&call)).await;
        failed(&ended, "APPROVAL_EXPIRED");
        assert_eq!((&ended["approval"]["status"], &ended["approval"]["decisions"]), (&json!("expired"), &json!([])));
        let expired = app.get("/approvals?status=expired").await.ok();
        assert_eq!(expired["approvals"][0]["id"], call["id"]);
        let counts = json!({"execution_count": 0, "rejected_count": 1, "rejected_by_code": {"APPROVAL_EXPIRED": 1}});
        assert_counts(&app.stats("soon").await, counts);
    }
);

on_both_databases!(
    async fn approval_expires_while_no_node_runs(backend: Backend) {
        let (app, clock) = frozen(backend).await;
        gated(&app, "pay", json!({})).await;
        let (open, over) = (waiting(&app, "pay", json!({})).await, waiting(&app, "pay", json!({})).await);
        clock.advance_ms(HOUR_MS / 2);
        let app = app.restart().await;
        decide(&app, &open, "approve", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&open)).await);
        clock.advance_ms(HOUR_MS / 2);
        let app = app.restart().await;
        failed(&app.ended(&id_of(&over)).await, "APPROVAL_EXPIRED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn another_node_expires_approvals_of_a_stopped_node() {
    requires_postgres!();
    let (app, clock) = frozen(Backend::Postgres).await;
    gated(&app, "pay", json!({})).await;
    let call = waiting(&app, "pay", json!({})).await;
    let other = app.second().await;
    let app = app.restart().await;
    clock.advance_ms(HOUR_MS);
    drop(app);
    failed(&other.ended(&id_of(&call)).await, "APPROVAL_EXPIRED");
}

on_both_databases!(
    async fn other_timeouts_are_suspended_while_a_call_waits(backend: Backend) {
        let (app, clock) = frozen(backend).await;
        gated(&app, "pay", json!({})).await;
        let limits = json!({"timeout_ms": 1000, "idle_timeout_ms": 1000, "queue_timeout_ms": 1000});
        let call = waiting_with(&app, json!({"name": "pay", "limits": limits})).await;
        clock.advance_ms(HOUR_MS - 1);
        decide(&app, &call, "approve", json!({})).await.ok();
        succeeded(&app.ended(&id_of(&call)).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn old_remembered_decision_does_not_consume_the_queue_timeout() {
    let (app, clock) = frozen(Backend::Sqlite).await;
    let limits = json!({"queue_timeout_ms": 60_000, "max_concurrency": 1});
    let definition = json!({"name": "slow", "description": "", "input_schema": {"type": "object"}, "limits": limits,
        "executor": {"type": "external"}, "approval": {}});
    app.register(definition).await;
    let body = |session: &str| json!({"name": "slow", "session": session, "limits": {"queue_timeout_ms": 60_000}});
    let first = waiting_with(&app, body("s")).await;
    decide(&app, &first, "approve", json!({"remember": "session"})).await.ok();
    app.in_phase(&id_of(&first), "external").await;
    clock.advance_ms(10 * 60_000);
    let next = app.post("/tool-calls", &with(body("s"), json!({"wait": "accepted"}))).await;
    let approved = || async {
        let call = app.stored(&id_of(&next.json)).await;
        (call["phase"] == "queued" && call["approval"]["status"] == "approved").then_some(())
    };
    eventually("the remembered approval", approved).await;
    app.post(&format!("/tool-calls/{}/result", id_of(&first)), &json!("done")).await.ok();
    app.in_phase(&id_of(&next.json), "external").await;
}
