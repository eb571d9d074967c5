//! The result of one commit.

use std::time::Duration;

/// Timeout for a commit on Postgres. Afterwards the connection is dropped and the result of the commit is looked up.
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A failed commit, or a commit whose result is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    /// The guards of some rows rejected the write; nothing was written.
    #[error("not all rows were written")]
    NotAllWritten,
    /// The server did not respond in time; the commit may have succeeded.
    #[error("no response within {COMMIT_TIMEOUT:?}")]
    TimedOut,
    /// The database returned an error, or the connection failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The position before the first event of the commit, or the reason why the commit failed.
pub(super) type CommitResult = Result<i64, CommitError>;
