//! Timeouts for database access. A caller receives a result or an error in time even if the server hangs or the network
//! drops all packets, and also if another server takes over. A connection that was abandoned during a statement is never
//! reused.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Database, Error, Pool};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::StoreError;
use super::transactions::Transactions;

/// Timeout for a database operation, including the wait for a connection. Commits of the journal have their own
/// timeout.
pub const ANSWER: Duration = Duration::from_secs(5);

/// The interval of messages while the start of a service waits for its database.
const REPORT: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The end of the time that the start of a service may take.
    static START_DEADLINE: Instant;
}

/// Runs the start of a service. Its operations wait for a busy database until `limit` has passed, or for the usual
/// timeout if that is longer. Messages report the wait.
pub async fn with_store_timeout<T>(limit: Duration, start: impl Future<Output = T>) -> T {
    START_DEADLINE.scope(Instant::now() + limit, start).await
}

/// Runs an operation of several statements with the timeout.
///
/// # Errors
/// Returns the errors of `work`, or an I/O error after the timeout.
pub async fn within<T, E: From<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    timed(work).await.unwrap_or_else(|limit| {
        let message = format!("no response within {limit:?}");
        Err(Error::Io(io::Error::new(io::ErrorKind::TimedOut, message)).into())
    })
}

/// Runs `work` with the timeout.
///
/// # Errors
/// Returns the timeout after it has passed.
pub async fn timed<T>(work: impl Future<Output = T>) -> Result<T, Duration> {
    let Ok(deadline) = START_DEADLINE.try_with(|deadline| *deadline) else {
        return tokio::time::timeout(ANSWER, work).await.map_err(|_| ANSWER);
    };
    let limit = deadline.saturating_duration_since(Instant::now()).max(ANSWER);
    let (mut work, since) = (std::pin::pin!(work), Instant::now());
    loop {
        let left = limit.saturating_sub(since.elapsed());
        if let Ok(done) = tokio::time::timeout(left.min(REPORT), &mut work).await {
            return Ok(done);
        }
        let waited = since.elapsed();
        if waited >= limit {
            return Err(limit);
        }
        tracing::warn!(waited_s = waited.as_secs(), limit_s = limit.as_secs(), "waiting for the database");
    }
}

/// The pool of the server in use.
#[derive(Debug)]
struct ServerPool<D: Database> {
    pool: Pool<D>,
    /// Cancelled when another pool has taken its place.
    replaced: CancellationToken,
    /// Whether no server may be used now. Operations then wait for the next pool.
    is_refused: bool,
}

/// Replaces the pool of a [`TimedPool`].
#[derive(Debug)]
pub struct PoolSwitch<D: Database>(Arc<ArcSwap<ServerPool<D>>>);

impl<D: Database> PoolSwitch<D> {
    /// Uses another pool from now on. Operations on the old pool fail, as if its server had closed their connections.
    pub fn replace(&self, pool: Pool<D>) {
        self.install(pool, false);
    }

    /// Uses no server until the next pool is given.
    pub fn refuse(&self) {
        self.install(self.0.load().pool.clone(), true);
    }

    fn install(&self, pool: Pool<D>, is_refused: bool) {
        let next = ServerPool { pool, replaced: CancellationToken::new(), is_refused };
        let old = self.0.swap(Arc::new(next));
        old.replaced.cancel();
        // Closing waits for leased connections, and their users for a server that may not respond.
        drop(tokio::spawn(async move { tokio::time::timeout(ANSWER, old.pool.close()).await }));
    }
}

/// The place of the database of a pool, which decides what becomes of a connection whose state is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Location {
    /// On a server: the connection is closed without waiting for the server.
    Server,
    /// In a file: the connection is closed, which rolls back.
    File,
    /// In memory: the connection is kept, because closing it loses the data. The next transaction rolls back first.
    Memory,
}

/// A pool that applies the timeout to every statement.
#[derive(Debug)]
pub struct TimedPool<D: Database> {
    server: Arc<ArcSwap<ServerPool<D>>>,
    location: Location,
}

impl<D: Transactions> TimedPool<D> {
    /// Creates a pool of connections to a server.
    #[must_use]
    pub fn to_server(pool: Pool<D>) -> Self {
        Self::new(pool, Location::Server)
    }

    /// Creates a pool of connections to a file.
    #[must_use]
    pub fn to_file(pool: Pool<D>) -> Self {
        Self::new(pool, Location::File)
    }

