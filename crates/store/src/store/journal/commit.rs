//! The result of one commit.

use std::time::Duration;

use crate::store::StoreError;

/// Timeout for a commit on Postgres. Afterwards the connection is dropped and the result of the commit is looked up.
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Finds a commit whose result is unknown, behind a position of its shard that was known before it. Returns its first
/// position.
pub(super) const FIND_COMMIT: &str = "SELECT first_pos FROM commits WHERE shard = $1 AND last_pos > $2 AND id = $3";

/// A failed commit, or a commit whose result is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    /// The guards of some rows rejected the write; nothing was written.
    #[error("not all rows were written")]
    NotAllWritten,
    /// There is no partition for a row; nothing was written.
    #[error("the partition for the time of a call is missing")]
    NoPartition,
    /// The server did not respond in time; the commit may have succeeded.
    #[error("no response within {COMMIT_TIMEOUT:?}")]
    TimedOut,
    /// The database returned an error, or the connection failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Database(error) => Self::Database(error),
            _ => Self::TimedOut,
        }
    }
}

/// The position before the first event of the commit, or the reason why the commit failed.
pub(super) type CommitResult = Result<i64, CommitError>;

/// Returns `true` if the same commit may succeed later.
pub(super) fn is_transient(error: &CommitError) -> bool {
    let CommitError::Database(error) = error else {
        return matches!(error, CommitError::TimedOut | CommitError::NoPartition);
    };
    match error {
        sqlx::Error::Database(error) => match error.code().as_deref() {
            // Invalid data, constraint violation, syntax or access error, exceeded limit, or an exception of a trigger.
            Some(code) if code.len() == 5 => !matches!(&code[..2], "22" | "23" | "42" | "54" | "P0"),
            // SQLite's constraint, too big, mismatch, misuse and range; the low byte is the primary code.
            Some(code) => code.parse::<u32>().is_ok_and(|code| !matches!(code & 0xff, 18..=21 | 25)),
            None => true,
        },
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}
