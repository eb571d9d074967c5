//! A database whose write lock is held by another client for a while: it accepts no changes and still answers queries.

use std::str::FromStr;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use super::{App, Client, eventually};

/// A connection that holds the lock until [`Stall::end`].
pub enum Stall {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Stall {
    /// Takes the lock, so that no change of a call is recorded.
    pub async fn begin(app: &App) -> Self {
        let url = app.database_url();
        if url.starts_with("sqlite:") {
            let options = SqliteConnectOptions::from_str(&url).unwrap();
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            connection.execute("BEGIN IMMEDIATE").await.unwrap();
            return Self::Sqlite(connection);
        }
        let mut connection = PgConnection::connect(&url).await.unwrap();
        connection.execute("BEGIN; LOCK TABLE tool_calls IN SHARE MODE").await.unwrap();
        Self::Postgres(connection)
    }

    /// Waits until `calls` calls wait to be recorded.
    pub async fn holds(&self, client: &Client, calls: usize) {
        let line = format!("\ntoolpost_backlog_calls {calls}\n");
        eventually("calls to wait", || async { client.get("/metrics").await.text().contains(&line).then_some(()) })
            .await;
    }

    /// Releases the lock.
    pub async fn end(self) {
        match self {
            Self::Sqlite(mut connection) => drop(connection.execute("ROLLBACK").await.unwrap()),
            Self::Postgres(mut connection) => drop(connection.execute("ROLLBACK").await.unwrap()),
        }
    }
}