    /// Creates a pool of one connection to memory, which is never closed early.
    #[must_use]
    pub fn to_memory(pool: Pool<D>) -> Self {
        Self::new(pool, Location::Memory)
    }

    fn new(pool: Pool<D>, location: Location) -> Self {
        let server = ServerPool { pool, replaced: CancellationToken::new(), is_refused: false };
        Self { server: Arc::new(ArcSwap::from_pointee(server)), location }
    }

    /// Returns the switch that replaces the pool.
    #[must_use]
    pub fn switch(&self) -> PoolSwitch<D> {
        PoolSwitch(self.server.clone())
    }

    /// Returns the pool of the server in use, without the timeout.
    #[must_use]
    pub fn pool(&self) -> Pool<D> {
        self.server.load().pool.clone()
    }

    /// Returns the token that is cancelled when another server has to be used, for connections outside of the pool.
    #[must_use]
    pub fn replaced(&self) -> CancellationToken {
        self.server.load().replaced.clone()
    }

    /// Returns a pool of one connection to the server in use, for a connection that is kept.
    #[must_use]
    pub fn dedicated(&self) -> Pool<D> {
        let server = self.server.load();
        let options = (*server.pool.connect_options()).clone();
        server.pool.options().clone().max_connections(1).connect_lazy_with(options)
    }

    /// Acquires a connection to the server in use. Starts again if another server has to be used meanwhile.
    ///
    /// # Errors
    /// Returns the errors of the pool, or [`Error::PoolTimedOut`] after the timeout.
    pub async fn pin(&self) -> Result<PinnedConnection<D>, Error> {
        // In a box, because the future of the pool is large, and every query contains it.
        let acquired = Box::pin(async {
            loop {
                let server = self.server.load_full();
                if server.is_refused {
                    server.replaced.cancelled().await;
                    continue;
                }
                let Some(acquired) = server.replaced.run_until_cancelled(server.pool.acquire()).await else { continue };
                match acquired {
                    Err(Error::PoolClosed) if server.replaced.is_cancelled() => {}
                    Ok(connection) => {
                        return Ok(PinnedConnection { connection, replaced: server.replaced.clone() });
                    }
                    Err(error) => return Err(error),
                }
            }
        });
        timed(acquired).await.unwrap_or(Err(Error::PoolTimedOut))
    }

    /// Leases a connection, see [`pin`](Self::pin).
    ///
    /// # Errors
    /// Returns the errors of [`pin`](Self::pin).
    pub async fn lease(&self) -> Result<TimedConnection<D>, Error> {
        let PinnedConnection { connection, replaced } = self.pin().await?;
        // A database in this process finishes a single statement even if nobody waits for it.
        let is_at_rest = self.location != Location::Server;
        Ok(TimedConnection { connection, replaced, location: self.location, is_at_rest })
    }

    /// Runs one statement with the timeout.
    ///
    /// # Errors
    /// Returns the errors of the statement, or an I/O error after the timeout.
    pub async fn run<T>(
        &self,
        work: impl for<'c> FnOnce(&'c mut D::Connection) -> BoxFuture<'c, Result<T, Error>>,
    ) -> Result<T, StoreError> {
        within(async {
            let mut lease = self.lease().await?;
            let replaced = lease.replaced.clone();
            let answer = replaced.run_until_cancelled(work(&mut lease)).await.unwrap_or_else(|| Err(other_server()));
            lease.answered(&answer);
            Ok(answer?)
        })
        .await
    }

    /// Runs one statement that writes, with the timeout. Returns only after its commit.
    ///
    /// # Errors
    /// Returns the errors of the statement and of its commit, or an I/O error after the timeout.
    pub async fn write<T>(
        &self,
        work: impl for<'c> FnOnce(&'c mut D::Connection) -> BoxFuture<'c, Result<T, Error>>,
    ) -> Result<T, StoreError> {
        if !D::IS_IN_PROCESS {
            return self.run(work).await;
        }
        let committed = within(async {
            let mut lease = self.lease().await?;
            lease.begin().await?;
            let done = work(&mut lease).await;
            lease.end(done.map(Some).map_err(StoreError::from)).await
        });
        committed.await?.ok_or(StoreError::Database(Error::RowNotFound))
    }

    /// Runs `work` in one transaction with the timeout: `Some` commits, `None` and an error roll back.
    ///
    /// # Errors
    /// Returns the errors of `work` and of the transaction, or an I/O error after the timeout.
    pub async fn transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut D::Connection) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        within(async {
            let mut lease = self.lease().await?;
            let replaced = lease.replaced.clone();
            // In a box, because the type of the future is too deep for the compiler otherwise.
            let whole = Box::pin(async {
                lease.begin().await?;
                let done = work(&mut lease).await;
                lease.end(done).await
            });
            replaced.run_until_cancelled(whole).await.unwrap_or_else(|| Err(other_server().into()))
        })
        .await
    }
}

