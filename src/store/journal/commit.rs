//! How one commit ends.

use std::time::Duration;

/// How long a commit on a server may take before its connection is given up and its end looked up.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Why a commit was not made, or may not have been.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    /// Some rows were refused by their guards; nothing was written.
    #[error("not all rows were written")]
    NotAllWritten,
    /// The server did not answer in time.
    #[error("no answer within {PATIENCE:?}")]
    TimedOut,
    /// The database said no, or nothing.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The position before the commit's first event.
pub(super) type CommitResult = Result<i64, CommitError>;
