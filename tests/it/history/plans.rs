//! Every filter is answered from an index, also if the table is large.

use sqlx::AssertSqlSafe;
use toolpost::domain::{Code, Phase, Status, Time};
use toolpost::store::calls::CallFilter;
use toolpost::store::history::HistoryFilter;
use toolpost::store::{Db, Store};
use uuid::Uuid;

use crate::support::{Backend, Database};

/// The number of stored calls.
const CALLS: u32 = 20_000;

/// Returns the statements that fill the tables.
fn statements(backend: Backend) -> [String; 3] {
    let (numbers, id, word) = match backend {
        Backend::Postgres => (
            format!("SELECT generate_series(1, {CALLS}) AS g"),
            "(lpad(to_hex(1700000000000 + g), 12, '0') || '70008000' || lpad(to_hex(g * 4096), 12, '0'))::uuid",
            "hashint8(g % 1000)",
        ),
        Backend::Sqlite => (
            format!(
                "WITH RECURSIVE n (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM n WHERE g < {CALLS}) SELECT g FROM n"
            ),
            "unhex(printf('%012x70008000%012x', 1700000000000 + g, g * 4096))",
            "(g % 1000) * 7919",
        ),
    };
    let calls = format!(
        "INSERT INTO tool_calls (shard, id, tenant, session, batch_id, tool, status, attempt, node, created_at, accepted_pos, \
         arguments, record, seq, code, slow, parent) SELECT 0, {id}, CASE WHEN g % 100 = 0 THEN 'default' ELSE 'other' END, \
         CASE WHEN g % 3 = 0 THEN 's' || g % 50 END, CASE WHEN g % 5 = 0 THEN {id} END, 't' || g % 40, \
         CASE WHEN g % 50 = 0 THEN 3 WHEN g % 999 = 0 THEN 1 ELSE 2 END, 1, 'n', (1700000000000 + g) * 1000, g, '{{}}', '{{}}', 2, \
         CASE WHEN g % 50 = 0 THEN g % 15 END, CASE WHEN g % 2 = 0 THEN g % 60 END, CASE WHEN g % 70 = 0 THEN {id} END \
         FROM ({numbers}) AS numbers"
    );
    let words =
        format!("INSERT INTO call_words (period, word, newest) SELECT g % 4, {word}, {id} FROM ({numbers}) AS numbers");
    [calls, words, "ANALYZE".to_owned()]
}

/// Returns a filter of each kind, with its name and the index that answers it.
fn filters() -> Vec<(&'static str, &'static str, HistoryFilter)> {
    let (some, calls) = (HistoryFilter::default, CallFilter::default);
    let of = |calls: CallFilter| HistoryFilter { calls, ..HistoryFilter::default() };
    let time = Some(Time(1_700_000_010_000_000));
    vec![
        ("none", "tool_calls_by_tenant", some()),
        ("session", "tool_calls_by_session", of(CallFilter { session: Some("s6".to_owned()), ..calls() })),
        ("batch", "tool_calls_by_batch", of(CallFilter { batch_id: Some(Uuid::nil()), ..calls() })),
        ("name", "tool_calls_by_tool", of(CallFilter { name: Some("t3".to_owned()), ..calls() })),
        ("wait", "tool_calls_not_well", of(CallFilter { status: Some(Status::Wait), ..calls() })),
        ("doing", "tool_calls_not_well", of(CallFilter { status: Some(Status::Doing), ..calls() })),
        ("success", "tool_calls_by_tenant", of(CallFilter { status: Some(Status::Success), ..calls() })),
        ("error", "tool_calls_by_code", of(CallFilter { status: Some(Status::Error), ..calls() })),
        ("since", "tool_calls_by_tenant", of(CallFilter { since: time, ..calls() })),
        ("until", "tool_calls_by_tenant", of(CallFilter { until: time, ..calls() })),
        ("cursor", "tool_calls_by_tenant", of(CallFilter { before: Some(Uuid::max()), ..calls() })),
        ("code", "tool_calls_by_code", HistoryFilter { code: Some(Code::ToolTimeout), ..some() }),
        ("phase", "tool_calls_not_well", HistoryFilter { phase: Some(Phase::External), ..some() }),
        ("done", "tool_calls_by_tenant", HistoryFilter { phase: Some(Phase::Done), ..some() }),
        ("parent", "tool_calls_by_parent", HistoryFilter { parent: Some(Uuid::nil()), ..some() }),
        ("duration", "tool_calls_by_duration", HistoryFilter { min_duration_ms: Some(1000), ..some() }),
        ("words", "call_words", HistoryFilter { words: vec!["a".to_owned(), "b".to_owned()], ..some() }),
    ]
}

