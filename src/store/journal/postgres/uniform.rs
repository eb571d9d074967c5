//! A commit of calls that share status, attempt, event numbers and tenant, which is typical of many callers with quick
//! tools. The calls are new, or ended after they were recorded, or both. Shared values are bound once, so the server
//! does not look them up for each row, and the statement has no unused parts.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;

use super::super::batch::{Batch, RowImage};
use super::super::sql;
use super::{Marks, completeness_check, empty_if_all_none};
use crate::domain::{Shard, Tenant};
use crate::store::{codec, shards};

/// The statements for inserts only, updates only, and both.
static COMMITS: LazyLock<[String; 3]> =
    LazyLock::new(|| [statement(true, false), statement(false, true), statement(true, true)]);

/// The column values shared by all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SharedColumns {
    status: i16,
    attempt: i32,
    seq: i32,
    /// Offset of the first row's events within the commit.
    base: i32,
    /// Number of positions of each row.
    positions: i32,
    /// Offset of the start event within the positions of a row; `settled` is that of the end.
    started: Option<i32>,
    settled: Option<i32>,
}

/// The shared columns of a commit: of the new rows, and of the updated rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct UniformBatch<'b> {
    tenant: &'b Tenant,
    inserts: Option<SharedColumns>,
    updates: Option<SharedColumns>,
}

/// Returns the offset of the row's first event.
fn begin(row: &RowImage<'_>) -> Option<i32> {
    row.accepted.or(row.started).or(row.settled)
}

impl SharedColumns {
    /// Returns the shared columns of the rows, or `None` if the rows differ.
    fn of(rows: &[&RowImage<'_>]) -> Option<Self> {
        let base = begin(rows.first()?)?;
        let positions = rows.get(1).map_or(Some(0), |second| begin(second)?.checked_sub(base))?;
        let first = Self::of_row(rows[0], base, base, positions)?;
        let mut others = (base..).step_by(usize::try_from(positions).ok()?.max(1)).zip(rows).skip(1);
        others.all(|(begin, row)| Self::of_row(row, begin, base, positions) == Some(first)).then_some(first)
    }

    /// Returns the columns of one row, or `None` if its events do not begin at the offset `expected`.
    fn of_row(row: &RowImage<'_>, expected: i32, base: i32, positions: i32) -> Option<Self> {
        let begin = begin(row).filter(|begin| *begin == expected)?;
        let call = row.call;
        Some(Self {
            status: codec::status_number(call.status),
            attempt: i32::try_from(call.attempts).ok()?,
            seq: i32::try_from(call.last_seq).ok()?,
            base,
            positions,
            started: row.started.map(|started| started - begin),
            settled: row.settled.map(|settled| settled - begin),
        })
    }

    /// Binds the values in the order in which [`Columns`] numbers the parameters.
    fn bind_to<'q, O>(self, query: QueryAs<'q, Postgres, O, PgArguments>) -> QueryAs<'q, Postgres, O, PgArguments> {
        let query = query.bind(self.status).bind(self.attempt).bind(self.seq);
        query.bind(self.base).bind(self.positions).bind(self.started).bind(self.settled)
    }
}

/// SQL expressions for the shared columns. `first` is the first position of the commit, `k` the number of the row.
struct Columns {
    status: String,
    attempt: String,
    seq: String,
    accepted: String,
    started: String,
    settled: String,
}

impl Columns {
    fn allocate(marks: &mut Marks) -> Self {
        let [status, attempt, seq, base, positions, started, settled] = marks.allocate();
        let accepted = format!("first + ${base}::int4 + (k - 1) * ${positions}::int4");
        Self {
            status: format!("${status}::int2"),
            attempt: format!("${attempt}::int4"),
            seq: format!("${seq}::int4"),
            started: format!("{accepted} + ${started}::int4"),
            settled: format!("{accepted} + ${settled}::int4"),
            accepted,
        }
    }
}

