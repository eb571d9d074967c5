//! The indexes of the history, and how they are read: newest call first.

use std::ops::RangeInclusive;

use uuid::Uuid;

use super::{Entries, HistoryFilter, unfinished, unfinished_status, words};
use crate::store::query::Query;
use crate::store::{Db, Store, StoreError, codec};
use toolpost_core::domain::{Phase, Status, Tenant};

/// The index of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndexPath {
    /// All calls of the tenant.
    Tenant,
    /// The calls of a session.
    Session(String),
    /// The calls of a batch.
    Batch(Uuid),
    /// The calls of a tool.
    Tool(String),
    /// The calls that another call made.
    Parent(Uuid),
    /// Failed calls with one of the codes from the first to the last.
    Codes(i16, i16),
    /// Ended calls in one of the classes of durations from the first to the last.
    Durations(i16, i16),
    /// Unfinished calls with one of these statuses.
    Unfinished(&'static [i16]),
    /// Ended calls with this word, and all unfinished calls.
    Word(i64),
}

impl IndexPath {
    /// Returns the indexes of all conditions of a filter, at least one.
    pub fn paths_for(filter: &HistoryFilter, tenant: &Tenant) -> Vec<Self> {
        let calls = &filter.calls;
        let mut paths = Vec::new();
        paths.extend(calls.batch_id.map(Self::Batch));
        paths.extend(filter.parent.map(Self::Parent));
        paths.extend(unfinished(filter).or(unfinished_status(calls.status)).map(Self::Unfinished));
        paths.extend(calls.session.clone().map(Self::Session));
        paths.extend(calls.name.as_deref().map(|name| Self::Tool(codec::indexed_name(name).into_owned())));
        match filter.code.map(codec::code_number) {
            Some(code) => paths.push(Self::Codes(code, code)),
            // Every failed call has a code.
            None if calls.status == Some(Status::Error) => paths.push(Self::Codes(0, codec::MAX_CODE)),
            None => {}
        }
        let least = filter.min_duration_ms.filter(|least| *least > 0).map(codec::duration_class);
        paths.extend(least.map(|least| Self::Durations(least, codec::MAX_DURATION_CLASS)));
        paths.extend(filter.words.iter().map(|word| Self::Word(words::hash(tenant.as_str(), word))));
        if paths.is_empty() {
            paths.push(Self::Tenant);
        }
        paths
    }

    /// Returns `true` if the entries of this only path are exactly the matching calls.
    pub fn is_exact(&self, filter: &HistoryFilter) -> bool {
        let has_others = filter.is_checked_on_calls() || filter.phase == Some(Phase::Done);
        let by_status = matches!(filter.calls.status, Some(Status::Success));
        !has_others && !by_status
    }

    /// Reads up to `window` entries of a range of ids: at or after the first, and before the second.
    pub async fn read(&self, store: &Store, range: (Uuid, Option<Uuid>), window: usize) -> Result<Entries, StoreError> {
        let ids: Vec<Uuid> = self.query(store, range, window).column().await?;
        let frontier = ids.last().copied().filter(|_| ids.len() >= window);
        Ok(Entries { ids, frontier })
    }

    /// Creates the query for the entries.
    pub fn query<'s>(&self, store: &'s Store, range: (Uuid, Option<Uuid>), window: usize) -> Query<'s> {
        match self {
            Self::Codes(first, last) if first < last => merged(store, "code", *first..=*last, range, window),
            Self::Durations(first, last) => merged(store, "slow", *first..=*last, range, window),
            Self::Unfinished(statuses) => {
                // SQLite uses the partial index only if its condition is repeated.
                union(store, ("status <> 2 AND status", OF_NO_INDEX), statuses.iter().copied(), range, window)
            }
            _ => {
                let query = store.db.read("SELECT id FROM tool_calls WHERE ").push(self.tenant_column());
                ranged(self.condition(query.push(" = ").push_bind(store.tenant())), range, window)
            }
        }
    }

    /// Returns the tenant as an expression. If the index of the condition does not begin with the tenant, the expression
    /// keeps SQLite from the index of all calls of the tenant, which also has the order of ids.
    fn tenant_column(&self) -> &'static str {
        match self {
            Self::Batch(_) | Self::Parent(_) => OF_NO_INDEX,
            _ => "tenant",
        }
    }

    /// Adds the condition of an index with one range of entries.
    fn condition<'q>(&self, query: Query<'q>) -> Query<'q> {
        match self {
            Self::Session(session) => query.push(" AND session = ").push_bind(session),
            Self::Batch(batch) => query.push(" AND batch_id = ").push_bind(*batch),
            Self::Tool(tool) => query.push(" AND tool = ").push_bind(tool),
            Self::Parent(parent) => query.push(" AND parent = ").push_bind(*parent),
            Self::Codes(code, _) => query.push(" AND code = ").push_bind(*code),
            Self::Tenant | Self::Durations(..) | Self::Unfinished(_) | Self::Word(_) => query,
        }
    }
}

/// The tenant as an expression that no index has.
const OF_NO_INDEX: &str = "(tenant || '')";

/// Adds the range, the order and the limit to a query for calls.
fn ranged<'q>(query: Query<'q>, (since, before): (Uuid, Option<Uuid>), limit: usize) -> Query<'q> {
    let query = query.push(" AND id >= ").push_bind(since).push_some(" AND id < ", before);
    query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Creates a query that merges the entries of several values of a column. Each value has its own range of the index,
/// which is in the order of ids.
fn merged<'s>(
    store: &'s Store,
    column: &str,
    values: RangeInclusive<i16>,
    range: (Uuid, Option<Uuid>),
    window: usize,
) -> Query<'s> {
    // Citus does not distribute the lateral join.
    if store.is_distributed || matches!(store.db, Db::Sqlite(_)) {
        return union(store, (column, "tenant"), values, range, window);
    }
    let (first, last) = (values.start(), values.end());
    let query = store.db.read(format!(
        "SELECT c.id FROM generate_series({first}, {last}) AS k (v) CROSS JOIN LATERAL \
         (SELECT id FROM tool_calls WHERE {column} = k.v::smallint AND tenant = "
    ));
    let query = ranged(query.push_bind(store.tenant()), range, window).push(") AS c ORDER BY c.id DESC LIMIT ");
    query.push_bind(i64::try_from(window).unwrap_or(i64::MAX))
}

/// Creates the same query with one part per value.
fn union<'s>(
    store: &'s Store,
    (column, tenant): (&str, &str),
    values: impl Iterator<Item = i16>,
    range: (Uuid, Option<Uuid>),
    window: usize,
) -> Query<'s> {
    let mut query = store.db.read("SELECT id FROM (");
    for (index, value) in values.enumerate() {
        query = query.push(if index == 0 { "" } else { " UNION ALL " }).push("SELECT id FROM (");
        // The value is text of the statement, so that a partial index applies.
        let part = format!("SELECT id FROM tool_calls WHERE {column} = {value} AND {tenant} = ");
        query = ranged(query.push(&part).push_bind(store.tenant()), range, window);
        query = query.push(&format!(") AS part_{index}"));
    }
    query.push(") AS parts ORDER BY id DESC LIMIT ").push_bind(i64::try_from(window).unwrap_or(i64::MAX))
}
