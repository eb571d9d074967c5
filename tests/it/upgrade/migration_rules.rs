//! The rule for migrations (CONTRIBUTING.md): they only add, so that nodes of the previous version keep working.

use super::migrations;
use crate::support::Backend;

/// Returns the first statement of a migration that removes something that running nodes use.
fn taken_away(sql: &str) -> Option<&'static str> {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let text = lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_uppercase();
    let words = ["DROP TABLE", "DROP COLUMN", "DROP FUNCTION", "RENAME ", "SET NOT NULL", "ALTER COLUMN"];
    if let Some(found) = words.into_iter().find(|words| text.contains(words)) {
        return Some(found);
    }
    let is_demanding = |statement: &str| {
        statement.contains("ADD COLUMN") && statement.contains("NOT NULL") && !statement.contains("DEFAULT")
    };
    text.split(';').any(is_demanding).then_some("ADD COLUMN … NOT NULL without DEFAULT")
}

#[test]
fn migrations_are_compatible_with_the_previous_version() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        for (number, name, sql) in migrations(backend) {
            assert_eq!(
                taken_away(&sql),
                None,
                "{number:04}_{name} ({backend:?}): expand first, contract a version later"
            );
        }
    }
}

#[test]
fn incompatible_migrations_are_detected() {
    for sql in [
        "ALTER TABLE a\n    DROP COLUMN b;",
        "drop table a",
        "ALTER TABLE a RENAME TO b",
        "ALTER TABLE a ADD COLUMN b TEXT NOT NULL;",
        "ALTER TABLE a ALTER COLUMN b TYPE BIGINT",
    ] {
        assert!(taken_away(sql).is_some(), "{sql}");
    }
    for sql in ["ALTER TABLE a ADD COLUMN b TEXT; -- DROP TABLE a", "ALTER TABLE a ADD COLUMN b INT NOT NULL DEFAULT 0"]
    {
        assert_eq!(taken_away(sql), None, "{sql}");
    }
}
