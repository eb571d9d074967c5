//! Asking the database within a bound: whoever asks has an answer or an error in time, also while a server stands still or
//! the network swallows everything, and a connection that was given up in the middle is never used again.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use sqlx::pool::PoolConnection;
use sqlx::{Database, Either, Error, Execute, Executor, Pool, SqlStr};

/// How long anything that is asked of the database may take, the wait for a connection included. The journal's commits
/// have a bound of their own.
pub const ANSWER: Duration = Duration::from_secs(5);

/// Does what takes more than one statement within the bound.
///
/// # Errors
/// Those of `work`, or that there was no answer in time.
pub async fn within<T, E: From<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let no_answer = || Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no response within {ANSWER:?}")));
    tokio::time::timeout(ANSWER, work).await.unwrap_or_else(|_| Err(no_answer().into()))
}

/// A pool whose every statement is bounded.
#[derive(Debug)]
pub struct TimedPool<D: Database> {
    pool: Pool<D>,
    is_remote: bool,
}

impl<D: Database> Clone for TimedPool<D> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), is_remote: self.is_remote }
    }
}

impl<D: Database> TimedPool<D> {
    /// Connections to a server.
    #[must_use]
    pub fn to_server(pool: Pool<D>) -> Self {
        Self { pool, is_remote: true }
    }

    /// Connections to a database in this process, which stay: to close the one to memory would be to lose it all.
    #[must_use]
    pub fn in_process(pool: Pool<D>) -> Self {
        Self { pool, is_remote: false }
    }

    /// The connections without the bound.
    #[must_use]
    pub fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// A connection for several statements, which stand [`within`] the bound together.
    ///
    /// # Errors
    /// If there is none to be had.
    pub async fn lease(&self) -> Result<TimedConnection<D>, Error> {
        let connection = self.pool.acquire().await?;
        Ok(TimedConnection { connection, is_remote: self.is_remote, is_at_rest: false })
    }
}

/// A connection in use. One that is dropped before it is at rest, as when its user no longer waits, is closed at once:
/// the pool would wait for its answer without a bound, and be one short until then.
#[derive(Debug)]
pub struct TimedConnection<D: Database> {
    connection: PoolConnection<D>,
    is_remote: bool,
    is_at_rest: bool,
}

impl<D: Database> TimedConnection<D> {
    /// All that was asked has been answered in this way.
    pub fn answered<T>(mut self, answer: &Result<T, Error>) {
        self.is_at_rest = matches!(answer, Ok(_) | Err(Error::Database(_)));
    }
}

impl<D: Database> Drop for TimedConnection<D> {
    fn drop(&mut self) {
        if !self.is_remote {
            return;
        }
        // Asks once more whether the connection is well, and has it closed if it is dropped before that is known.
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

impl<'p, D: Database> Executor<'p> for &'_ TimedPool<D>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    type Database = D;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<D::QueryResult, D::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, D>,
    {
        let pool = self.clone();
        let answer = within(async move {
            let mut lease = pool.lease().await?;
            let answer = lease.fetch_many(query).try_collect::<Vec<_>>().await;
            lease.answered(&answer);
            answer
        });
        stream::once(answer).map_ok(|steps| stream::iter(steps.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<D::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, D>,
    {
        let pool = self.clone();
        within(async move {
            let mut lease = pool.lease().await?;
            let answer = lease.fetch_optional(query).await;
            lease.answered(&answer);
            answer
        })
        .boxed()
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [D::TypeInfo]) -> BoxFuture<'e, Result<D::Statement, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        within(async move {
            let mut lease = pool.lease().await?;
            let answer = lease.prepare_with(sql, parameters).await;
            lease.answered(&answer);
            answer
        })
        .boxed()
    }
}
