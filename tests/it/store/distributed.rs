//! The script that distributes the tables over a Citus cluster. Without Citus, the test defines its functions: they
//! check what Citus requires of a table and of a function.

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use toolpost::store::Store;

use crate::support::postgres::shared;

/// Fails for a table that Citus refuses: each unique index must contain the column, and no foreign key and no trigger may
/// exist. `colocate_with` must name an earlier table. A function must exist, with the argument that it is distributed by.
const CHECKS: &str = r"
CREATE TABLE distributed (name REGCLASS PRIMARY KEY, kind REGTYPE NOT NULL);
CREATE FUNCTION create_distributed_table(name REGCLASS, distribution_column TEXT, colocate_with TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    place SMALLINT;
    column_type REGTYPE;
BEGIN
    SELECT attnum, atttypid INTO STRICT place, column_type FROM pg_attribute WHERE attrelid = name AND attname = distribution_column;
    IF EXISTS (SELECT 1 FROM pg_index WHERE indrelid = name AND indisunique AND NOT place = ANY (indkey)) THEN
        RAISE EXCEPTION 'a unique index of % does not contain %', name, distribution_column;
    END IF;
    IF EXISTS (SELECT 1 FROM pg_constraint WHERE (conrelid = name OR confrelid = name) AND contype = 'f')
        OR EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = name) THEN
        RAISE EXCEPTION '% has a foreign key or a trigger', name;
    END IF;
    IF colocate_with <> 'none'
        AND NOT EXISTS (SELECT 1 FROM distributed AS d WHERE d.name = colocate_with::regclass AND d.kind = column_type) THEN
        RAISE EXCEPTION '% cannot be colocated with %', name, colocate_with;
    END IF;
    INSERT INTO distributed VALUES (name, column_type);
END $$;
CREATE FUNCTION create_distributed_function(
    function REGPROCEDURE, distribution_arg_name TEXT DEFAULT NULL, colocate_with TEXT DEFAULT NULL,
    force_delegation BOOLEAN DEFAULT FALSE
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF force_delegation AND NOT (SELECT proargnames[1] = distribution_arg_name FROM pg_proc WHERE oid = function) THEN
        RAISE EXCEPTION '% is not distributed by its first argument', function;
    END IF;
END $$;
";

#[tokio::test]
async fn tables_of_a_commit_can_be_distributed_by_shard() {
    requires_postgres!();
    let url = tokio::task::spawn_blocking(|| shared().create_database()).await.unwrap();
    drop(Store::open(&url).await.unwrap());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(CHECKS).execute(&mut connection).await.unwrap();
    let mut whole = connection.begin().await.unwrap();
    sqlx::raw_sql(include_str!("../../../deploy/citus/distribute.sql")).execute(&mut *whole).await.unwrap();
    // Every table that the functions of the journal write is distributed, except the claims of workers: they stay on the
    // coordinator, because a claim reads all shards of a queue.
    const WRITTEN: &str = "SELECT DISTINCT m[1] FROM pg_proc, regexp_matches(prosrc, '(?:INTO|UPDATE) (\\w+)(?: AS|\\s*\\(| SET)', 'g') AS m \
        WHERE proname LIKE 'journal%' AND to_regclass(m[1]) IS NOT NULL AND to_regclass(m[1]) NOT IN (SELECT name FROM distributed)";
    let left: Vec<String> = sqlx::query_scalar(AssertSqlSafe(WRITTEN)).fetch_all(&mut *whole).await.unwrap();
    assert_eq!(left, ["worker_calls"], "the tables that are written by commits but not distributed");
}
