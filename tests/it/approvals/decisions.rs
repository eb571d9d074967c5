//! Who decides, and which of several decisions counts.

use futures_util::future::join_all;
use serde_json::json;

use super::{Service, decide, gated, key, open, waiting, waiting_with};
use crate::support::app::echo_tool;
use crate::support::calls::{assert_counts, id_of, with};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{App, Backend, Options};

on_both_databases!(
    async fn one_of_fifty_concurrent_decisions_wins(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let call = waiting(&app, "pay", json!({})).await;
        let decisions = (0..50).map(|at| decide(&app, &call, ["approve", "reject"][at % 2], json!({})));
        let responses = join_all(decisions).await;
        let won: Vec<_> = responses.iter().filter(|response| response.status == 200).collect();
        assert_eq!(won.len(), 1);
        let lost = responses.into_iter().filter(|response| response.status != 200);
        lost.for_each(|response| assert_eq!(response.problem(409)["code"], "APPROVAL_DECIDED"));
        let stats = || async { app.stats("pay").await };
        app.ended(&id_of(&call)).await;
        let stats = stats().await;
        let (ran, rejected) = (stats["execution_count"].as_u64().unwrap(), stats["rejected_count"].as_u64().unwrap());
        assert_eq!(ran + rejected, 1);
    }
);

on_both_databases!(
    async fn rejection_ends_the_call_with_its_reason(backend: Backend) {
        let Service { _app, caller, approver, .. } = Service::start(backend).await;
        gated(&caller, "pay", json!({"min_approvals": 3})).await;
        let call = waiting(&caller, "pay", json!({})).await;
        let decided = decide(&approver, &call, "reject", json!({"reason": "too much"})).await.ok();
        let text = "Error: Tool call \"pay\" was rejected: too much";
        assert_eq!(failed(&decided, "APPROVAL_DENIED"), text);
        assert_eq!(decided["approval"]["status"], "rejected");
        assert_eq!(caller.ended(&id_of(&call)).await["output"], text);
        let counts = json!({"execution_count": 0, "rejected_count": 1, "rejected_by_code": {"APPROVAL_DENIED": 1}});
        assert_counts(&caller.stats("pay").await, counts);
        let again = decide(&approver, &call, "approve", json!({})).await.problem(409);
        assert_eq!(again["code"], "APPROVAL_DECIDED");
    }
);