/// Returns the name of an index as the plans show it: Postgres names the indexes of partitions by their columns.
fn of_partition(backend: Backend, index: &'static str) -> &'static str {
    match index {
        _ if backend == Backend::Sqlite => index,
        "tool_calls_by_tenant" => "tool_calls_0_tenant_id_idx",
        "tool_calls_by_session" => "tool_calls_0_tenant_session_id_idx",
        "tool_calls_by_batch" => "tool_calls_0_batch_id_idx",
        "tool_calls_by_tool" => "tool_calls_0_tenant_tool_id_idx",
        "tool_calls_by_code" => "tool_calls_0_tenant_code_id_idx",
        "tool_calls_by_duration" => "tool_calls_0_tenant_slow_id_idx",
        "tool_calls_by_parent" => "tool_calls_0_parent_id_idx",
        "tool_calls_not_well" => "tool_calls_0_status_id_idx",
        other => other,
    }
}

on_both_databases!(
    async fn no_filter_scans_a_table(backend: Backend) {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        store.create_partitions(Time(1_700_000_000_000_000), u64::MAX).await.unwrap();
        for statement in statements(backend) {
            let statement = AssertSqlSafe(statement);
            match store.db() {
                Db::Sqlite(pools) => drop(sqlx::raw_sql(statement).execute(&pools.writer.pool()).await.unwrap()),
                Db::Postgres(pools) => drop(sqlx::raw_sql(statement).execute(&pools.reader.pool()).await.unwrap()),
            }
        }
        for (name, index, filter) in filters() {
            for plan in store.history_plans(&filter).await.unwrap() {
                assert!(plan.contains(of_partition(backend, index)), "{name}:\n{plan}");
                match backend {
                    Backend::Postgres => {
                        assert!(!plan.contains("Seq Scan") && plan.contains("Index"), "{name}:\n{plan}");
                    }
                    Backend::Sqlite => {
                        let is_scan = |line: &str| line.contains("SCAN tool_calls") || line.contains("SCAN call_words");
                        assert!(!plan.lines().any(is_scan) && plan.contains("SEARCH"), "{name}:\n{plan}");
                        let sorts = plan.matches("USE TEMP B-TREE FOR ORDER BY").count();
                        let is_merged = plan.contains("part_0") || name == "words" || name == "batch";
                        assert!(sorts == 0 || is_merged, "{name}:\n{plan}");
                    }
                }
            }
        }
    }
);

/// The store recognizes a Citus cluster by this table.
#[tokio::test]
async fn no_filter_has_a_lateral_join_on_a_citus_cluster() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let plain = Store::open(&database.url).await.unwrap();
    plain.create_partitions(Time(1_700_000_000_000_000), u64::MAX).await.unwrap();
    let Db::Postgres(pools) = plain.db() else { panic!("the database is Postgres") };
    for statement in statements(Backend::Postgres).into_iter().chain(["CREATE TABLE pg_dist_partition ()".to_owned()]) {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&pools.reader.pool()).await.unwrap();
    }
    let distributed = Store::open(&database.url).await.unwrap();
    for (name, index, filter) in filters() {
        for plan in distributed.history_plans(&filter).await.unwrap() {
            assert!(!plan.contains("generate_series"), "{name}:\n{plan}");
            assert!(plan.contains(of_partition(Backend::Postgres, index)), "{name}:\n{plan}");
        }
    }
}

#[tokio::test]
async fn calls_are_filtered_by_their_ids_on_sqlite() {
    let database = Database::fresh(Backend::Sqlite).await;
    let store = Store::open(&database.url).await.unwrap();
    for (name, _, filter) in filters() {
        let plan = store.history_check_plan(&filter, &[Uuid::nil(), Uuid::max()]).await.unwrap();
        assert!(plan.contains("id=?"), "{name}:\n{plan}");
    }
}

/// Without statistics, Postgres believes that a shard has few calls.
#[tokio::test]
async fn calls_are_read_by_their_ids_on_postgres_without_statistics() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let store = Store::open(&database.url).await.unwrap();
    store.create_partitions(Time(1_700_000_000_000_000), u64::MAX).await.unwrap();
    let Db::Postgres(pools) = store.db() else { panic!("the database is Postgres") };
    let [calls, ..] = statements(Backend::Postgres);
    for statement in ["ALTER TABLE tool_calls_0 SET (autovacuum_enabled = false)".to_owned(), calls] {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&pools.reader.pool()).await.unwrap();
    }
    let sql = "SELECT id FROM tool_calls ORDER BY id DESC LIMIT 1000";
    let newest: Vec<Uuid> = sqlx::query_scalar(sql).fetch_all(&pools.reader.pool()).await.unwrap();
    let plan = store.calls_plan(&newest).await.unwrap();
    let conditions: Vec<&str> = plan.lines().filter(|line| line.contains("Index Cond")).collect();
    assert!(!conditions.is_empty() && conditions.iter().all(|line| line.contains("id >= ")), "{plan}");
}
