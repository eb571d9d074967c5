//! Calls that a waiting worker claims in the commit that accepts them.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{brief_idempotent, called, claim, claim_now, claim_one, claim_with, finish, finish_in_time, tool};
use crate::support::calls::{assert_counts, id_of};
use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::loss::Loss;
use crate::support::pg_proxy::statements::Statements;
use crate::support::shapes::{failed, succeeded};
use crate::support::stall::Stall;
use crate::support::{App, Backend, Database, Options, eventually};

/// Claims in the background. Returns once the service has seen the worker, whose claim then waits.
async fn waiting(app: &App, worker: &str) -> JoinHandle<Vec<Value>> {
    let (client, name) = ((**app).clone(), worker.to_owned());
    let claiming = tokio::spawn(async move { claim(&client, &name, 8).await });
    waits(app, worker).await;
    claiming
}

/// Waits until the service has seen a worker.
async fn waits(app: &App, worker: &str) {
    eventually("the worker", async || {
        let listed = app.get("/workers").await.ok();
        listed["workers"].as_array().unwrap().iter().any(|one| one["worker"] == worker).then_some(())
    })
    .await;
}

/// Starts a service with the tool `t`, whose queue is known to be empty, so that calls go to waiting workers directly.
async fn service(url: String, patience_ms: Option<u64>, more: Value) -> App {
    let app = App::start_at(url, Options { patience_ms, ..Options::default() }).await;
    tool(&app, more).await;
    assert_eq!(claim_now(&app, "first").await, Vec::<Value>::new());
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn one_commit_accepts_a_call_and_assigns_it_to_a_waiting_worker() {
    requires_postgres!();
    let (database, statements) = (Database::fresh(Backend::Postgres).await, Statements::new());
    let proxy = PgProxy::recording(&database.url, &statements);
    let app = App::start_at(proxy.url().to_owned(), Options::default()).await;
    // Once a node receives signals, it forgets which queues are empty, and then shows that it is present.
    eventually("signals of other nodes", async || {
        let texts = statements.texts();
        let listens = texts.iter().position(|text| text.contains("LISTEN"))?;
        texts[listens..].iter().any(|text| text.contains("pg_notify")).then_some(())
    })
    .await;
    tool(&app, json!({})).await;
    assert_eq!(claim_now(&app, "first").await, Vec::<Value>::new());
    let claiming = waiting(&app, "w").await;
    let answer = app.posted(json!({"name": "t"}));
    let calls = claiming.await.unwrap();
    finish(&app, &calls[0], &json!("done")).await;
    let ended = answer.await.unwrap().ok();
    assert_eq!((succeeded(&ended), &ended["id"], &ended["attempts"]), ("done", &calls[0]["id"], &json!(1)));
    let texts = statements.texts();
    let count = |text: &str| texts.iter().filter(|known| known.contains(text)).count();
    assert_eq!(count("SELECT journal_commit_with_claims("), 1);
    // The only claim is that of the worker that found the queue empty.
    assert_eq!((count("SELECT journal_commit_insert("), count("FROM claim_calls(")), (0, 1), "{texts:#?}");
    eventually("the deletion of its row", async || {
        let row = app.store().offer_of(id_of(&ended).parse().unwrap()).await.unwrap();
        row.is_none().then_some(())
    })
    .await;
}

on_both_databases!(
    async fn calls_of_one_commit_share_the_waiting_claims(backend: Backend) {
        let database = Database::fresh(backend).await;
        let app = service(database.url.clone(), None, json!({})).await;
        let claiming = waiting(&app, "w").await;
        let stall = Stall::begin(&app).await;
        let answers: Vec<_> = (0..10).map(|_| app.posted(json!({"name": "t"}))).collect();
        stall.holds(&app, 10).await;
        stall.end().await;
        let mut given = claiming.await.unwrap();
        while given.len() < 10 {
            given.extend(claim(&app, "other", 8).await);
        }
        let mut ids: Vec<String> = given.iter().map(id_of).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 10, "each call was given once");
        for call in &given {
            assert_eq!(call["attempt"], 1);
            finish(&app, call, &json!("done")).await;
        }
        for answer in answers {
            assert_eq!(succeeded(&answer.await.unwrap().ok()), "done");
        }
        assert_counts(&app.stats("t").await, json!({"execution_count": 10, "success_count": 10, "retry_count": 0}));
    }
);