on_both_databases!(
    async fn distinct_people_must_approve(backend: Backend) {
        let Service { _app, admin, caller, approver } = Service::start(backend).await;
        let (second, _) = key(&admin, json!({"scopes": ["approve"]})).await;
        gated(&caller, "pay", json!({"min_approvals": 2})).await;
        let call = waiting(&caller, "pay", json!({})).await;
        for _ in 0..2 {
            let seen = decide(&approver, &call, "approve", json!({})).await.ok();
            assert_eq!((&seen["approval"]["status"], &seen["phase"]), (&json!("pending"), &json!("approval")));
        }
        let seen = decide(&second, &call, "approve", json!({})).await.ok();
        assert_eq!(seen["approval"]["status"], "approved");
        let ended = caller.ended(&id_of(&call)).await;
        succeeded(&ended);
        assert_eq!(ended["approval"]["decisions"].as_array().unwrap().len(), 2);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn approve_scope_is_required_and_self_approval_is_rejected() {
    let Service { _app, admin, caller, approver } = Service::start(Backend::Sqlite).await;
    gated(&caller, "pay", json!({})).await;
    let call = waiting(&caller, "pay", json!({})).await;
    assert_eq!(decide(&caller, &call, "approve", json!({})).await.problem(403)["code"], "SCOPE_MISSING");
    let (both, _) = key(&admin, json!({"scopes": ["call", "approve"]})).await;
    let own = waiting(&both, "pay", json!({})).await;
    assert_eq!(decide(&both, &own, "approve", json!({})).await.problem(403)["code"], "APPROVAL_SELF");
    assert_eq!(decide(&both, &own, "reject", json!({})).await.status, 200, "a caller may withdraw its call");
    assert_eq!(decide(&approver, &call, "approve", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn self_approval_is_allowed_by_a_setting() {
    let options = Options { configure: Some(|config| config.approvals.allow_self = true), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let (both, _) = key(&app, json!({"scopes": ["admin"]})).await;
    gated(&both, "pay", json!({})).await;
    let own = waiting(&both, "pay", json!({})).await;
    decide(&both, &own, "approve", json!({})).await.ok();
    succeeded(&both.ended(&id_of(&own)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_seen_digest_is_approved() {
    let app = open(Backend::Sqlite).await;
    gated(&app, "pay", json!({})).await;
    let (call, other) = (waiting(&app, "pay", json!({"amount": 1})).await, waiting(&app, "pay", json!({})).await);
    let body = json!({"decision": "approve", "digest": other["approval"]["digest"]});
    let path = format!("/tool-calls/{}/approval", id_of(&call));
    assert_eq!(app.post(&path, &body).await.problem(409)["code"], "APPROVAL_STALE");
    points_at(&app.post(&path, &json!({"decision": "maybe", "digest": "x"})).await.problem(422), "/decision");
    app.post(&path, &json!({"decision": "approve"})).await.problem(422);
    let plain = app.call("echo", json!({})).await;
    let digest = json!({"decision": "approve", "digest": "x"});
    let path = format!("/tool-calls/{}/approval", id_of(&plain));
    assert_eq!(app.post(&path, &digest).await.problem(409)["code"], "APPROVAL_NOT_PENDING");
    app.post("/tool-calls/0197d3f0-0000-7000-8000-000000000000/approval", &digest).await.problem(404);
}

on_both_databases!(
    async fn remembered_approval_counts_in_its_session_for_the_same_digest(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        let body = |session: &str, amount| json!({"name": "pay", "arguments": {"amount": amount}, "session": session});
        let call = waiting_with(&app, body("a", 1)).await;
        decide(&app, &call, "approve", json!({"remember": "session"})).await.ok();
        app.ended(&id_of(&call)).await;
        let again = app.post("/tool-calls", &body("a", 1)).await.ok();
        succeeded(&again);
        assert_eq!(again["approval"]["status"], "approved");
        waiting_with(&app, body("a", 2)).await;
        waiting_with(&app, body("b", 1)).await;
        let alone = waiting(&app, "pay", json!({})).await;
        points_at(&decide(&app, &alone, "approve", json!({"remember": "session"})).await.problem(422), "/remember");
    }
);

/// Two integers that have the same double.
const NEIGHBOURS: [u64; 2] = [9_007_199_254_740_992, 9_007_199_254_740_993];

on_both_databases!(
    async fn remembered_approval_distinguishes_numbers_beyond_doubles(backend: Backend) {
        let app = open(backend).await;
        app.register(with(echo_tool("send", json!({"type": "object"})), json!({"approval": {"required": true}}))).await;
        let body = |account| json!({"name": "send", "arguments": {"account": account}, "session": "a"});
        let call = waiting_with(&app, body(NEIGHBOURS[1])).await;
        decide(&app, &call, "approve", json!({"remember": "session"})).await.ok();
        assert_eq!(succeeded(&app.ended(&id_of(&call)).await), r#"{"account":9007199254740993}"#);
        let other = waiting_with(&app, body(NEIGHBOURS[0])).await;
        assert_ne!(other["approval"]["digest"], call["approval"]["digest"]);
        // An edit between the two is an edit.
        let edited = decide(&app, &other, "approve", json!({"arguments": {"account": NEIGHBOURS[1]}})).await.ok();
        assert_eq!(edited["approval"]["digest"], call["approval"]["digest"]);
        assert_eq!(succeeded(&app.ended(&id_of(&other)).await), r#"{"account":9007199254740993}"#);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn only_a_complete_approval_by_others_is_remembered() {
    let Service { _app, admin, caller, approver } = Service::start(Backend::Sqlite).await;
    let (both, _) = key(&admin, json!({"scopes": ["call", "approve"]})).await;
    gated(&caller, "pay", json!({"min_approvals": 2})).await;
    gated(&caller, "mail", json!({})).await;
    let body = |name: &str| json!({"name": name, "session": "s"});
    let call = waiting_with(&caller, body("pay")).await;
    let seen = decide(&approver, &call, "approve", json!({"remember": "session"})).await.ok();
    assert_eq!(seen["approval"]["status"], "pending");
    waiting_with(&caller, body("pay")).await;
    decide(&both, &call, "approve", json!({"remember": "session"})).await.ok();
    let again = caller.post("/tool-calls", &body("pay")).await.ok();
    assert_eq!(again["approval"]["decisions"].as_array().unwrap().len(), 2);
    let mail = waiting_with(&caller, body("mail")).await;
    decide(&both, &mail, "approve", json!({"remember": "session"})).await.ok();
    caller.ended(&id_of(&mail)).await;
    waiting_with(&both, body("mail")).await;
    succeeded(&caller.post("/tool-calls", &body("mail")).await.ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_on_another_node_reaches_the_call() {
    requires_postgres!();
    let one = open(Backend::Postgres).await;
    let other = one.second().await;
    gated(&one, "pay", json!({})).await;
    let call = waiting(&one, "pay", json!({})).await;
    let decided = decide(&other, &call, "approve", json!({})).await.ok();
    assert_eq!(decided["approval"]["status"], "approved");
    succeeded(&other.ended(&id_of(&call)).await);
}
