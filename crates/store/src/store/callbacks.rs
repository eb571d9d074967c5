//! Stored callbacks: pending deliveries of ended calls, and their attempts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use url::Url;
use uuid::Uuid;

use super::query::{Query, Transaction};
use super::{Db, StoreError, Stores, codec};
use toolpost_core::domain::{Call, Shard, Time};

mod outcome;
mod state;

pub use outcome::{AttemptRecord, RecordedOutcome};
pub use state::Delivery;

/// The columns of a due callback: call, URL, host, event, attempts, lost attempts, size of the call, whether a body is stored.
type DueColumns = (Uuid, String, String, Uuid, i32, i32, i64, bool);

/// A callback, stored when its call is accepted. It becomes due when the call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackRow {
    /// The call whose end is delivered.
    pub call_id: Uuid,
    /// The callback URL.
    pub url: Arc<str>,
    /// The message id, which is the same for every attempt.
    pub event_id: Uuid,
}

impl CallbackRow {
    /// Columns of a new row, in this order: shard and id of the call, URL, host, event.
    pub const COLUMNS: &str = "shard, call_id, url, host, event_id";

    /// Returns the callback of a call, or `None` if its caller requested none.
    #[must_use]
    pub fn of(call: &Call, event_id: Uuid) -> Option<Self> {
        let url = call.callback_url.clone()?;
        Some(Self { call_id: call.id, url, event_id })
    }

    /// Returns the host and port of the URL.
    #[must_use]
    pub fn host(&self) -> String {
        let url = Url::parse(&self.url).ok();
        let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
        host.map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
    }

    /// Returns the beginning of the SQLite insert, before `VALUES (…), (…)` with five values a row.
    #[must_use]
    pub fn insert_head() -> String {
        format!("INSERT INTO callbacks ({})", Self::COLUMNS)
    }
}

/// A notification about an approval. It is sent at once and deleted after its delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The id of the message, in the shard of its call.
    pub id: Uuid,
    /// The URL.
    pub url: Arc<str>,
    /// The body, as JSON.
    pub body: String,
    /// The time at which it is due.
    pub due: Time,
}

impl Notification {
    /// Stores the notification.
    pub(super) async fn insert(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO callbacks (shard, call_id, url, host, event_id, next_at, body) \
            VALUES ($1, $2, $3, $4, $2, $5, $6)";
        let row = CallbackRow { call_id: self.id, url: self.url.clone(), event_id: self.id };
        let query = transaction.query(SQL).bind_call(self.id).bind(&*self.url).bind(row.host());
        query.bind(self.due).bind(&self.body).execute().await.map(drop)
    }
}

/// A callback whose next attempt is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueCallback {
    /// The call whose end is delivered.
    pub call_id: Uuid,
    /// The callback URL.
    pub url: Arc<str>,
    /// Host and port of the URL.
    pub host: Arc<str>,
    /// The message id.
    pub event_id: Uuid,
    /// Number of attempts started so far.
    pub attempts: u32,
    /// Number of lost attempts, whose result was never recorded.
    pub lost: u32,
    /// Approximate size of the call, in bytes.
    pub bytes: usize,
    /// Whether it is a notification with a body of its own.
    pub has_body: bool,
}

impl DueCallback {
    /// Returns the step of the retry schedule. Lost attempts do not count, because they may never have been made.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.attempts.saturating_sub(self.lost)
    }
}

/// Maximum duration of a lease or a wait for the next attempt, in microseconds. A longer one was stored while a wall
/// clock was ahead, and counts as expired.
const MAX_WAIT: i64 = 24 * 3600 * 1_000_000;

/// Targets excluded from a query for due callbacks because their share of deliveries is used up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExcludedTargets {
    /// Hosts, with their ports.
    pub hosts: Vec<Arc<str>>,
    /// Complete URLs.
    pub urls: Vec<Arc<str>>,
    /// Whether all attempts except first attempts are excluded.
    pub retries: bool,
}

