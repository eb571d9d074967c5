//! The two databases behind one name.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Database, Postgres, Sqlite};
use tokio::time::Instant;

use super::timeout::{ANSWER, TimedPool};
use crate::domain::tenant::QuotaResource;

/// Connections that read at the same time.
const READERS: u32 = 4;
/// How long a connection may take to be had.
const ACQUIRE: Duration = ANSWER;
/// After how long a server gives up a statement by itself. Whoever asked has long gone, and asks again on another
/// connection: without an end there would be more and more of them. A commit has time to be made all the same.
const WRITE_ENDS_MS: &str = "60000";
const READ_ENDS_MS: &str = "10000";
/// How long SQLite waits for another process's write lock.
const BUSY: Duration = Duration::from_secs(10);
/// Between two tries where SQLite does not wait itself.
const BUSY_AGAIN: Duration = Duration::from_millis(20);

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no database that the service knows.
    #[error("`{url}` is no database URL: use sqlite::memory:, sqlite://PATH or postgres://USER@HOST/DATABASE")]
    Url {
        /// As given, without a password.
        url: String,
    },
    /// The folder of the SQLite file cannot be made.
    #[error("cannot make the folder {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another server uses the file.
    #[error(
        "another server uses {}; one file has one server: stop that, name another file, or share a Postgres",
        database.display()
    )]
    Served {
        /// The file.
        database: PathBuf,
    },
    /// The lock beside the file cannot be had.
    #[error("cannot take the lock {}: {source}", path.display())]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A migration failed.
    #[error("cannot bring the database to the newest version: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database failed or is out of reach.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The tenant has as many as it may have.
    #[error("there are {most} {} already", what.words())]
    TooMany {
        /// What there are too many of.
        what: QuotaResource,
        /// How many there may be.
        most: u32,
    },
    /// A stored row cannot be read.
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
}

/// One database's connections: a single writer, so that writes queue here and not inside the database, and readers.
#[derive(Debug)]
pub struct Pools<D: Database> {
    /// One connection; on a server one more beside the journal's own.
    pub writer: TimedPool<D>,
    /// A few connections.
    pub reader: TimedPool<D>,
}

impl<D: Database> Clone for Pools<D> {
    fn clone(&self) -> Self {
        Self { writer: self.writer.clone(), reader: self.reader.clone() }
    }
}

/// Which database it is.
#[derive(Debug, Clone)]
pub enum Db {
    /// A file or memory in this process.
    Sqlite(Pools<Sqlite>),
    /// A server.
    Postgres(Pools<Postgres>),
}

/// Runs the same code on whichever database it is, with `$pool` a pool that reads.
macro_rules! on_reader {
    ($db:expr, $pool:ident => $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(pools) => {
                let $pool = &pools.reader;
                $body
            }
            $crate::store::Db::Postgres(pools) => {
                let $pool = &pools.reader;
                $body
            }
        }
    };
}
pub(crate) use on_reader;

/// The same through the connections that write.
macro_rules! on_writer {
    ($db:expr, $pool:ident => $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(pools) => {
                let $pool = &pools.writer;
                $body
            }
            $crate::store::Db::Postgres(pools) => {
                let $pool = &pools.writer;
                $body
            }
        }
    };
}
pub(crate) use on_writer;

/// Does `$body` in one transaction of the writer: `Some` is committed, `None` taken back. What moves the tools' clock does
/// so first, so that all who do wait for one another there and nowhere else.
macro_rules! in_transaction {
    (@on $pool:expr, $transaction:ident => $body:expr) => {
        $crate::store::timeout::within(async {
            let mut lease = $pool.lease().await?;
            let mut $transaction = lease.begin().await?;
            let done = $body;
            match &done {
                Some(_) => $transaction.commit().await?,
                None => $transaction.rollback().await?,
            }
            lease.answered(&Ok(()));
            Ok::<_, StoreError>(done)
        })
        .await
    };
    ($db:expr, $transaction:ident => $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(pools) => $crate::store::db::in_transaction!(@on pools.writer, $transaction => $body),
            $crate::store::Db::Postgres(pools) => $crate::store::db::in_transaction!(@on pools.writer, $transaction => $body),
        }
    };
}
pub(crate) use in_transaction;

