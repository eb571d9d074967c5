//! Timeouts for database access. A caller receives a result or an error in time even if the server hangs or the network
//! drops all packets. A connection that was abandoned during a statement is never reused.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Database, Error, Pool};

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

/// A pool that applies the timeout to every statement.
#[derive(Debug)]
pub struct TimedPool<D: Database> {
    pool: Pool<D>,
    is_remote: bool,
}

impl<D: Database> TimedPool<D> {
    /// Creates a pool of connections to a server.
    #[must_use]
    pub fn to_server(pool: Pool<D>) -> Self {
        Self { pool, is_remote: true }
    }

    /// Creates a pool of connections to a database in this process. They are never closed early, because closing a
    /// connection to memory loses its data.
    #[must_use]
    pub fn in_process(pool: Pool<D>) -> Self {
        Self { pool, is_remote: false }
    }

    /// Returns the pool without the timeout.
    #[must_use]
    pub fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    async fn lease(&self) -> Result<TimedConnection<D>, Error> {
        let connection = self.pool.acquire().await?;
        Ok(TimedConnection { connection, is_remote: self.is_remote, is_at_rest: false })
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
            let answer = work(&mut lease).await;
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
        })
        .await
    }
}

/// A leased connection. If it is dropped during a statement, for example because its user timed out, it is closed
/// immediately. Otherwise the pool would wait for the response without a timeout and lack one connection until then.
#[derive(Debug)]
pub struct TimedConnection<D: Database> {
    connection: PoolConnection<D>,
    is_remote: bool,
    is_at_rest: bool,
}

impl<D: Database> TimedConnection<D> {
    /// Marks the connection as idle if `answer` shows that the server answered all statements.
    pub fn answered<T>(mut self, answer: &Result<T, Error>) {
        self.is_at_rest = matches!(answer, Ok(_) | Err(Error::Database(_)));
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
