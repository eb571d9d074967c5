//! A commit of new calls that differ in nothing but what they are about, as many callers of quick tools make it: their
//! numbers are said once, and the server does not have to look each of them up for each row.

use std::sync::LazyLock;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;

use super::super::batch::RowImage;
use super::{FIRST_MARK, Marks, Numbers, statement};
use crate::store::codec;

pub(super) static COMMIT: LazyLock<String> = LazyLock::new(|| statement(false, false, false, false, false, &of_all()));

/// What all rows of a commit have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alike {
    status: i16,
    attempt: i32,
    seq: i32,
    /// Positions that each row takes.
    positions: i32,
    /// Where in these its tool has started, and where it has ended.
    started: Option<i32>,
    settled: Option<i32>,
}

/// The first position of a row's own events.
fn begin(row: &RowImage<'_>) -> Option<i32> {
    row.accepted.or(row.started).or(row.settled)
}

/// All rows have the same, but for when they were made.
fn of_all() -> Numbers {
    let [status, attempt, seq, positions, started, settled] = Marks(FIRST_MARK).take();
    let columns = format!(
        "${status}::int2, ${attempt}::int4, ${seq}::int4, $2, n[k], first + (k - 1) * ${positions}::int4,
         first + (k - 1) * ${positions} + ${started}::int4, first + (k - 1) * ${positions} + ${settled}::int4"
    );
    Numbers { apart: 1, columns }
}

impl Alike {
    /// What these have in common, which are all rows of a commit, and all new or all there already; `None` if they differ.
    pub fn of(rows: &[&RowImage<'_>]) -> Option<Self> {
        let [first, second, ..] = rows else { return None };
        let positions = begin(second)? - begin(first)?;
        let alike = Self::one(first, 0, positions)?;
        let mut others = (1..).zip(&rows[1..]);
        others.all(|(place, row)| Self::one(row, place, positions) == Some(alike)).then_some(alike)
    }

    /// A row by itself, if it is where it belongs when all take so many positions.
    fn one(row: &RowImage<'_>, place: i32, positions: i32) -> Option<Self> {
        let begin = begin(row).filter(|begin| *begin == place * positions)?;
        let call = row.call;
        Some(Self {
            status: codec::status_number(call.status),
            attempt: i32::try_from(call.attempts).ok()?,
            seq: i32::try_from(call.last_seq).ok()?,
            positions,
            started: row.started.map(|started| started - begin),
            settled: row.settled.map(|settled| settled - begin),
        })
    }

    /// Binds what the statement says once.
    pub fn bound_to<'q, O>(
        self,
        query: QueryAs<'q, Postgres, O, PgArguments>,
    ) -> QueryAs<'q, Postgres, O, PgArguments> {
        let query = query.bind(self.status).bind(self.attempt).bind(self.seq);
        query.bind(self.positions).bind(self.started).bind(self.settled)
    }
}