fn statement(inserts: bool, updates: bool) -> String {
    let mut marks = Marks(1);
    let [all, node, commit, at, calls, stats, shard] = marks.allocate();
    let (mut added, mut changed, mut expected_updates) = (String::new(), String::new(), None);
    if inserts {
        let [tenant, created, id, session, batch, tool, arguments, record, code, slow] = marks.allocate();
        let Columns { status, attempt, seq, accepted, started, settled } = Columns::allocate(&mut marks);
        added = format!(
            "fresh AS (INSERT INTO tool_calls ({row})
                SELECT id, ${tenant}, session, batch_id, tool, {status}, {attempt}, {seq}, ${node}, (${created}::int8[])[k],
                    {accepted}, {started}, {settled}, arguments, record, (${code}::int2[])[k], (${slow}::int2[])[k]
                FROM (SELECT id, session, batch_id, tool, arguments, record, k, (SELECT first FROM clock) AS first
                    FROM UNNEST(${id}::uuid[], ${session}::text[], ${batch}::uuid[], ${tool}::text[], ${arguments}::text[],
                        ${record}::text[]) WITH ORDINALITY AS i (id, session, batch_id, tool, arguments, record, k)) AS rows),",
            row = sql::ROW_COLUMNS,
        );
    }
    if updates {
        let [id, record, expected, code, slow] = marks.allocate();
        let Columns { status, attempt, seq, started, settled, .. } = Columns::allocate(&mut marks);
        expected_updates = Some(expected);
        changed = format!(
            "u AS (SELECT id, {status} AS status, {attempt} AS attempt, {seq} AS seq, ${node} AS node, {started} AS started,
                {settled} AS settled, (${code}::int2[])[k] AS code, (${slow}::int2[])[k] AS slow, record
                FROM (SELECT id, record, k, (SELECT first FROM clock) AS first
                    FROM UNNEST(${id}::uuid[], ${record}::text[]) WITH ORDINALITY AS i (id, record, k)) AS rows),
             again AS ({update} RETURNING 1),",
            update = sql::UPDATE_ROWS,
        );
    }
    format!(
        "WITH clock AS (UPDATE event_clock SET pos = pos + ${all} WHERE shard = ${shard} RETURNING pos - ${all} + 1 AS first),
         {added}
         {changed}
         noted AS (INSERT INTO commits ({columns})
            SELECT ${commit}, first, first + ${all} - 1, ${at}, ${calls}, ${stats} FROM clock)
         SELECT first - 1, {completeness_check} FROM clock",
        columns = sql::COMMIT_COLUMNS,
        completeness_check = completeness_check(expected_updates, None),
    )
}

/// Returns the shared columns if the batch writes only uniform rows of calls.
pub(super) fn of<'b>(batch: &'b Batch<'_>) -> Option<UniformBatch<'b>> {
    if !batch.has_only_rows() || batch.replaces_arguments() {
        return None;
    }
    let tenant = batch.tenant()?;
    let (inserts, updates) = (batch.inserts().collect::<Vec<_>>(), batch.updates().collect::<Vec<_>>());
    let common = |rows: &[&RowImage<'_>]| if rows.is_empty() { Some(None) } else { SharedColumns::of(rows).map(Some) };
    Some(UniformBatch { tenant, inserts: common(&inserts)?, updates: common(&updates)? })
}

/// Writes the rows and returns the position before the first event.
pub(super) async fn commit(
    connection: &mut PoolConnection<Postgres>,
    shard: Shard,
    batch: &Batch<'_>,
    shared: UniformBatch<'_>,
) -> Result<i64, sqlx::Error> {
    let place = match (shared.inserts, shared.updates) {
        (_, None) => 0,
        (None, _) => 1,
        (Some(_), Some(_)) => 2,
    };
    let mut query = sqlx::query_as(COMMITS[place].as_str())
        .bind(batch.positions())
        .bind(batch.node())
        .bind(batch.id)
        .bind(batch.at.0)
        .bind(batch.call_ids())
        .bind(batch.stats.note())
        .bind(shards::column(shard));
    if let Some(common) = shared.inserts {
        let calls = || batch.inserts().map(|row| row.call);
        query = query
            .bind(shared.tenant.as_str())
            .bind(calls().map(|call| call.created_at.0).collect::<Vec<_>>())
            .bind(calls().map(|call| call.id).collect::<Vec<_>>())
            .bind(empty_if_all_none(calls().map(|call| call.session.as_deref()).collect()))
            .bind(empty_if_all_none(calls().map(|call| call.batch_id).collect()))
            .bind(calls().map(|call| codec::indexed_name(&call.name)).collect::<Vec<_>>())
            .bind(calls().map(|call| call.arguments_text.get()).collect::<Vec<_>>())
            .bind(batch.inserts().map(|row| row.record).collect::<Vec<_>>())
            .bind(empty_if_all_none(calls().map(|call| codec::code_of(call)).collect()))
            .bind(empty_if_all_none(calls().map(|call| codec::slow_of(call)).collect()));
        query = common.bind_to(query);
    }
    if let Some(common) = shared.updates {
        let rows = || batch.updates();
        query = query
            .bind(rows().map(|row| row.call.id).collect::<Vec<_>>())
            .bind(rows().map(|row| row.record).collect::<Vec<_>>())
            .bind(rows().count() as i64)
            .bind(empty_if_all_none(rows().map(|row| codec::code_of(row.call)).collect()))
            .bind(empty_if_all_none(rows().map(|row| codec::slow_of(row.call)).collect()));
        query = common.bind_to(query);
    }
    let (base, _): (i64, bool) = query.fetch_one(&mut **connection).await?;
    Ok(base)
}