on_both_databases!(
    async fn worker_never_gets_a_call_reported_as_unrecorded(backend: Backend) {
        let database = Database::fresh(backend).await;
        let app = service(database.url.clone(), Some(300), json!({})).await;
        let claiming = waiting(&app, "w").await;
        let stall = Stall::begin(&app).await;
        app.post("/tool-calls", &json!({"name": "t"})).await.problem(503);
        stall.end().await;
        let id = app.only("t").await;
        let late = app.ended(&id).await;
        assert_eq!(failed(&late, "OVERLOADED"), "Error: The call could not be recorded in time and was not run");
        assert_eq!((&late["started_at"], &late["attempts"]), (&json!(null), &json!(0)));
        // The claim waits on, and gets the next call.
        let next = called(&app, json!({})).await;
        let calls = claiming.await.unwrap();
        assert_eq!(calls.iter().map(id_of).collect::<Vec<_>>(), [next]);
        finish(&app, &calls[0], &json!("done")).await;
        let expected = json!({"execution_count": 1, "success_count": 1, "rejected_count": 1});
        app.ended(&id_of(&calls[0])).await;
        assert_counts(&app.stats("t").await, expected);
    }
);

on_both_databases!(
    async fn call_whose_worker_leaves_during_the_commit_goes_to_another(backend: Backend) {
        let database = Database::fresh(backend).await;
        let app = service(database.url.clone(), None, brief_idempotent()).await;
        let leaving = waiting(&app, "leaving").await;
        let stall = Stall::begin(&app).await;
        let answer = app.posted(json!({"name": "t"}));
        stall.holds(&app, 1).await;
        leaving.abort();
        stall.end().await;
        // At once, or when the lease of the other worker ends, if the service has answered that one.
        let call = claim_one(&app, "w").await;
        let attempt = finish_in_time(&app, "w", call, &json!("done")).await;
        let ended = answer.await.unwrap().ok();
        assert_eq!((succeeded(&ended), &ended["attempts"]), ("done", &json!(attempt)));
    }
);

on_both_databases!(
    async fn claim_is_answered_before_its_commit_is_finished(backend: Backend) {
        let database = Database::fresh(backend).await;
        let app = service(database.url.clone(), Some(60_000), json!({})).await;
        let claiming = {
            let client = (*app).clone();
            tokio::spawn(async move { claim_with(&client, "impatient", json!({"wait_ms": 1000})).await })
        };
        waits(&app, "impatient").await;
        let stall = Stall::begin(&app).await;
        let answer = app.posted(json!({"name": "t"}));
        stall.holds(&app, 1).await;
        let refused = claiming.await.unwrap();
        stall.end().await;
        // On a slow machine the claim ended before the call came.
        if refused.status == 200 {
            assert_eq!(refused.json, json!({"calls": []}));
        } else {
            refused.problem(503);
        }
        let call = claim_one(&app, "w").await;
        assert_eq!(call["attempt"], 1);
        finish(&app, &call, &json!("done")).await;
        assert_eq!(succeeded(&answer.await.unwrap().ok()), "done");
    }
);

on_both_databases!(
    async fn calls_with_and_without_idempotency_keys_share_workers(backend: Backend) {
        let database = Database::fresh(backend).await;
        let app = service(database.url.clone(), None, json!({})).await;
        let working = {
            let client = (*app).clone();
            tokio::spawn(async move {
                let mut given = Vec::new();
                while given.len() < 32 {
                    let claimed = claim_with(&client, "w", json!({"max": 8, "wait_ms": 10_000})).await.ok();
                    for call in claimed["calls"].as_array().unwrap() {
                        finish(&client, call, &json!("done")).await;
                        given.push(id_of(call));
                    }
                }
                given
            })
        };
        let call = |number: usize| {
            let (client, key) = ((*app).clone(), format!("key {number}"));
            let headers = if number.is_multiple_of(2) { vec![] } else { vec![("idempotency-key", key)] };
            tokio::spawn(async move {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                client.post_with("/tool-calls", &headers, &json!({"name": "t"})).await
            })
        };
        let answers: Vec<_> = (0..32).map(call).collect();
        for answer in answers {
            assert_eq!(succeeded(&answer.await.unwrap().ok()), "done");
        }
        let mut given = working.await.unwrap();
        given.sort();
        given.dedup();
        assert_eq!(given.len(), 32);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_lost_acceptance_acknowledgement_is_assigned_once() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let loss = Loss::of_statements(7, 1, &["JOURNAL_COMMIT_WITH_CLAIMS"]);
    let proxy = PgProxy::losing(&database.url, &loss);
    let app = service(proxy.url().to_owned(), Some(60_000), json!({})).await;
    for round in 0..4 {
        let claiming = waiting(&app, &format!("w{round}")).await;
        let lost = loss.count();
        loss.switch(true);
        let answer = app.posted(json!({"name": "t"}));
        eventually("a lost acknowledgement", async || (loss.count() > lost).then_some(())).await;
        loss.switch(false);
        let calls = claiming.await.unwrap();
        assert_eq!((calls.len(), &calls[0]["attempt"]), (1, &json!(1)));
        assert_eq!(claim_now(&app, "another").await, Vec::<Value>::new());
        finish(&app, &calls[0], &json!("once")).await;
        let ended = answer.await.unwrap().ok();
        assert_eq!((succeeded(&ended), &ended["attempts"]), ("once", &json!(1)));
    }
}
