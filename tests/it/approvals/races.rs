//! Decisions that compete with each other, with a cancellation and with the expiry: exactly one wins.

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolpost::domain::{Clock, Time};

use super::{Service, decide, gated, key, open, waiting};
use crate::support::calls::{assert_counts, id_of};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Client, Options};

/// Number of calls in each race.
const CALLS: usize = 12;

/// Makes calls that wait.
async fn many(client: &Client, name: &str) -> Vec<Value> {
    join_all((0..CALLS).map(|amount| waiting(client, name, json!({"amount": amount})))).await
}

on_both_databases!(
    async fn as_many_of_fifty_concurrent_approvals_count_as_are_required(backend: Backend) {
        let Service { _app, admin, caller, .. } = Service::start(backend).await;
        gated(&caller, "pay", json!({"min_approvals": 3})).await;
        let keys = join_all((0..50).map(|_| key(&admin, json!({"scopes": ["approve"]})))).await;
        let call = waiting(&caller, "pay", json!({})).await;
        let responses = join_all(keys.iter().map(|(approver, _)| decide(approver, &call, "approve", json!({})))).await;
        let (won, lost): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == 200);
        assert_eq!(won.len(), 3);
        lost.into_iter().for_each(|response| assert_eq!(response.problem(409)["code"], "APPROVAL_DECIDED"));
        let ended = caller.ended(&id_of(&call)).await;
        succeeded(&ended);
        let by = ended["approval"]["decisions"].as_array().unwrap().iter().map(|one| one["by"].as_str().unwrap());
        assert_eq!(by.collect::<std::collections::BTreeSet<_>>().len(), 3);
    }
);

on_both_databases!(
    async fn approval_and_cancellation_have_one_winner(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        for call in many(&app, "pay").await {
            let id = id_of(&call);
            let (decided, _) = tokio::join!(decide(&app, &call, "approve", json!({})), app.cancel(&id));
            let ended = app.ended(&id).await;
            if decided.status == 200 {
                // The cancellation came after the decision, and possibly before the run.
                assert_eq!(ended["approval"]["status"], "approved", "{ended:#}");
            } else {
                assert_eq!(decided.problem(409)["code"], "APPROVAL_DECIDED");
                failed(&ended, "CANCELLED");
                assert_eq!((&ended["started_at"], &ended["approval"]["status"]), (&Value::Null, &json!("pending")));
            }
        }
    }
);

on_both_databases!(
    async fn acknowledged_rejection_is_not_replaced_by_a_cancellation(backend: Backend) {
        let app = open(backend).await;
        gated(&app, "pay", json!({})).await;
        for call in many(&app, "pay").await {
            let id = id_of(&call);
            let (decided, _) = tokio::join!(decide(&app, &call, "reject", json!({})), app.cancel(&id));
            let ended = app.ended(&id).await;
            if decided.status == 200 {
                failed(&ended, "APPROVAL_DENIED");
                assert_eq!(ended["approval"]["status"], "rejected");
            } else {
                assert_eq!(decided.problem(409)["code"], "APPROVAL_DECIDED");
                failed(&ended, "CANCELLED");
            }
        }
        assert_counts(&app.stats("pay").await, json!({"execution_count": 0, "rejected_count": CALLS}));
    }
);

on_both_databases!(
    async fn approval_and_expiry_have_one_winner(backend: Backend) {
        let clock = Clock::manual(Time(1_767_225_600_000_000));
        let app = App::start_with(backend, Options { clock: Some(clock.clone()), ..Options::default() }).await;
        gated(&app, "pay", json!({"expires_ms": 40})).await;
        let calls = many(&app, "pay").await;
        let decisions = calls.iter().enumerate().map(|(at, call)| {
            let (app, clock) = (&app, &clock);
            async move {
                if at == CALLS / 2 {
                    clock.advance_ms(40);
                }
                (call, decide(app, call, "approve", json!({})).await)
            }
        });
        for (call, decided) in join_all(decisions).await {
            let ended = app.ended(&id_of(call)).await;
            if decided.status == 200 {
                succeeded(&ended);
            } else {
                assert_eq!(decided.problem(409)["code"], "APPROVAL_DECIDED");
                failed(&ended, "APPROVAL_EXPIRED");
                assert_eq!(ended["approval"]["status"], "expired");
            }
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn one_of_concurrent_decisions_on_several_nodes_wins() {
    requires_postgres!();
    let one = open(Backend::Postgres).await;
    let other = one.second().await;
    gated(&one, "pay", json!({})).await;
    for call in many(&one, "pay").await {
        let decisions = [&one, &other, &one, &other].into_iter().enumerate();
        let decisions = decisions.map(|(at, node)| decide(node, &call, ["approve", "reject"][at / 2], json!({})));
        let responses = join_all(decisions).await;
        let won: Vec<usize> = (0..4).filter(|at| responses[*at].status == 200).collect();
        assert_eq!(won.len(), 1, "{won:?}");
        let ended = other.ended(&id_of(&call)).await;
        match won[0] / 2 {
            0 => assert_eq!(ended["status"], "SUCCESS"),
            _ => drop(failed(&ended, "APPROVAL_DENIED")),
        }
    }
}
