//! A file lock that permits one server per SQLite file: on SQLite a server treats the calls of any other server as
//! orphaned.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::StoreError;

/// Maximum wait for another server to release the lock.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between attempts.
const INTERVAL: Duration = Duration::from_millis(50);

/// A lock held while a server uses the file. The operating system releases it when the process ends.
#[derive(Debug)]
pub struct ServerLock(#[expect(dead_code, reason = "held, never read")] File);

impl ServerLock {
    /// Acquires the lock file next to a database file. Waits briefly for a server that is shutting down.
    ///
    /// # Errors
    /// Returns an error if another server holds the lock, or the lock file cannot be created.
    pub async fn take(database: &Path) -> Result<Self, StoreError> {
        let path = lock_path(database);
        let failed = |source| StoreError::Lock { path: path.clone(), source };
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => tokio::time::sleep(INTERVAL).await,
                Err(TryLockError::WouldBlock) => return Err(StoreError::Served { database: database.to_owned() }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }
}

/// Returns `true` if a server uses this database file.
#[must_use]
pub fn is_held(database: &Path) -> bool {
    let file = File::options().append(true).open(lock_path(database));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn file_has_one_server_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("t.db");
        let first = ServerLock::take(&database).await.unwrap();
        let refused = ServerLock::take(&database).await.unwrap_err().to_string();
        assert!(refused.contains("t.db") && refused.contains("another server"), "{refused}");
        drop(first);
        ServerLock::take(&database).await.unwrap();
    }
}
