//! Applies pending migrations at start.

use std::collections::BTreeMap;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::{Db, StoreError};

/// `migrations/{sqlite,postgres}/NNNN_name.sql`, compiled in. Both folders have the same numbers, tables and columns.
#[derive(rust_embed::RustEmbed)]
#[folder = "migrations/"]
struct Files;

pub(super) async fn run(db: &Db) -> Result<(), StoreError> {
    let migrator = match db {
        Db::Sqlite(_) => migrator("sqlite/"),
        Db::Postgres(_) => migrator("postgres/"),
    };
    apply(db, &migrator).await
}

async fn apply(db: &Db, migrator: &Migrator) -> Result<(), StoreError> {
    if has_nothing_to_do(db, migrator).await {
        return Ok(());
    }
    match db {
        Db::Sqlite(pools) => {
            // Otherwise two processes could both find an empty file. On Postgres sqlx acquires a lock itself.
            let mut alone = pools.writer.pool().begin_with("BEGIN IMMEDIATE").await?;
            // `run_direct` is hidden in the documentation of sqlx, but the lifetimes of `run` are too restrictive here.
            migrator.run_direct(None, &mut *alone, false).await?;
            alone.commit().await?;
        }
        Db::Postgres(pools) => {
            let pool = pools.writer.dedicated();
            let mut connection = pool.acquire().await?;
            // A migration may take longer than the statement timeout.
            sqlx::query("SET statement_timeout = 0").execute(&mut *connection).await?;
            migrator.run_direct(None, &mut *connection, false).await?;
            connection.close().await?;
        }
    }
    Ok(())
}

/// Returns `true` if all migrations were applied as they are. This is one query, so that most starts need no lock and no
/// connection of their own. Whatever else is found is examined under the lock.
async fn has_nothing_to_do(db: &Db, migrator: &Migrator) -> bool {
    const APPLIED: &str = "SELECT version, checksum, success FROM _sqlx_migrations";
    let applied: Result<Vec<(i64, Vec<u8>, bool)>, _> = db.read(APPLIED).all().await;
    // On a new database, the table does not exist.
    let Ok(applied) = applied else { return false };
    let is_applied = |one: &Migration| {
        applied.iter().any(|(version, checksum, _)| *version == one.version && **checksum == *one.checksum)
    };
    applied.iter().all(|(.., success)| *success) && migrator.iter().all(is_applied)
}

/// Returns the versions and checksums of the known migrations. `folder` is `sqlite/` or `postgres/`.
pub(super) fn known(folder: &str) -> BTreeMap<i64, Vec<u8>> {
    migrator(folder).iter().map(|one| (one.version, one.checksum.to_vec())).collect()
}

fn migrator(folder: &str) -> Migrator {
    let found = Files::iter().filter_map(|path| {
        let (number, name) = path.strip_prefix(folder)?.strip_suffix(".sql")?.split_once('_')?;
        let sql = String::from_utf8(Files::get(&path)?.data.into_owned()).ok()?;
        Some(migration(number.parse().ok()?, name, sql))
    });
    build_migrator(found.collect())
}

fn migration(number: i64, name: &str, sql: String) -> Migration {
    Migration::new(number, name.to_owned().into(), MigrationType::Simple, AssertSqlSafe(sql).into_sql_str(), false)
}

fn build_migrator(migrations: Vec<Migration>) -> Migrator {
    let mut migrator = Migrator::with_migrations(migrations);
    // A newer version may have used the database; its migrations remain compatible with this version.
    migrator.set_ignore_missing(true);
    migrator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations() {
        let numbers = |folder| migrator(folder).iter().map(|one| one.version).collect::<Vec<_>>();
        let files = |folder: &str| Files::iter().filter(|path| path.starts_with(folder)).count();
        assert_eq!(numbers("sqlite/"), numbers("postgres/"));
        assert_eq!(numbers("sqlite/").len(), files("sqlite/"));
        assert_eq!(numbers("postgres/").len(), files("postgres/"));
    }

    #[tokio::test]
    async fn pending_migration_keeps_existing_rows() {
        let old = || migration(1, "old", "CREATE TABLE notes (id INTEGER PRIMARY KEY)".to_owned());
        let new = || migration(2, "new", "ALTER TABLE notes ADD COLUMN text TEXT NOT NULL DEFAULT '-'".to_owned());
        let db = Db::open("sqlite::memory:").await.unwrap();
        let insert = async |id: i64| {
            db.write("INSERT INTO notes (id) VALUES ($1)").bind(id).execute().await.unwrap();
        };
        apply(&db, &build_migrator(vec![old()])).await.unwrap();
        insert(1).await;
        apply(&db, &build_migrator(vec![old(), new()])).await.unwrap();
        // A node of the old version still writes.
        insert(2).await;
        let rows: Vec<(i64, String)> = db.write("SELECT id, text FROM notes ORDER BY id").all().await.unwrap();
        assert_eq!(rows, [(1, "-".to_owned()), (2, "-".to_owned())]);
        apply(&db, &build_migrator(vec![old()])).await.expect("the old version starts again");
        let other = migration(1, "other", "CREATE TABLE letters (id INTEGER PRIMARY KEY)".to_owned());
        let error = apply(&db, &build_migrator(vec![other])).await.unwrap_err().to_string();
        assert!(error.contains("migration 1 was previously applied but has been modified"), "{error}");
    }
}
