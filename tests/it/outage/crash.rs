//! A database server that crashes, freezes, or loses its connections under load.

use serde_json::json;

use crate::outage::{Load, readyz, service, with};
use crate::support::calls::{has_ended, id_of};
use crate::support::postgres::PgCluster;
use crate::support::{Answer, App, Backend, Database, HttpTool, Node, Options, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_calls_survive_a_server_crash_and_are_counted_once() {
    requires_postgres!();
    let (app, cluster) = service(Options::default()).await;
    let load = Load::start(&app, 16).await;
    for _ in 0..2 {
        load.more(100).await;
        with(&cluster, |cluster| {
            cluster.stop_immediate();
            cluster.start_again();
        })
        .await;
    }
    load.more(100).await;
    readyz(&app, 200).await;
    load.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_calls_survive_an_outage_longer_than_the_timeout() {
    requires_postgres!();
    let (app, cluster) = service(Options { patience_ms: Some(200), ..Options::default() }).await;
    let load = Load::start(&app, 8).await;
    load.more(50).await;
    with(&cluster, PgCluster::stop_immediate).await;
    load.turned_away(40).await;
    with(&cluster, PgCluster::start_again).await;
    load.more(50).await;
    readyz(&app, 200).await;
    load.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_calls_survive_a_frozen_server() {
    requires_postgres!();
    let (app, cluster) = service(Options { patience_ms: Some(200), ..Options::default() }).await;
    let load = Load::start(&app, 8).await;
    for _ in 0..2 {
        load.more(50).await;
        with(&cluster, PgCluster::freeze).await;
        load.turned_away(24).await;
        readyz(&app, 503).await;
        assert_eq!(app.get("/healthz").await.status, 200);
        with(&cluster, PgCluster::thaw).await;
    }
    load.more(50).await;
    readyz(&app, 200).await;
    load.check().await;
}

const KILL: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name = 'toolpost'";

#[tokio::test(flavor = "multi_thread")]
async fn repeatedly_killed_connections_neither_lose_nor_double_calls() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let app = App::start_at(database.url.clone(), Options::default()).await;
    let mut killer = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url).await.unwrap();
    let load = Load::start(&app, 16).await;
    for _ in 0..40 {
        load.more(10).await;
        sqlx::query(KILL).execute(&mut killer).await.unwrap();
    }
    load.more(50).await;
    load.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_adopted_without_an_acknowledgement_ends() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let mut lost = Node::on(database.clone(), &[("TOOLPOST__NODE__LEASE_MS", "600000")]).await;
    let server = HttpTool::answering(Answer::Never).await;
    lost.http_tool("act", &server).await;
    let id = lost.accepted(json!({"name": "act", "wait": "accepted"})).await;
    server.received(1).await;
    lost.kill().await;
    let node = Node::on(database.clone(), &[("TOOLPOST__NODE__LEASE_MS", "600000")]).await;
    let name = node.call("echo", json!({})).await["node"].as_str().unwrap().to_owned();
    let mut sql = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url).await.unwrap();
    sqlx::query("UPDATE tool_calls SET node = $1").bind(name).execute(&mut sql).await.unwrap();
    drop(sql);
    // The heartbeat may use any connection, and the pool replaces killed connections: so the test kills until the call
    // ends.
    let ended = eventually("the call to end", || async {
        let mut sql = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url).await.unwrap();
        sqlx::query(KILL).execute(&mut sql).await.unwrap();
        let answer = node.get(&format!("/tool-calls/{id}")).await;
        Some(answer.json).filter(has_ended)
    });
    assert_eq!(ended.await["error"]["code"], "OUTCOME_UNKNOWN");
}

#[tokio::test(flavor = "multi_thread")]
async fn offered_calls_reach_a_worker_after_a_server_crash() {
    requires_postgres!();
    let (app, cluster) = service(Options::default()).await;
    let executor = json!({"type": "worker", "queue": "q", "lease_ms": 60_000});
    app.register(json!({"name": "t", "input_schema": {"type": "object"}, "executor": executor})).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        for _ in 0..20 {
            ids.push(app.sent(json!({"name": "t", "wait": "accepted"})).await);
        }
        // An offer is not on disk before a worker claims it.
        with(&cluster, |cluster| {
            cluster.stop_immediate();
            cluster.start_again();
        })
        .await;
        readyz(&app, 200).await;
    }
    let mut given = Vec::new();
    while given.len() < ids.len() {
        let claim = json!({"worker": "w", "max": 64, "wait_ms": 30_000});
        let claimed = app.post("/workers/q/claim", &claim).await;
        if claimed.status == 503 {
            // One of its connections was still broken.
            continue;
        }
        given.extend(claimed.ok()["calls"].as_array().unwrap().iter().map(id_of));
    }
    given.sort();
    ids.sort();
    assert_eq!(given, ids, "each call is given once");
}
