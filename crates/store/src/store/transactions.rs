//! How a transaction begins and ends on each database.
//!
//! SQLite ends a transaction by itself after some errors, such as a full disk, and leaves it open after others. sqlx
//! counts transactions instead of asking, so that one such error makes each later one a savepoint in a transaction that
//! nobody commits. Therefore the statements are sent here, and only the answer of the database counts.

use futures_util::future::BoxFuture;
use sqlx::{Database, Error, PgConnection, Postgres, Sqlite, SqliteConnection};

/// A database with transactions.
pub trait Transactions: Database {
    /// Whether the database is in this process. Then a row of a single statement may come before the commit of the
    /// statement has failed, so each statement that writes is committed explicitly; and a transaction can be abandoned
    /// after any error.
    const IS_IN_PROCESS: bool;

    /// Begins a transaction that writes.
    fn begin(connection: &mut Self::Connection) -> BoxFuture<'_, Result<(), Error>>;

    /// Commits the transaction. Fails if there is none, because the database has ended it.
    fn commit(connection: &mut Self::Connection) -> BoxFuture<'_, Result<(), Error>>;

    /// Ends the transaction without its changes. Succeeds only if the connection is certainly in no transaction
    /// afterwards.
    fn abandon(connection: &mut Self::Connection) -> BoxFuture<'_, Result<(), Error>>;

    /// Returns `true` for an error after which the connection must be closed.
    fn is_unusable_after(error: &Error) -> bool;
}

impl Transactions for Sqlite {
    const IS_IN_PROCESS: bool = true;

    fn begin(connection: &mut SqliteConnection) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            match execute(connection, "BEGIN IMMEDIATE").await {
                // A connection to memory cannot be closed, so it may still be in an abandoned transaction.
                Err(error) if primary_code(&error) == Some(1) => {
                    Self::abandon(connection).await?;
                    execute(connection, "BEGIN IMMEDIATE").await
                }
                begun => begun,
            }
        })
    }

    fn commit(connection: &mut SqliteConnection) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(execute(connection, "COMMIT"))
    }

    fn abandon(connection: &mut SqliteConnection) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            // Fails if the database has ended the transaction itself.
            let _ = execute(connection, "ROLLBACK").await;
            // Succeeds only outside of a transaction, and acquires no lock.
            execute(connection, "BEGIN").await?;
            execute(connection, "ROLLBACK").await
        })
    }

    fn is_unusable_after(error: &Error) -> bool {
        // I/O error, corrupt, cannot open, not a database.
        matches!(error, Error::WorkerCrashed)
            || primary_code(error).is_some_and(|code| matches!(code, 10 | 11 | 14 | 26))
    }
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), Error> {
    sqlx::query(sql).execute(connection).await.map(drop)
}

/// Returns SQLite's code of an error without its extension.
pub(super) fn primary_code(error: &Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?.parse::<u32>().ok()?;
    Some(code & 0xff)
}

impl Transactions for Postgres {
    const IS_IN_PROCESS: bool = false;

    fn begin(connection: &mut PgConnection) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { sqlx::raw_sql("BEGIN").execute(connection).await.map(drop) })
    }

    fn commit(connection: &mut PgConnection) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { sqlx::raw_sql("COMMIT").execute(connection).await.map(drop) })
    }

    fn abandon(connection: &mut PgConnection) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { sqlx::raw_sql("ROLLBACK").execute(connection).await.map(drop) })
    }

    /// The connection failed, or the server stops, or it became read-only because it is no longer the primary.
    fn is_unusable_after(error: &Error) -> bool {
        let Error::Database(error) = error else { return true };
        error.code().is_some_and(|code| code.starts_with("08") || code.starts_with("57P") || code == "25006")
    }
}
