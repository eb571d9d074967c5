//! A commit of calls that differ in nothing but what they are about, as many callers of quick tools make it: new ones, ends
//! of those that were recorded before they ran, or both. It says once what all have in common, so that the server does not
//! have to look it up for each row, and has no part that it does not need.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;

use super::super::batch::{Batch, RowImage};
use super::super::sql;
use super::{Marks, complete, unless_all_none};
use crate::domain::Tenant;
use crate::store::codec;

/// The statement, with new calls, with others, and with both.
static COMMITS: LazyLock<[String; 3]> =
    LazyLock::new(|| [statement(true, false), statement(false, true), statement(true, true)]);

/// What rows have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SharedColumns {
    status: i16,
    attempt: i32,
    seq: i32,
    /// Place of the first one's own events among those of the commit.
    base: i32,
    /// Positions that each row takes.
    positions: i32,
    /// Where in these its tool has started, and where it has ended.
    started: Option<i32>,
    settled: Option<i32>,
}

/// What the rows of a commit have in common: the new ones, and those that are there already.
#[derive(Debug, Clone, Copy)]
pub(super) struct UniformBatch<'b> {
    tenant: &'b Tenant,
    fresh: Option<SharedColumns>,
    again: Option<SharedColumns>,
}

/// The first position of a row's own events.
fn begin(row: &RowImage<'_>) -> Option<i32> {
    row.accepted.or(row.started).or(row.settled)
}

impl SharedColumns {
    /// What these have in common; `None` if they differ.
    fn of(rows: &[&RowImage<'_>]) -> Option<Self> {
        let base = begin(rows.first()?)?;
        let positions = rows.get(1).map_or(Some(0), |second| begin(second)?.checked_sub(base))?;
        let first = Self::one(rows[0], base, base, positions)?;
        let mut others = (base..).step_by(usize::try_from(positions).ok()?.max(1)).zip(rows).skip(1);
        others.all(|(begin, row)| Self::one(row, begin, base, positions) == Some(first)).then_some(first)
    }

    /// A row by itself, if its events begin where they do when all take so many positions.
    fn one(row: &RowImage<'_>, expected: i32, base: i32, positions: i32) -> Option<Self> {
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

    /// Its parameters, in the order in which [`Columns`] names them.
    fn bound_to<'q, O>(self, query: QueryAs<'q, Postgres, O, PgArguments>) -> QueryAs<'q, Postgres, O, PgArguments> {
        let query = query.bind(self.status).bind(self.attempt).bind(self.seq);
        query.bind(self.base).bind(self.positions).bind(self.started).bind(self.settled)
    }
}

/// What the columns of a row are that all have in common; `first` and `k` are the commit's first position and the row's
/// number.
struct Columns {
    status: String,
    attempt: String,
    seq: String,
    accepted: String,
    started: String,
    settled: String,
}

impl Columns {
    fn take(marks: &mut Marks) -> Self {
        let [status, attempt, seq, base, positions, started, settled] = marks.take();
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

fn statement(fresh: bool, again: bool) -> String {
    let mut marks = Marks(1);
    let [all, node, commit, at, calls, stats] = marks.take();
    let (mut added, mut changed, mut expected_again) = (String::new(), String::new(), None);
    if fresh {
        let [tenant, created, id, session, batch, tool, arguments, record] = marks.take();
        let Columns { status, attempt, seq, accepted, started, settled } = Columns::take(&mut marks);
        added = format!(
            "fresh AS (INSERT INTO tool_calls ({row})
                SELECT id, ${tenant}, session, batch_id, tool, {status}, {attempt}, {seq}, ${node}, (${created}::int8[])[k],
                    {accepted}, {started}, {settled}, arguments, record
                FROM (SELECT id, session, batch_id, tool, arguments, record, k, (SELECT first FROM clock) AS first
                    FROM UNNEST(${id}::uuid[], ${session}::text[], ${batch}::uuid[], ${tool}::text[], ${arguments}::text[],
                        ${record}::text[]) WITH ORDINALITY AS i (id, session, batch_id, tool, arguments, record, k)) AS rows),",
            row = sql::ROW,
        );
    }
    if again {
        let [id, record, expected] = marks.take();
        let Columns { status, attempt, seq, started, settled, .. } = Columns::take(&mut marks);
        expected_again = Some(expected);
        changed = format!(
            "u AS (SELECT id, {status} AS status, {attempt} AS attempt, {seq} AS seq, ${node} AS node, {started} AS started,
                {settled} AS settled, record
                FROM (SELECT id, record, k, (SELECT first FROM clock) AS first
                    FROM UNNEST(${id}::uuid[], ${record}::text[]) WITH ORDINALITY AS i (id, record, k)) AS rows),
             again AS ({update} RETURNING 1),",
            update = sql::ROW_AGAIN,
        );
    }
    format!(
        "WITH clock AS (UPDATE event_clock SET pos = pos + ${all} WHERE one = 1 RETURNING pos - ${all} + 1 AS first),
         {added}
         {changed}
         noted AS (INSERT INTO commits ({columns})
            SELECT ${commit}, first, first + ${all} - 1, ${at}, ${calls}, ${stats} FROM clock)
         SELECT first - 1, {complete} FROM clock",
        columns = sql::COMMIT,
        complete = complete(expected_again, None),
    )
}

/// What the rows have in common, if they are all that the batch writes.
pub(super) fn of<'b>(batch: &'b Batch<'_>) -> Option<UniformBatch<'b>> {
    if !batch.is_of_rows_only() || batch.replaces_arguments() {
        return None;
    }
    let tenant = batch.tenant()?;
    let (fresh, again) = (batch.inserts().collect::<Vec<_>>(), batch.updates().collect::<Vec<_>>());
    let common = |rows: &[&RowImage<'_>]| if rows.is_empty() { Some(None) } else { SharedColumns::of(rows).map(Some) };
    Some(UniformBatch { tenant, fresh: common(&fresh)?, again: common(&again)? })
}

/// Writes them; returns the position before the first event.
pub(super) async fn commit(
    connection: &mut PoolConnection<Postgres>,
    batch: &Batch<'_>,
    alike: UniformBatch<'_>,
) -> Result<i64, sqlx::Error> {
    let place = match (alike.fresh, alike.again) {
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
        .bind(batch.stats.note());
    if let Some(common) = alike.fresh {
        let calls = || batch.inserts().map(|row| row.call);
        query = query
            .bind(alike.tenant.as_str())
            .bind(calls().map(|call| call.created_at.0).collect::<Vec<_>>())
            .bind(calls().map(|call| call.id).collect::<Vec<_>>())
            .bind(unless_all_none(calls().map(|call| call.session.as_deref()).collect()))
            .bind(unless_all_none(calls().map(|call| call.batch_id).collect()))
            .bind(calls().map(|call| codec::indexed_name(&call.name)).collect::<Vec<_>>())
            .bind(calls().map(|call| call.arguments_text.get()).collect::<Vec<_>>())
            .bind(batch.inserts().map(|row| row.record).collect::<Vec<_>>());
        query = common.bound_to(query);
    }
    if let Some(common) = alike.again {
        let rows = || batch.updates();
        query = query
            .bind(rows().map(|row| row.call.id).collect::<Vec<_>>())
            .bind(rows().map(|row| row.record).collect::<Vec<_>>())
            .bind(rows().count() as i64);
        query = common.bound_to(query);
    }
    let (base, _): (i64, bool) = query.fetch_one(&mut **connection).await?;
    Ok(base)
}
