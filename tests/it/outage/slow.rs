//! A database that is slow or locked by another client: callers wait no longer than configured, and each call is stored
//! once.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::outage::{Load, readyz, service, unavailable};
use crate::support::shapes::succeeded;
use crate::support::{Answer, HttpTool, Options, eventually};

/// Waits until `count` statements of the service wait for a lock.
pub async fn waiting(connection: &mut PgConnection, count: i64) {
    const SQL: &str = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
        AND application_name = 'toolpost' AND datname = current_database()";
    // A transaction keeps its first view of the activity until the view is cleared.
    const AGAIN: &str = "SELECT pg_stat_clear_snapshot()";
    let connection = tokio::sync::Mutex::new(connection);
    eventually("statements that wait", || async {
        let mut connection = connection.lock().await;
        sqlx::query(AGAIN).execute(&mut **connection).await.unwrap();
        let waiting: i64 = sqlx::query_scalar(SQL).fetch_one(&mut **connection).await.unwrap();
        (waiting >= count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_behind_a_foreign_lock_are_rejected_in_time_and_stored_once() {
    requires_postgres!();
    let (app, cluster) = service(Options { patience_ms: Some(200), ..Options::default() }).await;
    let mut holder = PgConnection::connect(&cluster.url("test_0")).await.unwrap();
    let load = Load::start(&app, 8).await;
    load.more(50).await;
    let mut holding = holder.begin().await.unwrap();
    sqlx::query("SELECT pos FROM event_clock FOR UPDATE").execute(&mut *holding).await.unwrap();
    load.turned_away(24).await;
    // The commit was abandoned, and its retry waits behind it.
    waiting(&mut holding, 2).await;
    readyz(&app, 503).await;
    holding.commit().await.unwrap();
    load.more(50).await;
    readyz(&app, 200).await;
    load.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_longer_than_the_timeout_is_made_once_and_its_tool_does_not_run() {
    requires_postgres!();
    let options = Options { patience_ms: Some(200), egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
    let (app, cluster) = service(options).await;
    let server = HttpTool::answering(Answer::text("done")).await;
    app.http_tool("act", &server).await;
    let mut other = PgConnection::connect(&cluster.url("test_0")).await.unwrap();
    const SLOW: &str = "CREATE FUNCTION slow() RETURNS TRIGGER LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$; \
        CREATE TRIGGER slow BEFORE INSERT ON tool_calls FOR EACH ROW EXECUTE FUNCTION slow()";
    sqlx::raw_sql(SLOW).execute(&mut other).await.unwrap();
    for name in ["act", "echo"] {
        assert_eq!(unavailable(app.post("/tool-calls", &json!({"name": name})).await), None);
    }
    // Dropping the trigger would lock the table, and could wait for the service while the service waits for it.
    const QUICK: &str =
        "CREATE OR REPLACE FUNCTION slow() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$";
    sqlx::raw_sql(QUICK).execute(&mut other).await.unwrap();
    let ended = eventually("the end of both", || async {
        let calls = app.get("/tool-calls").await.ok()["tool_calls"].as_array().unwrap().clone();
        (calls.len() == 2 && calls.iter().all(|call| !call["ended_at"].is_null())).then_some(calls)
    })
    .await;
    assert!(ended.iter().all(|call| call["name"] == "echo" || call["error"]["code"] == "OVERLOADED"), "{ended:#?}");
    assert_eq!(server.requests().len(), 0);
    succeeded(&app.call("act", json!({})).await);
    let stats = app.stats("act").await;
    assert_eq!((&stats["success_count"], &stats["rejected_count"]), (&json!(1), &json!(1)));
}