fn other_server() -> Error {
    Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, "another database server took over"))
}

/// A connection that its user keeps, and that must not be used after another server took over.
#[derive(Debug)]
pub struct PinnedConnection<D: Database> {
    connection: PoolConnection<D>,
    replaced: CancellationToken,
}

impl<D: Database> PinnedConnection<D> {
    /// Returns `true` if another server took over.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.replaced.is_cancelled()
    }

    /// Runs `work` until another server takes over. Returns `None` then; its effect is unknown.
    pub async fn run<T>(&mut self, work: impl AsyncFnOnce(&mut PoolConnection<D>) -> T) -> Option<T> {
        self.replaced.clone().run_until_cancelled(work(&mut self.connection)).await
    }

    /// Closes the connection without a farewell, because its state is unknown.
    pub fn discard(self) {
        drop(self.connection.detach());
    }
}

/// A leased connection. If it is dropped during a statement, for example because its user timed out, or its state is
/// unknown for another reason, it is closed immediately and the pool opens another one. To a server, the pool would
/// otherwise wait for the response without a timeout and lack one connection until then.
#[derive(Debug)]
pub struct TimedConnection<D: Transactions> {
    connection: PoolConnection<D>,
    replaced: CancellationToken,
    location: Location,
    is_at_rest: bool,
}

impl<D: Transactions> TimedConnection<D> {
    /// Marks the connection as idle if `answer` shows that the server answered all statements, and will answer further
    /// ones.
    fn answered<T>(mut self, answer: &Result<T, Error>) {
        self.is_at_rest = answer.as_ref().err().is_none_or(|error| !D::is_unusable_after(error));
    }

    /// Begins a transaction that writes.
    ///
    /// # Errors
    /// Returns the errors of the database.
    pub async fn begin(&mut self) -> Result<(), StoreError> {
        self.is_at_rest = false;
        match D::begin(&mut self.connection).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.abandon_after(error.into()).await),
        }
    }

    /// Ends the transaction: commits after `Some`, and rolls back after `None` and after an error. Nothing that the
    /// transaction wrote may be acknowledged before. This is the only place that commits, apart from the journal's
    /// commits on a server.
    ///
    /// # Errors
    /// Returns the error of `done`, or of the database.
    pub async fn end<T>(&mut self, done: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
        let ended = match &done {
            Ok(Some(_)) => D::commit(&mut self.connection).await,
            Ok(None) => D::abandon(&mut self.connection).await,
            Err(_) => Ok(()),
        };
        match (done, ended) {
            (Err(error), _) => Err(self.abandon_after(error).await),
            (Ok(_), Err(error)) => Err(self.abandon_after(error.into()).await),
            (Ok(done), Ok(())) => {
                self.is_at_rest = true;
                Ok(done)
            }
        }
    }

    /// Rolls back after an error, and returns the error.
    async fn abandon_after(&mut self, error: StoreError) -> StoreError {
        let is_usable = match &error {
            StoreError::Database(error) => D::IS_IN_PROCESS && !D::is_unusable_after(error),
            _ => true,
        };
        self.is_at_rest = is_usable && D::abandon(&mut self.connection).await.is_ok();
        error
    }
}

impl<D: Transactions> Drop for TimedConnection<D> {
    fn drop(&mut self) {
        match self.location {
            Location::Memory => {}
            // Closing waits for the running statement and rolls back.
            Location::File if !self.is_at_rest => self.connection.close_on_drop(),
            Location::File => {}
            Location::Server => {
                // Returning a connection to the pool pings it first. If the future is dropped before the ping completes,
                // the connection is closed.
                let back = self.connection.return_to_pool();
                if self.is_at_rest
                    && let Ok(runtime) = tokio::runtime::Handle::try_current()
                {
                    drop(runtime.spawn(tokio::time::timeout(ANSWER, back)));
                }
            }
        }
    }
}

impl<D: Transactions> Deref for TimedConnection<D> {
    type Target = D::Connection;

    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}

impl<D: Transactions> DerefMut for TimedConnection<D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.connection
    }
}
