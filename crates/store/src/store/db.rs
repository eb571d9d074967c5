//! Connections to SQLite or Postgres behind one type.

use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Postgres, Sqlite};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::query::{Bound, Query, Target, Transaction};
use super::server::monitor::{Monitor, Switches};
use super::server::pools::{ACQUIRE_TIMEOUT, READERS, ServerPools};
use super::server::url::{PgUrl, is_postgres};
use super::timeout::{TimedPool, timed};
use super::transactions::Transactions;

/// Time for which SQLite waits for the write lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between attempts where SQLite does not wait itself.
const BUSY_DELAY: Duration = Duration::from_millis(20);

/// The connections to one database: a single writer, so that writes queue here and not inside the database, and several
/// readers.
#[derive(Debug)]
pub struct Pools<D: Transactions> {
    /// One connection; on Postgres several, of which the journal keeps one for each shard.
    pub writer: TimedPool<D>,
    /// Several connections for queries.
    pub reader: TimedPool<D>,
    /// The task that watches the hosts of the URL, if the pools may have to switch to another server.
    monitor: Option<AbortOnDropHandle<()>>,
}

impl<D: Transactions> Pools<D> {
    async fn close(&self) {
        if let Some(monitor) = &self.monitor {
            monitor.abort();
        }
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
        if is_postgres(url) {
            return Box::pin(Self::postgres(url)).await;
        }
        if url.starts_with("sqlite:") {
            return Box::pin(Self::sqlite(url)).await;
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

    /// Returns `true` if the database is a Citus cluster, which has this table of its own.
    ///
    /// # Errors
    /// Returns an error if the query fails.
    pub async fn is_distributed(&self) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite(_) => Ok(false),
            Self::Postgres(_) => {
                let found: (bool,) = self.read("SELECT to_regclass('pg_dist_partition') IS NOT NULL").one().await?;
                Ok(found.0)
            }
        }
    }

    async fn postgres(url: &str) -> Result<Self, StoreError> {
        let url = PgUrl::parse(url)?.with_application_name("toolpost");
        if url.is_monitored() {
            let (monitor, ServerPools { writer, reader }) = Monitor::start(url).await?;
            let (writer, reader) = (TimedPool::to_server(writer), TimedPool::to_server(reader));
            let switches = Switches { writer: writer.switch(), reader: reader.switch() };
            let monitor = Some(AbortOnDropHandle::new(tokio::spawn(monitor.run(switches))));
            return Ok(Self::Postgres(Arc::new(Pools { writer, reader, monitor })));
        }
        let host = &url.hosts[0];
        // A pool reports only a timeout; a plain connection reports the cause.
        let first = timed(host.options.connect()).await;
        first.map_err(|_| sqlx::Error::PoolTimedOut)??.close().await?;
        let pools = ServerPools::new(host, url.attrs, None);
        pools.connect_in_background();
        let ServerPools { writer, reader } = pools;
        let (writer, reader) = (TimedPool::to_server(writer), TimedPool::to_server(reader));
        Ok(Self::Postgres(Arc::new(Pools { writer, reader, monitor: None })))
    }

    async fn sqlite(url: &str) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|_| StoreError::Url { url: url.to_owned() })?
            .create_if_missing(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        // Connections are kept, because closing one to memory loses its data, and not tested, because the database is in
        // this process.
        let pool = |size| {
            let options = SqlitePoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE_TIMEOUT);
            options.test_before_acquire(false).idle_timeout(None).max_lifetime(None)
        };
        if url.contains(":memory:") || url.contains("mode=memory") {
            // Each connection to memory is a separate database, so one connection is used for everything.
            let only = pool(1).connect_with(options).await?;
            let pool = || TimedPool::to_memory(only.clone());
            return Ok(Self::Sqlite(Arc::new(Pools { writer: pool(), reader: pool(), monitor: None })));
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
        // A second connection that writes would wait for the first one in SQLite's busy handler, which sleeps, instead of
        // in the queue of the pool.
        let reader = pool(READERS).connect_lazy_with(options.pragma("query_only", "ON"));
        let (writer, reader) = (TimedPool::to_file(writer), TimedPool::to_file(reader));
        Ok(Self::Sqlite(Arc::new(Pools { writer, reader, monitor: None })))
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

    /// Creates a statement that runs on the connection for writes. Its result is returned after its commit.
    pub(super) fn write(&self, sql: impl Into<Cow<'static, str>>) -> Query<'_> {
        let sql = sql.into();
        let is_query = sql.starts_with("SELECT");
        let bound = match self {
            Self::Sqlite(pools) => Bound::Sqlite(Target::of_writer(&pools.writer, is_query), Default::default()),
            Self::Postgres(pools) => Bound::Postgres(Target::of_writer(&pools.writer, is_query), Default::default()),
        };
        Query::new(sql, bound)
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
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let parameters = query.split('&').map(|pair| match pair.split_once('=') {
        Some((key @ "password", _)) => format!("{key}=…"),
        _ => pair.to_owned(),
    });
    let query = parameters.collect::<Vec<_>>().join("&");
    let rest = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    // An unencoded `/` or `?` belongs to the password as well.
    let Some((login, host)) = rest.rsplit_once('@') else {
        // Without a host, the password is in the place of a port.
        let authority = path.split('/').next().unwrap_or_default();
        let is_port = |text: &str| text.contains(']') || text.bytes().all(|byte| byte.is_ascii_digit());
        let suspect = authority.split(',').filter_map(|host| host.split_once(':')).find(|(_, port)| !is_port(port));
        return match suspect {
            Some((user, _)) => format!("{scheme}://{user}:…"),
            None => format!("{scheme}://{rest}"),
        };
    };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:…@{host}"),
        None => format!("{scheme}://{rest}"),
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
        assert_eq!(without_password("postgres://a:b"), "postgres://a:…");
        assert_eq!(without_password("postgres://a:1,[::1]:2/d"), "postgres://a:1,[::1]:2/d");
        assert_eq!(without_password("postgres://a:b/@c?d@h:1,i:2/d"), "postgres://a:…@h:1,i:2/d");
        assert_eq!(without_password("postgres://h/d?user=a&password=b@c&x=y"), "postgres://h/d?user=a&password=…&x=y");
    }

    #[tokio::test]
    async fn sqlite_file_has_one_connection_that_writes() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/t.db", folder.path().display())).await.unwrap();
        db.write("CREATE TABLE notes (id INTEGER)").execute().await.unwrap();
        let refused = db.read("INSERT INTO notes VALUES (1)").execute().await.unwrap_err().to_string();
        assert!(refused.contains("readonly"), "{refused}");
        let Db::Sqlite(pools) = &db else { panic!("{db:?}") };
        assert_eq!(pools.writer.pool().options().get_max_connections(), 1);
        db.close().await;
    }

    #[tokio::test]
    async fn unknown_database_url_is_reported_with_alternatives() {
        let error = Db::open("mysql://root:secret@h/d").await.unwrap_err().to_string();
        assert!(error.contains("mysql://root:…@h/d") && error.contains("postgres://"), "{error}");
    }
}