impl Db {
    /// Connects, and makes the SQLite file and its folder if they are missing.
    ///
    /// # Errors
    /// An URL that is none, or a database out of reach.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Self::postgres(url).await;
        }
        if url.starts_with("sqlite:") {
            return Self::sqlite(url).await;
        }
        Err(StoreError::Url { url: without_password(url) })
    }

    /// The file of an SQLite database, unless it is in memory.
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
        // A pool tells only that it timed out; a plain connection tells why.
        let first = tokio::time::timeout(ACQUIRE, options.connect()).await;
        first.map_err(|_| sqlx::Error::PoolTimedOut)??.close().await?;
        let pool = |size| PgPoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE);
        // A broken connection shows in the write itself, which is tried again; no probe before each.
        // The journal's statement is large and always the same: planning it anew for each commit costs more than running it.
        // It finds rows by key only; a plan made while the tables were empty must not scan them once they are full.
        let planned_once = options.clone().options([
            ("plan_cache_mode", "force_generic_plan"),
            ("jit", "off"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_material", "off"),
            ("statement_timeout", WRITE_ENDS_MS),
        ]);
        // One is the journal's for good, the other is for the rest.
        let writer = pool(2).test_before_acquire(false).connect_with(planned_once).await?;
        let reader = pool(READERS).connect_lazy_with(options.options([("statement_timeout", READ_ENDS_MS)]));
        Ok(Self::Postgres(Pools { writer: TimedPool::to_server(writer), reader: TimedPool::to_server(reader) }))
    }

    async fn sqlite(url: &str) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|_| StoreError::Url { url: url.to_owned() })?
            .create_if_missing(true)
            .busy_timeout(BUSY)
            .disable_statement_logging();
        let pool = |size| SqlitePoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE);
        if url.contains(":memory:") || url.contains("mode=memory") {
            // Every connection to memory is a database of its own: one connection does everything, and never goes.
            let only = pool(1).idle_timeout(None).max_lifetime(None).connect_with(options).await?;
            let only = TimedPool::in_process(only);
            return Ok(Self::Sqlite(Pools { writer: only.clone(), reader: only }));
        }
        if let Some(folder) = options.get_filename().parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { folder: folder.to_owned(), source })?;
        }
        let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let until = Instant::now() + BUSY;
        let writer = loop {
            match pool(1).connect_with(options.clone()).await {
                // Whoever makes a fresh file one with WAL answers others at once that it is busy, whatever their timeout.
                Err(error) if is_busy(&error) && Instant::now() < until => tokio::time::sleep(BUSY_AGAIN).await,
                connected => break connected?,
            }
        };
        let reader = pool(READERS).connect_lazy_with(options);
        Ok(Self::Sqlite(Pools { writer: TimedPool::in_process(writer), reader: TimedPool::in_process(reader) }))
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pools) => {
                pools.reader.pool().close().await;
                pools.writer.pool().close().await;
            }
            Self::Postgres(pools) => {
                pools.reader.pool().close().await;
                pools.writer.pool().close().await;
            }
        }
    }
}

/// `SQLITE_BUSY` in any of its extended forms.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// The URL with `…` for its password, fit for a message.
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
    fn a_shown_url_has_no_password() {
        assert_eq!(without_password("postgres://a:b@h/d"), "postgres://a:…@h/d");
        assert_eq!(without_password("postgres://a@h/d"), "postgres://a@h/d");
        assert_eq!(without_password("sqlite::memory:"), "sqlite::memory:");
    }

    #[tokio::test]
    async fn an_unknown_database_is_named_with_the_way_out() {
        let error = Db::open("mysql://root:secret@h/d").await.unwrap_err().to_string();
        assert!(error.contains("mysql://root:…@h/d") && error.contains("postgres://"), "{error}");
    }
}
