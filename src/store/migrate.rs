//! Brings a database to the newest version at start.

use std::collections::BTreeMap;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::{Db, StoreError};

/// `migrations/{sqlite,postgres}/NNNN_name.sql`, compiled in: same numbers, same tables, same columns.
#[derive(rust_embed::RustEmbed)]
#[folder = "migrations/"]
struct Files;

pub(super) async fn run(db: &Db) -> Result<(), StoreError> {
    match db {
        Db::Sqlite(pools) => {
            // Nothing else stops two processes from both finding an empty file; on Postgres sqlx takes a lock itself.
            let mut alone = pools.writer.pool().begin_with("BEGIN IMMEDIATE").await?;
            // Hidden in sqlx's documents, but its own way around `run` not being general enough here.
            migrator("sqlite/").run_direct(None, &mut *alone, false).await?;
            alone.commit().await?;
        }
        Db::Postgres(pools) => {
            let mut connection = pools.writer.pool().acquire().await?;
            // A migration may take its time.
            sqlx::query("SET statement_timeout = 0").execute(&mut *connection).await?;
            migrator("postgres/").run_direct(None, &mut *connection, false).await?;
            sqlx::query("RESET statement_timeout").execute(&mut *connection).await?;
        }
    }
    Ok(())
}

/// The migrations that this program knows, each with its checksum. `folder` is `sqlite/` or `postgres/`.
pub(super) fn known(folder: &str) -> BTreeMap<i64, Vec<u8>> {
    migrator(folder).iter().map(|one| (one.version, one.checksum.to_vec())).collect()
}

fn migrator(folder: &str) -> Migrator {
    let found = Files::iter().filter_map(|path| {
        let (number, name) = path.strip_prefix(folder)?.strip_suffix(".sql")?.split_once('_')?;
        let sql = String::from_utf8(Files::get(&path)?.data.into_owned()).ok()?;
        let sql = AssertSqlSafe(sql).into_sql_str();
        Some(Migration::new(number.parse().ok()?, name.to_owned().into(), MigrationType::Simple, sql, false))
    });
    let mut migrator = Migrator::with_migrations(found.collect());
    // A newer version may have been here: its migrations take nothing away from this one.
    migrator.set_ignore_missing(true);
    migrator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations_and_none_is_misnamed() {
        let numbers = |folder| migrator(folder).iter().map(|one| one.version).collect::<Vec<_>>();
        let files = |folder: &str| Files::iter().filter(|path| path.starts_with(folder)).count();
        assert_eq!(numbers("sqlite/"), numbers("postgres/"));
        assert_eq!(numbers("sqlite/").len(), files("sqlite/"));
        assert_eq!(numbers("postgres/").len(), files("postgres/"));
    }
}
