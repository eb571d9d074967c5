//! Many workers at once: each call is given to one of them.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use super::{answer, called, claim_one, claim_with, finish, service};
use crate::support::calls::assert_counts;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, eventually};

on_both_databases!(
    async fn exactly_one_worker_gets_each_call(backend: Backend) {
        const CALLS: usize = 100;
        let app = service(backend, json!({})).await;
        let stop = tokio_util::sync::CancellationToken::new();
        let mut ids = Vec::new();
        let calling = {
            let app = (*app).clone();
            tokio::spawn(async move {
                for n in 0..CALLS {
                    ids.push(called(&app, json!({"n": n})).await);
                }
                ids
            })
        };
        let workers: Vec<_> = (0..20)
            .map(|n| {
                let (app, stop) = ((*app).clone(), stop.clone());
                tokio::spawn(async move {
                    let mut got = Vec::new();
                    while !stop.is_cancelled() {
                        let more = json!({"max": 1 + n % 4, "wait_ms": 200});
                        let claimed = claim_with(&app, &format!("w{n}"), more).await.ok();
                        let calls = claimed["calls"].as_array().unwrap().clone();
                        for call in calls {
                            finish(&app, &call, &json!("ok")).await;
                            got.push(call["id"].clone());
                        }
                    }
                    got
                })
            })
            .collect();
        let ids = calling.await.unwrap();
        for id in &ids {
            assert_eq!(succeeded(&app.ended(id).await), "ok");
        }
        stop.cancel();
        let mut given: BTreeMap<String, usize> = BTreeMap::new();
        for worker in workers {
            for id in worker.await.unwrap() {
                *given.entry(Value::as_str(&id).unwrap().to_owned()).or_default() += 1;
            }
        }
        assert_eq!(given.len(), CALLS);
        assert!(given.values().all(|times| *times == 1), "{given:?}");
        assert_counts(
            &app.stats("t").await,
            json!({"execution_count": CALLS, "success_count": CALLS, "retry_count": 0}),
        );
    }
);

on_both_databases!(
    async fn first_of_two_results_counts(backend: Backend) {
        let app = service(backend, json!({})).await;
        for _ in 0..10 {
            let id = called(&app, json!({})).await;
            let call = claim_one(&app, "w").await;
            let post = |result: &'static str| {
                let (app, call) = ((*app).clone(), call.clone());
                tokio::spawn(async move { answer(&app, &call, &json!(result)).await })
            };
            let (one, other) = (post("one"), post("other"));
            let ignored = (one.await.unwrap(), other.await.unwrap());
            let ended = app.ended(&id).await;
            let expected = match ignored {
                (false, true) => "one",
                (true, false) => "other",
                both => panic!("exactly one counts: {both:?}"),
            };
            assert_eq!(succeeded(&ended), expected);
        }
    }
);

on_both_databases!(
    async fn result_and_cancellation_race_to_one_end(backend: Backend) {
        let app = service(backend, json!({})).await;
        for _ in 0..10 {
            let id = called(&app, json!({})).await;
            let call = claim_one(&app, "w").await;
            let posting = {
                let (app, call) = ((*app).clone(), call.clone());
                tokio::spawn(async move { answer(&app, &call, &json!("done")).await })
            };
            app.cancel(&id).await;
            let ignored = posting.await.unwrap();
            let ended = app.ended(&id).await;
            assert_eq!(ended["status"], if ignored { "ERROR" } else { "SUCCESS" }, "{ended:#}");
        }
    }
);

/// Gives the only offered call to a worker as another node does, whose signal is lost.
async fn claim_without_a_signal(app: &App) {
    const SQL: &str = "UPDATE worker_calls SET state = 1, worker = 'w', claimed_at = offered_at, \
        lease_until = offered_at + 600000";
    let url = app.database_url();
    let changed = if url.starts_with("sqlite:") {
        let options = SqliteConnectOptions::from_str(&url).unwrap();
        SqliteConnection::connect_with(&options).await.unwrap().execute(SQL).await.unwrap().rows_affected()
    } else {
        PgConnection::connect(&url).await.unwrap().execute(SQL).await.unwrap().rows_affected()
    };
    assert_eq!(changed, 1);
}

on_both_databases!(
    async fn cancelled_call_that_a_worker_held_counts_as_run(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = called(&app, json!({})).await;
        eventually("the offer", async || {
            let queues = app.get("/workers").await.ok()["queues"].clone();
            (queues[0]["waiting"] == 1).then_some(())
        })
        .await;
        claim_without_a_signal(&app).await;
        app.cancel(&id).await;
        let ended = app.ended(&id).await;
        failed(&ended, "CANCELLED");
        assert!(ended["started_at"].is_string(), "{ended:#}");
        assert_eq!(ended["attempts"], 1);
        assert_counts(&app.stats("t").await, json!({"execution_count": 1, "failure_count": 1, "rejected_count": 0}));
    }
);
