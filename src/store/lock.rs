//! One server a file: on SQLite the calls of any other server are taken for left behind, so there must be no other.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Held as long as a server uses the file. The system lets go of it however the process ends.
#[derive(Debug)]
pub struct ServerLock(#[expect(dead_code, reason = "held, never read")] File);

impl ServerLock {
    /// Takes the lock beside a database file.
    ///
    /// # Errors
    /// If another server has it, or the lock file cannot be made.
    pub fn take(database: &Path) -> Result<Self, StoreError> {
        let path = beside(database);
        let failed = |source| StoreError::Lock { path: path.clone(), source };
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Served { database: database.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_server_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("t.db");
        let first = ServerLock::take(&database).unwrap();
        let refused = ServerLock::take(&database).unwrap_err().to_string();
        assert!(refused.contains("t.db") && refused.contains("another server"), "{refused}");
        drop(first);
        ServerLock::take(&database).unwrap();
    }
}
