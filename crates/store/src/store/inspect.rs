//! Read-only inspection of a database before it is used: nothing is created, migrated or changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::db::{Db, without_password};
use super::server::monitor::Monitor;
use super::server::url::{PgUrl, is_postgres};
use super::{StoreError, keys, lock, migrate, timeout};
use toolpost_core::domain::Time;

/// Time for which SQLite waits for a write of a running service.
const BUSY: Duration = Duration::from_secs(3);

/// The result of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// The SQLite file does not exist yet. The first start creates it.
    Missing {
        /// The file.
        file: PathBuf,
        /// The reason why it cannot be created, if any.
        fault: Option<String>,
    },
    /// The database responds.
    Present(Box<DatabaseInfo>),
}

/// Properties of a database that responds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// `SQLite` or `PostgreSQL`, with its version.
    pub product: String,
    /// The location, without a password.
    pub location: String,
    /// Number of applied migrations.
    pub applied: usize,
    /// Number of migrations that the next start applies.
    pub pending: usize,
    /// Number of unknown migrations, applied by a newer version.
    pub newer: usize,
    /// Number of migrations whose checksum changed since they were applied.
    pub changed: usize,
    /// The reason why the database cannot be written, if any.
    pub unwritable: Option<String>,
    /// Whether a running service uses the SQLite file.
    pub is_served: bool,
    /// Whether an API key was ever created, including revoked keys.
    pub has_keys: bool,
    /// The time of the database server; `None` on SQLite.
    pub now: Option<Time>,
}

/// Inspects the database.
///
/// # Errors
/// Returns an error if the URL is invalid or the database is unreachable.
pub async fn examine(url: &str) -> Result<Inspection, StoreError> {
    if is_postgres(url) {
        return timeout::within(Box::pin(postgres(url))).await;
    }
    if !url.starts_with("sqlite:") {
        return Err(StoreError::Url { url: without_password(url) });
    }
    match Db::file(url) {
        Some(file) if !file.exists() => {
            let fault = creation_error(&file).map(|error| error.to_string());
            Ok(Inspection::Missing { file, fault })
        }
        file => timeout::within(sqlite(url, file.as_deref())).await,
    }
}

/// Reads the migrations and keys, and tests write access in a transaction that is rolled back. `$begin` starts the
/// transaction.
macro_rules! inspect {
    ($connection:expr, $begin:expr, $version:expr, $folder:expr) => {{
        let version: String = sqlx::query_scalar($version).fetch_one(&mut $connection).await?;
        let rows = sqlx::query_as::<_, (i64, Vec<u8>)>("SELECT version, checksum FROM _sqlx_migrations WHERE success")
            .fetch_all(&mut $connection)
            .await;
        let applied: BTreeMap<i64, Vec<u8>> = match rows {
            Ok(rows) => rows.into_iter().collect(),
            // The database is new.
            Err(sqlx::Error::Database(_)) => BTreeMap::new(),
            Err(error) => return Err(error.into()),
        };
        let has_keys = match sqlx::query_scalar::<_, i64>(keys::ANY).fetch_one(&mut $connection).await {
            Ok(count) => count > 0,
            // The table does not exist yet.
            Err(sqlx::Error::Database(_)) => false,
            Err(error) => return Err(error.into()),
        };
        let written = async {
            sqlx::query($begin).execute(&mut $connection).await?;
            let made = sqlx::query("CREATE TABLE toolpost_doctor (x BIGINT)").execute(&mut $connection).await;
            sqlx::query("ROLLBACK").execute(&mut $connection).await?;
            made
        };
        let unwritable = written.await.err().map(|error| error.to_string());
        let known = migrate::known($folder);
        let changed = |(version, checksum): &(&i64, &Vec<u8>)| known.get(version).is_some_and(|own| own != *checksum);
        DatabaseInfo {
            product: version,
            location: String::new(),
            applied: applied.len(),
            pending: known.keys().filter(|version| !applied.contains_key(version)).count(),
            newer: applied.keys().filter(|version| !known.contains_key(version)).count(),
            changed: applied.iter().filter(changed).count(),
            unwritable,
            is_served: false,
            has_keys,
            now: None,
        }
    }};
}

async fn sqlite(url: &str, file: Option<&Path>) -> Result<Inspection, StoreError> {
    let options = SqliteConnectOptions::from_str(url).map_err(|_| StoreError::Url { url: url.to_owned() })?;
    let mut connection = options.busy_timeout(BUSY).disable_statement_logging().connect().await?;
    let found = inspect!(connection, "BEGIN IMMEDIATE", "SELECT 'SQLite ' || sqlite_version()", "sqlite/");
    connection.close().await?;
    let location = file
        .map_or_else(|| "in memory; all data is lost when the process ends".to_owned(), |at| at.display().to_string());
    let is_served = file.is_some_and(lock::is_held);
    Ok(Inspection::Present(Box::new(DatabaseInfo { location, is_served, ..found })))
}

async fn postgres(url: &str) -> Result<Inspection, StoreError> {
    let parsed = PgUrl::parse(url)?.with_application_name("toolpost doctor");
    let mut connection = if parsed.is_monitored() {
        Monitor::start(parsed).await?.1.reader.acquire().await?.detach()
    } else {
        parsed.hosts[0].options.connect().await?
    };
    let version = "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)";
    let found = inspect!(connection, "BEGIN", version, "postgres/");
    let now: i64 = sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(Inspection::Present(Box::new(DatabaseInfo { location: without_password(url), now: Some(Time(now)), ..found })))
}

/// Returns why the file cannot be created. Tests the closest existing folder, because the folder of the file may be
/// missing.
fn creation_error(file: &Path) -> Option<std::io::Error> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = absolute.ancestors().skip(1).find(|folder| folder.exists())?;
    let probe = folder.join(format!(".toolpost-doctor-{}", std::process::id()));
    let made = std::fs::File::options().write(true).create_new(true).open(&probe);
    match made {
        Ok(_) => std::fs::remove_file(&probe).err(),
        Err(error) => Some(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    async fn found(url: &str) -> DatabaseInfo {
        match examine(url).await.unwrap() {
            Inspection::Present(found) => *found,
            missing => panic!("{missing:?}"),
        }
    }

    #[tokio::test]
    async fn inspection_is_read_only_and_reports_pending_migrations() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/t.db");
        let url = format!("sqlite://{}", file.display());
        assert_eq!(examine(&url).await.unwrap(), Inspection::Missing { file: file.clone(), fault: None });
        assert!(folder.path().read_dir().unwrap().next().is_none(), "the folder stays empty");
        Store::open(&url).await.unwrap().close().await;
        let (known, looked) = (migrate::known("sqlite/").len(), found(&url).await);
        assert_eq!((looked.applied, looked.pending, looked.newer, looked.changed), (known, 0, 0, 0));
        assert_eq!((looked.unwritable, looked.is_served), (None, false));
        assert!(looked.product.starts_with("SQLite 3."), "{}", looked.product);
        assert!(!looked.has_keys);
        let _lock = lock::ServerLock::take(&file).await.unwrap();
        assert!(found(&url).await.is_served);
    }

    #[tokio::test]
    async fn unknown_and_changed_migrations_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("t.db").display());
        let store = Store::open(&url).await.unwrap();
        let statements = [
            "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 1",
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'newer', TRUE, x'00', 0)",
        ];
        for statement in statements {
            store.db().write(statement).execute().await.unwrap();
        }
        store.close().await;
        let looked = found(&url).await;
        assert_eq!((looked.pending, looked.newer, looked.changed), (0, 1, 1));
    }
}
