//! The error of all operations of the store.

use std::path::PathBuf;

use super::transactions;
use toolpost_core::domain::tenant::QuotaResource;

/// An error returned by the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL is not a supported database URL.
    #[error("`{url}` is not a database URL: use sqlite::memory:, sqlite://PATH or postgres://USER@HOST/DATABASE")]
    Url {
        /// The URL, without a password.
        url: String,
    },
    /// A part of the URL of a Postgres database is invalid.
    #[error("invalid database URL: {fault}")]
    PostgresUrl {
        /// The invalid part, without a password.
        fault: String,
    },
    /// None of the hosts of the URL can be used.
    #[error("no usable database server: {}", faults.join("; "))]
    NoServer {
        /// The reason for each host.
        faults: Vec<String>,
    },
    /// The folder of the SQLite file cannot be created.
    #[error("cannot create the folder {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another server uses the SQLite file.
    #[error(
        "another server uses {}; stop it, configure another file, or share a Postgres database",
        database.display()
    )]
    Served {
        /// The file.
        database: PathBuf,
    },
    /// The lock file next to the database cannot be locked.
    #[error("cannot acquire the lock {}: {source}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A migration failed.
    #[error("cannot migrate the database: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database returned an error or is unreachable.
    #[error("database error: {0}")]
    Database(#[from] sqlx::Error),
    /// The quota of the tenant is reached.
    #[error("the limit of {max} {} is reached", what.words())]
    TooMany {
        /// The resource of the quota.
        what: QuotaResource,
        /// The maximum number.
        max: u32,
    },
    /// A stored row cannot be read.
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Returns `true` if the database cannot write because its disk is full or broken. Reads may still succeed.
    #[must_use]
    pub fn is_of_disk(&self) -> bool {
        let Self::Database(error) = self else { return false };
        // SQLite: disk I/O error, and full.
        transactions::primary_code(error).is_some_and(|code| matches!(code, 10 | 13))
    }
}
