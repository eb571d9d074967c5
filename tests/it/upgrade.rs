//! A database of an earlier version is brought to the newest one while nodes of that earlier version go on writing.
//!
//! What such a node writes is kept here as text, as it was written then ([`before`]): it must not follow the code.

use serde_json::{Value, json};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlSafeStr, SqliteConnection};

use crate::support::fixture::project_file;
use crate::support::{App, Backend, Database, Options, bounded, eventually};

mod before;
mod rule;

use before::{Counting, Old};

/// The migrations of a database: number, name, text, in order.
fn migrations(backend: Backend) -> Vec<(i64, String, String)> {
    let folder = project_file(match backend {
        Backend::Sqlite => "migrations/sqlite",
        Backend::Postgres => "migrations/postgres",
    });
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<(i64, String, String)> = files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let (number, name) = name.split_once('_').unwrap();
            (number.parse().unwrap(), name.to_owned(), std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// The number of the last migration but one.
fn last_but_one(backend: Backend) -> i64 {
    let all = migrations(backend);
    all[all.len() - 2].0
}

/// A database as the version with these migrations made it.
async fn database_up_to(backend: Backend, last: i64) -> Database {
    let database = Database::fresh(backend).await;
    let some = migrations(backend).into_iter().filter(|(number, ..)| *number <= last).map(|(number, name, sql)| {
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(number, name.into(), MigrationType::Simple, sql, false)
    });
    let migrator = Migrator::with_migrations(some.collect());
    match backend {
        Backend::Sqlite => {
            let url = format!("{}?mode=rwc", database.url);
            let mut connection = SqliteConnection::connect(&url).await.unwrap();
            migrator.run_direct(None, &mut connection, false).await.unwrap();
            connection.close().await.unwrap();
        }
        Backend::Postgres => {
            let mut connection = PgConnection::connect(&database.url).await.unwrap();
            migrator.run_direct(None, &mut connection, false).await.unwrap();
            connection.close().await.unwrap();
        }
    }
    database
}

/// Runs statements as one transaction on a connection of their own.
async fn run(backend: Backend, url: &str, statements: &str) {
    let text = AssertSqlSafe(match backend {
        Backend::Sqlite => format!("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE; {statements}; COMMIT"),
        Backend::Postgres => format!("BEGIN; {statements}; COMMIT"),
    });
    let done = async {
        match backend {
            Backend::Sqlite => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::raw_sql(text).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Backend::Postgres => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::raw_sql(text).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    };
    bounded("the statements", done).await;
}

/// A service that leaves the calls of silent nodes alone.
fn patient() -> Options {
    Options { configure: Some(|config| config.node.lease_ms = 3_600_000), ..Options::default() }
}

async fn events_of(app: &App, id: &str) -> Vec<String> {
    let mut stream = app.events(&format!("/tool-calls/{id}/events")).await;
    stream.rest().await.into_iter().map(|event| event.event).collect()
}

async fn good(app: &App, name: &str) -> Value {
    app.stats(name).await["success_count"].clone()
}

/// What an earlier version has left is all there.
async fn everything_is_there(app: &App, old: &Old) {
    let whole = app.stored(&old.id(1)).await;
    assert_eq!(
        (&whole["status"], &whole["output"], &whole["call_id"]),
        (&json!("SUCCESS"), &json!("kept 1"), &json!("call_1"))
    );
    assert_eq!((&whole["arguments"], &whole["duration_ms"]), (&json!({"n": 1}), &json!(7)));
    assert_eq!(whole["metadata"]["callback"]["state"], "delivered");
    assert_eq!(events_of(app, &old.id(1)).await, ["tool_call", "status", "status", "status", "tool_result"]);
    let lived = app.stored(&old.id(2)).await;
    assert_eq!((&lived["status"], &lived["output"]), (&json!("SUCCESS"), &json!("kept 2")));
    let kinds = events_of(app, &old.id(2)).await;
    assert_eq!(kinds, ["tool_call", "status", "status", "status", "status", "tool_result"], "with what it reported");
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"].as_array().unwrap().len(), 2);
    let again = app.request(reqwest::Method::POST, "/tool-calls").header("idempotency-key", "old key");
    let again = crate::support::client::send(again.json(&Old::keyed_body())).await.ok();
    assert_eq!(again["id"], old.id(1), "the key stands for the old call");
    assert_eq!(app.get("/tools/kept_tool").await.ok()["description"], "Kept.");
    let stats = app.stats("echo").await;
    assert_eq!((&stats["success_count"], &stats["total_duration_ms"]), (&json!(2), &json!(14)));
}

/// What a node of the earlier version does now is done.
async fn an_old_node_goes_on(app: &App, old: &Old, url: &str, counting: Counting) {
    let backend = old.backend;
    let first = if counting == Counting::AtOnce { 10 } else { 20 };
    let before = good(app, "echo").await.as_u64().unwrap();
    let mut all = app.events("/events?after=0").await;
    run(backend, url, &old.beats()).await;
    run(backend, url, &old.whole_call(first, counting)).await;
    run(backend, url, &old.accepted(first + 1)).await;
    assert_eq!(app.stored(&old.id(first + 1)).await["status"], "WAIT");
    run(backend, url, &old.started_with_a_report(first + 1)).await;
    assert_eq!(app.stored(&old.id(first + 1)).await["status"], "DOING");
    run(backend, url, &old.settled(first + 1, counting)).await;
    assert_eq!(app.stored(&old.id(first + 1)).await["output"], format!("kept {}", first + 1));
    assert_eq!(good(app, "echo").await, before + 2, "{counting:?}");
    // Both versions write in turns, and all is told in order.
    let new = format!("new {first}");
    app.call_with(json!({"name": "echo", "id": new, "arguments": {}})).await;
    let last = format!("call_{}", first + 1);
    let seen = all.until(|event| event.is_result() && event.data["call_id"] == new.as_str()).await;
    assert!(seen.iter().any(|event| event.is_result() && event.data["call_id"] == last.as_str()));
    let places: Vec<i64> = seen.iter().map(|event| event.id.parse().unwrap()).collect();
    assert!(places.windows(2).all(|pair| pair[0] + 1 == pair[1]), "without a gap: {places:?}");
    assert_eq!(good(app, "echo").await, before + 3);
}

async fn brought_up_from(backend: Backend, version: i64) {
    let database = database_up_to(backend, version).await;
    let old = Old { backend };
    run(backend, &database.url, &old.everything()).await;
    let app = App::start_at(database.url.clone(), patient()).await;
    everything_is_there(&app, &old).await;
    an_old_node_goes_on(&app, &old, &database.url, Counting::AtOnce).await;
    an_old_node_goes_on(&app, &old, &database.url, Counting::ByNotes).await;
    // And after a restart it is all the same.
    let before = [app.get("/stats").await.ok(), app.get("/tool-calls").await.ok()];
    let app = app.restart().await;
    let after = [app.get("/stats").await.ok(), app.get("/tool-calls").await.ok()];
    assert_eq!(after, before);
}

on_both_databases!(
    async fn the_fourth_version_is_brought_up_with_all_that_is_in_it_while_its_node_goes_on(backend: Backend) {
        brought_up_from(backend, 4).await;
    }
);

on_both_databases!(
    async fn the_last_version_but_one_is_brought_up_with_all_that_is_in_it_while_its_node_goes_on(backend: Backend) {
        brought_up_from(backend, last_but_one(backend)).await;
    }
);

on_both_databases!(
    async fn a_service_starts_on_a_database_that_a_newer_one_has_brought_further(backend: Backend) {
        let app = App::start(backend).await;
        let id = app.call("echo", json!({})).await["id"].as_str().unwrap().to_owned();
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
            VALUES (9999, 'newer', TRUE, ";
        let checksum = if backend == Backend::Sqlite { "X'00'" } else { "'\\x00'" };
        let url = app.database_url();
        run(backend, &url, &format!("{newer}{checksum}, 0)")).await;
        let app = app.restart().await;
        eventually("an answer", || async { (app.get("/readyz").await.status == 200).then_some(()) }).await;
        assert_eq!(app.stored(&id).await["status"], "SUCCESS");
    }
);
