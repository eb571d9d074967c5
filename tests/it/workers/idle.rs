//! Idle workers: one connection each, and nothing else.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{called, claim_now, claim_with, service, tool};
use crate::nodes::never_poll;
use crate::support::calls::id_of;
use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::statements::Statements;
use crate::support::{App, Backend, Client, Database, Options, eventually};

const WORKERS: usize = 1000;

/// Lets many workers wait for calls. Returns once the service lists all of them.
async fn wait_all(client: &Client) -> JoinSet<Value> {
    let shared = Arc::new(client.clone());
    let mut waiting = JoinSet::new();
    for n in 0..WORKERS {
        let client = shared.clone();
        waiting.spawn(async move {
            claim_with(&client, &format!("w{n}"), json!({"wait_ms": 60_000})).await.ok()["calls"].clone()
        });
    }
    eventually("all workers to wait", || async {
        let text = client.get("/metrics").await.text();
        let value = text.lines().find_map(|line| {
            line.strip_prefix("toolpost_workers{tenant=\"default\",queue=\"q\"} ")?.parse::<usize>().ok()
        });
        (value? > WORKERS).then_some(())
    })
    .await;
    waiting
}

on_both_databases!(
    async fn thousand_idle_workers_wait_for_one_call(backend: Backend) {
        let app = service(backend, json!({})).await;
        assert!(claim_now(&app, "first").await.is_empty());
        let mut waiting = wait_all(&app).await;
        // One of them gets each call, and the others continue to wait.
        for _ in 0..3 {
            let id = called(&app, json!({})).await;
            let calls = waiting.join_next().await.unwrap().unwrap();
            assert_eq!((calls.as_array().unwrap().len(), id_of(&calls[0])), (1, id));
        }
        assert_eq!(waiting.len(), WORKERS - 3);
        waiting.abort_all();
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn waiting_claims_cause_no_statement() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let statements = Statements::new();
    let proxy = PgProxy::recording(&database.url, &statements);
    // In case a signal is lost, a node reads the queues of waiting workers with each heartbeat, once for all workers. This
    // node has no heartbeats.
    let options = Options { configure: Some(never_poll), ..Options::default() };
    let app = App::start_at(proxy.url().to_owned(), options).await;
    tool(&app, json!({})).await;
    assert!(claim_now(&app, "first").await.is_empty());
    let mut waiting = wait_all(&app).await;
    let since = |begin: usize| statements.texts().split_off(begin);
    let records = |begin: usize| since(begin).iter().filter(|sql| sql.contains("INSERT INTO workers")).count();
    let begin = statements.texts().len();
    // The service records the present workers every few seconds, all of them together.
    eventually("the next record of the workers", || async { (records(begin) > 0).then_some(()) }).await;
    let executed = since(begin);
    assert!(executed.len() < WORKERS / 10, "{} statements: {executed:#?}", executed.len());
    let of_queues: Vec<&String> = executed.iter().filter(|sql| sql.contains("worker_calls")).collect();
    assert!(of_queues.is_empty(), "{of_queues:#?}");
    assert_eq!(waiting.len(), WORKERS);
    // A call still reaches a worker.
    let id = called(&app, json!({})).await;
    assert_eq!(id_of(&waiting.join_next().await.unwrap().unwrap()[0]), id);
    waiting.abort_all();
}
