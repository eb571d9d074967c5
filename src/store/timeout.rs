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
use sqlx::{Connection, Database, Error, Pool};
use tokio_util::sync::CancellationToken;

use super::StoreError;

/// Timeout for a database operation, including the wait for a connection. Commits of the journal have their own
/// timeout.
pub const ANSWER: Duration = Duration::from_secs(5);

/// Runs an operation of several statements with the timeout.
///
/// # Errors
/// Returns the errors of `work`, or an I/O error after the timeout.
pub async fn within<T, E: From<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let no_answer = || Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no response within {ANSWER:?}")));
    tokio::time::timeout(ANSWER, work).await.unwrap_or_else(|_| Err(no_answer().into()))
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

/// A pool that applies the timeout to every statement.
#[derive(Debug)]
pub struct TimedPool<D: Database> {
    server: Arc<ArcSwap<ServerPool<D>>>,
    is_remote: bool,
}

impl<D: Database> TimedPool<D> {
    /// Creates a pool of connections to a server.
    #[must_use]
    pub fn to_server(pool: Pool<D>) -> Self {
        Self::new(pool, true)
    }

    /// Creates a pool of connections to a database in this process. They are never closed early, because closing a
    /// connection to memory loses its data.
    #[must_use]
    pub fn in_process(pool: Pool<D>) -> Self {
        Self::new(pool, false)
    }

    fn new(pool: Pool<D>, is_remote: bool) -> Self {
        let server = ServerPool { pool, replaced: CancellationToken::new(), is_refused: false };
        Self { server: Arc::new(ArcSwap::from_pointee(server)), is_remote }
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
        tokio::time::timeout(ANSWER, acquired).await.unwrap_or(Err(Error::PoolTimedOut))
    }

    async fn lease(&self) -> Result<TimedConnection<D>, Error> {
        let PinnedConnection { connection, replaced } = self.pin().await?;
        Ok(TimedConnection { connection, replaced, is_remote: self.is_remote, is_at_rest: false })
    }

    /// Runs one statement with the timeout.
    ///
    /// # Errors
    /// Returns the errors of the statement, or an I/O error after the timeout.
    pub async fn run<T>(
        &self,
        work: impl for<'c> FnOnce(&'c mut D::Connection) -> BoxFuture<'c, Result<T, Error>>,
    ) -> Result<T, Error> {
        within(async {
            let mut lease = self.lease().await?;
            let replaced = lease.replaced.clone();
            let answer = replaced.run_until_cancelled(work(&mut lease)).await.unwrap_or_else(|| Err(other_server()));
            lease.answered(&answer);
            answer
        })
        .await
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
                let mut transaction = lease.begin().await?;
                let done = work(&mut transaction).await;
                match &done {
                    Ok(Some(_)) => transaction.commit().await?,
                    // The state of the connection is unknown.
                    Err(StoreError::Database(_)) => return done,
                    Ok(None) | Err(_) => transaction.rollback().await?,
                }
                lease.answered(&Ok(()));
                done
            });
            replaced.run_until_cancelled(whole).await.unwrap_or_else(|| Err(other_server().into()))
        })
        .await
    }
}

fn other_server() -> Error {
    Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, "another database server took over"))
}

/// Returns `true` for an error after which the server does not serve this connection: the connection failed, or the server
/// stops, or it became read-only because it is no longer the primary.
fn is_unusable_after(error: &Error) -> bool {
    let Error::Database(error) = error else { return true };
    error.code().is_some_and(|code| code.starts_with("08") || code.starts_with("57P") || code == "25006")
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

/// A leased connection. If it is dropped during a statement, for example because its user timed out, it is closed
/// immediately. Otherwise the pool would wait for the response without a timeout and lack one connection until then.
#[derive(Debug)]
pub struct TimedConnection<D: Database> {
    connection: PoolConnection<D>,
    replaced: CancellationToken,
    is_remote: bool,
    is_at_rest: bool,
}

impl<D: Database> TimedConnection<D> {
    /// Marks the connection as idle if `answer` shows that the server answered all statements, and will answer further
    /// ones.
    pub fn answered<T>(mut self, answer: &Result<T, Error>) {
        self.is_at_rest = answer.as_ref().err().is_none_or(|error| !is_unusable_after(error));
    }
}

impl<D: Database> Drop for TimedConnection<D> {
    fn drop(&mut self) {
        if !self.is_remote {
            return;
        }
        // Returning a connection to the pool pings it first. If the future is dropped before the ping completes, the
        // connection is closed.
        let back = self.connection.return_to_pool();
        if self.is_at_rest
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(tokio::time::timeout(ANSWER, back)));
        }
    }
}

impl<D: Database> Deref for TimedConnection<D> {
    type Target = D::Connection;

    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}

impl<D: Database> DerefMut for TimedConnection<D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.connection
    }
}
