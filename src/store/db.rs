//! Connections to SQLite or Postgres behind one type.

use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Database, Postgres, Sqlite};
use tokio::time::Instant;

use super::StoreError;
use super::query::{Bound, Query, Target, Transaction};
use super::timeout::{ANSWER, TimedPool};

/// Maximum number of connections that the journal keeps: one for each shard of this node.
pub(super) const JOURNAL_CONNECTIONS: u32 = 8;
/// Maximum number of connections for other writes: of adopted calls, and of everything but calls.
const WRITERS: u32 = 2;
/// Number of connections for queries.
const READERS: u32 = 4;
/// Timeout for acquiring a connection.
const ACQUIRE_TIMEOUT: Duration = ANSWER;
/// Statement timeout of the server for writes. The caller has timed out long before and retries on another connection,
/// so statements without a timeout would accumulate. It is long enough for a commit.
const WRITE_TIMEOUT_MS: &str = "60000";
const READ_TIMEOUT_MS: &str = "10000";
/// Time for which SQLite waits for the write lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between attempts where SQLite does not wait itself.
const BUSY_DELAY: Duration = Duration::from_millis(20);

/// The connections to one database: a single writer, so that writes queue here and not inside the database, and several
/// readers.
#[derive(Debug)]
pub struct Pools<D: Database> {
    /// One connection; on Postgres several, of which the journal keeps one for each shard.
    pub writer: TimedPool<D>,
    /// Several connections for queries.
    pub reader: TimedPool<D>,
}

impl<D: Database> Pools<D> {
    async fn close(&self) {
        self.reader.pool().close().await;
        self.writer.pool().close().await;
    }
}

/// The database in use.
#[derive(Debug, Clone)]
pub enum Db {
    /// SQLite: a file, or memory of this process.
    Sqlite(Arc<Pools<Sqlite>>),
    /// A Postgres server.
    Postgres(Arc<Pools<Postgres>>),
}

impl Db {
    /// Connects to the database. A missing SQLite file and its folder are created.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or the database is unreachable.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Self::postgres(url).await;
        }
        if url.starts_with("sqlite:") {
            return Self::sqlite(url).await;
        }
        Err(StoreError::Url { url: without_password(url) })
    }

    /// Returns the file of a SQLite database, or `None` for a database in memory.
    #[must_use]
    pub fn file(url: &str) -> Option<PathBuf> {
        let is_file = url.starts_with("sqlite:") && !url.contains(":memory:") && !url.contains("mode=memory");
        let options = SqliteConnectOptions::from_str(url).ok().filter(|_| is_file)?;
        Some(options.get_filename().to_owned())
    }

    async fn postgres(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| StoreError::Url { url: without_password(url) })?
            .application_name("toolpost")
            .disable_statement_logging();
        // A pool reports only a timeout; a plain connection reports the cause.
        let first = tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect()).await;
        first.map_err(|_| sqlx::Error::PoolTimedOut)??.close().await?;
        let pool = |size| PgPoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE_TIMEOUT);
        // A broken connection fails the write itself, which is retried, so connections are not tested before use. The
        // journal's statement is large and constant: planning it for each commit costs more than running it. It finds
        // rows by key only, and a plan made for empty tables must not scan them once they are full.
        let planned_once = options.clone().options([
            ("plan_cache_mode", "force_generic_plan"),
            ("jit", "off"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_material", "off"),
            ("statement_timeout", WRITE_TIMEOUT_MS),
        ]);
        let writer = pool(JOURNAL_CONNECTIONS + WRITERS).test_before_acquire(false).connect_with(planned_once).await?;
        let reader = pool(READERS).connect_lazy_with(options.options([("statement_timeout", READ_TIMEOUT_MS)]));
        let (writer, reader) = (TimedPool::to_server(writer), TimedPool::to_server(reader));
        Ok(Self::Postgres(Arc::new(Pools { writer, reader })))
    }

    async fn sqlite(url: &str) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|_| StoreError::Url { url: url.to_owned() })?
            .create_if_missing(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let pool = |size| SqlitePoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE_TIMEOUT);
        if url.contains(":memory:") || url.contains("mode=memory") {
            // Each connection to memory is a separate database, so one connection is used for everything and never
            // closed.
            let only = pool(1).idle_timeout(None).max_lifetime(None).connect_with(options).await?;
            let pool = || TimedPool::in_process(only.clone());
            return Ok(Self::Sqlite(Arc::new(Pools { writer: pool(), reader: pool() })));
        }
        if let Some(folder) = options.get_filename().parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { folder: folder.to_owned(), source })?;
        }
        let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let until = Instant::now() + BUSY_TIMEOUT;
        let writer = loop {
            match pool(1).connect_with(options.clone()).await {
                // While a process switches a new file to WAL, others get SQLITE_BUSY immediately, regardless of their
                // timeout.
                Err(error) if is_busy(&error) && Instant::now() < until => tokio::time::sleep(BUSY_DELAY).await,
                connected => break connected?,
            }
        };
        let reader = pool(READERS).connect_lazy_with(options);
        let (writer, reader) = (TimedPool::in_process(writer), TimedPool::in_process(reader));
        Ok(Self::Sqlite(Arc::new(Pools { writer, reader })))
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pools) => pools.close().await,
            Self::Postgres(pools) => pools.close().await,
        }
    }

    /// Creates a statement that runs on a connection for queries.
    pub(super) fn read(&self, sql: impl Into<Cow<'static, str>>) -> Query<'_> {
        Query::new(
            sql,
            match self {
                Self::Sqlite(pools) => Bound::Sqlite(Target::Pool(&pools.reader), Default::default()),
                Self::Postgres(pools) => Bound::Postgres(Target::Pool(&pools.reader), Default::default()),
            },
        )
    }

    /// Creates a statement that runs on the connection for writes.
    pub(super) fn write(&self, sql: impl Into<Cow<'static, str>>) -> Query<'_> {
        Query::new(
            sql,
            match self {
                Self::Sqlite(pools) => Bound::Sqlite(Target::Pool(&pools.writer), Default::default()),
                Self::Postgres(pools) => Bound::Postgres(Target::Pool(&pools.writer), Default::default()),
            },
        )
    }

    /// Runs `work` in one transaction of the writer: `Some` commits, `None` and an error roll back. A transaction that
    /// changes the version of the tools must do so first, so that concurrent ones wait for each other at that row only.
    pub(super) async fn transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self {
            Self::Sqlite(pools) => {
                pools.writer.transaction(async |connection| work(&mut Transaction::Sqlite(connection)).await).await
            }
            Self::Postgres(pools) => {
                pools.writer.transaction(async |connection| work(&mut Transaction::Postgres(connection)).await).await
            }
        }
    }
}

/// Returns `true` for `SQLITE_BUSY` in any of its extended forms.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// Replaces the password in the URL by `…`, for messages.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((login, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:…@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_url_has_no_password() {
        assert_eq!(without_password("postgres://a:b@h/d"), "postgres://a:…@h/d");
        assert_eq!(without_password("postgres://a@h/d"), "postgres://a@h/d");
        assert_eq!(without_password("sqlite::memory:"), "sqlite::memory:");
    }

    #[tokio::test]
    async fn unknown_database_url_is_reported_with_alternatives() {
        let error = Db::open("mysql://root:secret@h/d").await.unwrap_err().to_string();
        assert!(error.contains("mysql://root:…@h/d") && error.contains("postgres://"), "{error}");
    }
}
