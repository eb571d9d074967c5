//! The full contents of a database as bytes.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::support::{Backend, Database};

/// Returns all rows of all tables as text, with bytes in hex.
pub async fn rows(backend: Backend, database: &Database) -> Vec<u8> {
    let mut all = String::new();
    match backend {
        Backend::Sqlite => {
            let mut connection = SqliteConnection::connect(&database.url).await.unwrap();
            let tables = "SELECT name FROM sqlite_master WHERE type = 'table'";
            let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
            for table in tables {
                let columns = format!("SELECT name FROM pragma_table_info('{table}')");
                let columns: Vec<String> =
                    sqlx::query_scalar(AssertSqlSafe(columns)).fetch_all(&mut connection).await.unwrap();
                // Returns text unquoted, because SQL quoting would double the quotes in it.
                let plain = |column: &String| {
                    format!(
                        "CASE typeof(\"{column}\") WHEN 'blob' THEN hex(\"{column}\") ELSE ifnull(\"{column}\", '') END"
                    )
                };
                let plain: Vec<String> = columns.iter().map(plain).collect();
                let rows = format!("SELECT {} FROM \"{table}\"", plain.join(" || '|' || "));
                let rows: Vec<String> =
                    sqlx::query_scalar(AssertSqlSafe(rows)).fetch_all(&mut connection).await.unwrap();
                rows.iter().for_each(|row| all.push_str(&format!("{table} {row}\n")));
            }
        }
        Backend::Postgres => {
            let mut connection = PgConnection::connect(&database.url).await.unwrap();
            let tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'";
            let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
            for table in tables {
                let columns = "SELECT column_name::text FROM information_schema.columns WHERE table_name = $1";
                let columns: Vec<String> =
                    sqlx::query_scalar(columns).bind(&table).fetch_all(&mut connection).await.unwrap();
                let plain: Vec<String> = columns.iter().map(|column| format!("\"{column}\"::text")).collect();
                let rows = format!("SELECT concat_ws('|', {}) FROM \"{table}\"", plain.join(", "));
                let rows: Vec<String> =
                    sqlx::query_scalar(AssertSqlSafe(rows)).fetch_all(&mut connection).await.unwrap();
                rows.iter().for_each(|row| all.push_str(&format!("{table} {row}\n")));
            }
        }
    }
    assert!(all.contains("tool_presets ") && all.contains("calls "), "the dump is empty");
    all.into_bytes()
}

/// Returns the files of an SQLite database, including its log; empty for a database server.
pub fn files(backend: Backend, database: &Database) -> Vec<u8> {
    if backend == Backend::Postgres {
        return Vec::new();
    }
    let path = database.url.trim_start_matches("sqlite://");
    let mut bytes = std::fs::read(path).expect("the database's file");
    bytes.extend(std::fs::read(format!("{path}-wal")).unwrap_or_default());
    bytes
}