impl Stores {
    /// Adds callbacks to stored calls that have none.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn insert_callbacks(&self, rows: &[CallbackRow]) -> Result<(), StoreError> {
        let mut query = self.db.write(CallbackRow::insert_head());
        for (index, row) in rows.iter().enumerate() {
            query = query.push(if index == 0 { " VALUES (" } else { ", (" });
            query = query
                .push_bind(codec::shard_of_call(row.call_id))
                .push(", ")
                .push_bind(row.call_id)
                .push(", ")
                .push_bind(&*row.url)
                .push(", ")
                .push_bind(row.host())
                .push(", ")
                .push_bind(row.event_id)
                .push(")");
        }
        if rows.is_empty() {
            return Ok(());
        }
        query.push(" ON CONFLICT DO NOTHING").execute().await.map(drop)
    }

    /// Returns due callbacks of ended calls that are not leased, first attempts first. Does not claim them.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn due_callbacks(
        &self,
        now: Time,
        busy: &ExcludedTargets,
        limit: u32,
    ) -> Result<Vec<DueCallback>, StoreError> {
        const ENDED: &str = "c.next_at IS NULL AND (SELECT t.status FROM tool_calls AS t \
            WHERE t.shard = c.shard AND t.id = c.call_id) >= 2";
        // The status of each call is looked up by key, in a subquery that no query plan can turn into a scan of all ended
        // calls.
        let query = self.db.read(
            "SELECT c.call_id, c.url, c.host, c.event_id, c.attempts, c.lost, CAST(COALESCE((SELECT \
             octet_length(t.record) + octet_length(t.arguments) FROM tool_calls AS t \
             WHERE t.shard = c.shard AND t.id = c.call_id), 0) AS BIGINT), c.body IS NOT NULL FROM callbacks AS c WHERE c.state = 0 AND (c.leased_until IS NULL OR ",
        );
        let mut query = push_passed(query, "c.leased_until", now).push(")");
        for (condition, busy) in [(" AND c.host NOT IN ", &busy.hosts), (" AND c.url NOT IN ", &busy.urls)] {
            if !busy.is_empty() {
                query = query.push(condition).push_list(busy.iter().map(|one| &**one));
            }
        }
        query = if busy.retries {
            query.push(" AND ").push(ENDED)
        } else {
            push_passed(query.push(" AND ("), "c.next_at", now).push(" OR ").push(ENDED).push(")")
        };
        query = query.push(" ORDER BY c.next_at NULLS FIRST, c.call_id LIMIT ").push_bind(i64::from(limit));
        let rows: Vec<DueColumns> = query.uncached().all().await?;
        let due = rows.into_iter().map(|(call_id, url, host, event_id, attempts, lost, bytes, has_body)| DueCallback {
            call_id,
            url: url.into(),
            host: host.into(),
            event_id,
            attempts: attempts.try_into().unwrap_or(0),
            lost: lost.try_into().unwrap_or(0),
            bytes: bytes.try_into().unwrap_or(0),
            has_body,
        });
        Ok(due.collect())
    }

    /// Claims these callbacks until `leased_until` and starts an attempt for each. Callbacks claimed by another node
    /// first are omitted. If no result is recorded in time, the callback can be claimed again, and the attempt counts
    /// as lost.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claim_callbacks(
        &self,
        chosen: Vec<DueCallback>,
        now: Time,
        leased_until: Time,
    ) -> Result<Vec<DueCallback>, StoreError> {
        let mut of_shards: BTreeMap<Shard, Vec<Uuid>> = BTreeMap::new();
        for due in &chosen {
            of_shards.entry(Shard::of_call(due.call_id)).or_default().push(due.call_id);
        }
        let lock = if matches!(self.db, Db::Postgres(_)) { " FOR UPDATE SKIP LOCKED" } else { "" };
        let mut taken: HashMap<Uuid, (i32, i32)> = HashMap::new();
        for (shard, ids) in of_shards {
            // Recording a result clears the lease, so a lease that is still set belongs to a lost attempt.
            let query = self.db.write(
                "UPDATE callbacks SET attempts = attempts + 1, \
                 lost = lost + CASE WHEN leased_until IS NULL THEN 0 ELSE 1 END, leased_until = ",
            );
            let query = query.push_bind(leased_until).push(" WHERE shard = ").push_bind(codec::shard_column(shard));
            // Checks again under the row lock that the callbacks are due.
            let query = query
                .push(" AND call_id IN (SELECT call_id FROM callbacks WHERE state = 0 AND (leased_until IS NULL OR ");
            let query = push_passed(query, "leased_until", now).push(") AND (next_at IS NULL OR ");
            let query = push_passed(query, "next_at", now).push(") AND ").push_calls(["shard", "call_id"], &ids);
            let query = query.push(lock).push(") RETURNING call_id, attempts, lost");
            let rows: Vec<(Uuid, i32, i32)> = query.uncached().all().await?;
            taken.extend(rows.into_iter().map(|(id, attempts, lost)| (id, (attempts, lost))));
        }
        let claimed = chosen.into_iter().filter_map(|due| {
            let (attempts, lost) = *taken.get(&due.call_id)?;
            let attempts = attempts.try_into().unwrap_or(u32::MAX);
            Some(DueCallback { attempts, lost: lost.try_into().unwrap_or(0), ..due })
        });
        Ok(claimed.collect())
    }

    /// Returns the body of a notification.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn body_of_notification(&self, id: Uuid) -> Result<Option<String>, StoreError> {
        const SQL: &str = "SELECT body FROM callbacks WHERE shard = $1 AND call_id = $2 AND body IS NOT NULL";
        Ok(self.db.read(SQL).bind_call(id).optional().await?.map(|(body,)| body))
    }

    /// Returns the call as its callback delivers it, without the state of the callback.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn call_of_callback(&self, id: Uuid) -> Result<Option<Call>, StoreError> {
        Ok(self.calls_of_any_tenant(&[id]).await?.pop())
    }
}

/// Adds the condition that a time in a column has passed, or is too far in the future.
fn push_passed<'q>(query: Query<'q>, column: &str, now: Time) -> Query<'q> {
    let query = query.push(column).push(" <= ").push_bind(now).push(" OR ").push(column).push(" > ");
    query.push_bind(now.0.saturating_add(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_server_share_a_host() {
        let host = |url: &str| CallbackRow { call_id: Uuid::nil(), url: url.into(), event_id: Uuid::nil() }.host();
        assert_eq!(host("https://Hooks.Example.com/a?b=c"), "hooks.example.com:443");
        assert_eq!(host("http://hooks.example.com:8080"), "hooks.example.com:8080");
        assert_eq!(host("http://[::1]/"), "[::1]:80");
        assert_eq!(host("nothing"), "");
    }
}
