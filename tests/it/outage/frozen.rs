//! A database server that is frozen: clients get an error in time, and the service recovers without a restart.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use toolpost::store::timeout::ANSWER;

use crate::outage::slow::waiting;
use crate::outage::{readyz, service, unavailable, with};
use crate::support::postgres::PgCluster;
use crate::support::shapes::succeeded;
use crate::support::{App, Options, Response};

/// Sends all kinds of reads, and a write outside the journal: far more concurrent requests than there are connections.
async fn ask_everything(app: &App, id: &str) -> Vec<(String, Response)> {
    let paths = [
        "/tool-calls".to_owned(),
        "/tool-calls?name=echo&status=SUCCESS&limit=5".to_owned(),
        format!("/tool-calls/{id}"),
        format!("/tool-calls/{id}?wait_ms=1"),
        "/stats".to_owned(),
        "/tools/echo/stats?window=1h".to_owned(),
    ];
    let reads = (0..6).flat_map(|_| paths.clone()).map(|path| async move {
        let answer = app.get(&path).await;
        (path, answer)
    });
    let reads = join_all(reads);
    let tool = crate::support::app::echo_tool("written", json!({"type": "object"}));
    let writes = async { [("PUT /tools".to_owned(), app.put("/tools/written", &tool).await)] };
    let (reads, writes) = tokio::join!(reads, writes);
    reads.into_iter().chain(writes).collect()
}

/// Opens a stream and returns the status of the response.
async fn open(app: &App, path: String) -> u16 {
    let answer = app.request(reqwest::Method::GET, &path).send();
    crate::support::bounded("a stream", answer).await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn starting_service_waits_for_the_database() {
    requires_postgres!();
    let (app, cluster) = service(Options::default()).await;
    let url = app.database_url();
    with(&cluster, PgCluster::freeze).await;
    let starting = tokio::spawn(App::start_at(url, Options::default()));
    // Longer than an operation of a running service waits.
    tokio::time::sleep(ANSWER + Duration::from_secs(1)).await;
    assert!(!starting.is_finished());
    with(&cluster, PgCluster::thaw).await;
    succeeded(&starting.await.unwrap().call("echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_in_time_during_a_freeze_and_succeed_after_it() {
    requires_postgres!();
    let (app, cluster) = service(Options { patience_ms: Some(500), ..Options::default() }).await;
    let call = app.call("echo", json!({"a": 1})).await;
    let (id, keyed) = (call["id"].as_str().unwrap(), json!({"name": "echo"}));
    for _ in 0..2 {
        with(&cluster, PgCluster::freeze).await;
        let (answers, streams, with_key, ()) = tokio::join!(
            ask_everything(&app, id),
            join_all(["/events".to_owned(), format!("/tool-calls/{id}/events")].map(|path| open(&app, path))),
            app.post_with("/tool-calls", &[("idempotency-key", "k")], &keyed),
            readyz(&app, 503)
        );
        assert_eq!(streams, [503, 503]);
        for (path, answer) in answers {
            assert_eq!(answer.status, 503, "{path}: {}", answer.text());
            assert_eq!(unavailable(answer), None, "{path}");
        }
        assert_eq!(unavailable(with_key), None);
        assert_eq!(app.get("/healthz").await.status, 200);
        with(&cluster, PgCluster::thaw).await;
        readyz(&app, 200).await;
        for (path, answer) in ask_everything(&app, id).await {
            assert!([200, 201].contains(&answer.status), "{path}: {}", answer.text());
        }
        succeeded(&app.call("echo", json!({"a": 2})).await);
    }
    assert_eq!(app.stored(id).await, call);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_stream_continues_without_a_gap_or_a_repeat() {
    requires_postgres!();
    let (app, cluster) = service(Options::default()).await;
    for n in 0..20 {
        app.call("echo", json!({"n": n})).await;
    }
    // The lock blocks the table of commits: the stream knows its current position, but cannot read earlier events.
    let mut holder = PgConnection::connect(&cluster.url("test_0")).await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    sqlx::query("LOCK TABLE commits IN ACCESS EXCLUSIVE MODE").execute(&mut *holding).await.unwrap();
    let mut stream = app.events("/events?after=0").await;
    // The second waiting statement shows that the first timed out and is retried.
    waiting(&mut holding, 2).await;
    holding.rollback().await.unwrap();
    for pos in 1..=100_u32 {
        assert_eq!(stream.next().await.unwrap().id, pos.to_string());
    }
    app.call("echo", json!({"n": "last"})).await;
    assert_eq!(stream.next().await.unwrap().id, "101");
}
