//! Retention of calls and events, as callers see it.

use serde_json::json;
use toolpost::store::Db;

use crate::support::{App, Backend, Options, eventually};

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Returns options with a retention of one hour, which is shorter than a settings file allows.
fn for_an_hour() -> Options {
    Options { configure: Some(|config| config.retention.calls_ms = HOUR_MS), ..Options::default() }
}

/// Makes all commits a day older.
async fn age(app: &App) {
    const SQL: &str = "UPDATE commits SET at = at - 86400000000";
    match app.store().db() {
        Db::Sqlite(pools) => drop(sqlx::query(SQL).execute(&pools.writer.pool()).await.unwrap()),
        Db::Postgres(pools) => drop(sqlx::query(SQL).execute(&pools.writer.pool()).await.unwrap()),
    }
}

on_both_databases!(
    async fn old_calls_are_deleted_while_their_stats_and_newer_events_stay(backend: Backend) {
        let app = App::start_with(backend, for_an_hour()).await;
        let old = app.call("echo", json!({"text": "old"})).await;
        age(&app).await;
        let app = app.restart().await;
        let path = format!("/tool-calls/{}", old["id"].as_str().unwrap());
        eventually("the call to be forgotten", || async { (app.get(&path).await.status == 404).then_some(()) }).await;
        app.get(&format!("{path}/events")).await.problem(404);
        assert_eq!(app.stats("echo").await["success_count"], 1);
        app.call_with(json!({"name": "echo", "id": "new"})).await;
        // A subscriber that resumes from a deleted event starts at the oldest event that is kept.
        for after in [0, 2] {
            let mut all = app.events(&format!("/events?after={after}")).await;
            let seen = all.until(|event| event.is_result()).await;
            assert!(seen.iter().all(|event| event.data["call_id"] == "new"), "after {after}");
            assert_eq!(seen.len(), 5, "after {after}");
        }
    }
);

on_both_databases!(
    async fn nothing_is_deleted_by_default(backend: Backend) {
        let app = App::start(backend).await;
        let old = app.call("echo", json!({"text": "old"})).await;
        age(&app).await;
        let app = app.restart().await;
        assert_eq!(app.stored(old["id"].as_str().unwrap()).await["output"], old["output"]);
    }
);
