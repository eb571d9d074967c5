//! A service and its database schema: a newer version migrates the schema while an older one keeps writing, and a
//! schema of another program is rejected.

use serde_json::json;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlSafeStr, SqliteConnection};
use toolpost::store::{StoreError, Stores};

use crate::support::fixture::project_file;
use crate::support::{App, Backend, Database};

mod migration_rules;

/// Changes that a later version may make to the tables that every call writes.
const NEWER: &str = "ALTER TABLE tool_calls ADD COLUMN region TEXT;
    ALTER TABLE commits ADD COLUMN origin TEXT NOT NULL DEFAULT 'here';
    CREATE TABLE regions (name TEXT NOT NULL PRIMARY KEY);
    CREATE INDEX tool_calls_by_region ON tool_calls (region, id);";

/// Returns the migrations of a database in order: number, name, text.
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

/// Applies migrations as a program with these migrations does.
async fn migrate(backend: Backend, url: &str, migrations: Vec<(i64, String, String)>) {
    let migrations = migrations.into_iter().map(|(number, name, sql)| {
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(number, name.into(), MigrationType::Simple, sql, false)
    });
    let migrator = Migrator::with_migrations(migrations.collect());
    match backend {
        Backend::Sqlite => {
            let mut connection = SqliteConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
            migrator.run_direct(None, &mut connection, false).await.unwrap();
            connection.close().await.unwrap();
        }
        Backend::Postgres => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            migrator.run_direct(None, &mut connection, false).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

on_both_databases!(
    async fn old_service_keeps_working_and_restarts_on_a_newer_schema(backend: Backend) {
        let app = App::start(backend).await;
        let call = async |app: &App| app.call("echo", json!({"n": 1})).await["id"].as_str().unwrap().to_owned();
        let before = call(&app).await;
        let mut newer = migrations(backend);
        newer.push((9999, "newer".to_owned(), NEWER.to_owned()));
        migrate(backend, &app.database_url(), newer).await;

        let after = call(&app).await;
        let events = app.events(&format!("/tool-calls/{after}/events")).await.rest().await;
        assert!(events.last().unwrap().is_result());
        assert_eq!(app.stats("echo").await["success_count"], 2);
        let shown = [app.get("/stats").await.ok(), app.get("/tool-calls").await.ok()];

        let app = app.restart().await;
        assert_eq!([app.get("/stats").await.ok(), app.get("/tool-calls").await.ok()], shown);
        for id in [before, after, call(&app).await] {
            assert_eq!(app.stored(&id).await["status"], "SUCCESS");
        }
    }
);

on_both_databases!(
    async fn schema_of_another_build_is_rejected_by_name(backend: Backend) {
        let database = Database::empty(backend).await;
        let other = vec![(1, "calls".to_owned(), "CREATE TABLE tool_calls (id BIGINT)".to_owned())];
        migrate(backend, &database.url, other).await;
        let error = Stores::open(&database.url).await.unwrap_err();
        assert!(matches!(error, StoreError::Migrate(_)), "{error}");
        let page = std::fs::read_to_string(project_file("docs/operations/upgrade.md")).unwrap();
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("`{error}`")), "the manual has {error}");
    }
);
