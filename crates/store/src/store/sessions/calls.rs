//! The calls of a session: unfinished ones, pages of all, and the positions of their events.

use uuid::Uuid;

use crate::store::codec::{self, CallRow};
use crate::store::{Store, StoreError};
use toolpost_core::domain::{Call, Cursor, Session, Shard};

impl Store {
    /// Returns up to `limit` unfinished calls of a session after call `after`, oldest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_pending(&self, id: &str, after: Uuid, limit: u32) -> Result<Vec<Uuid>, StoreError> {
        const SQL: &str = "SELECT id FROM tool_calls WHERE tenant = $1 AND session = $2 AND status < 2 AND id > $3 \
            ORDER BY id LIMIT $4";
        self.read(SQL).bind(id).bind(after).bind(i64::from(limit)).column().await
    }

    /// Returns the names of the tools with unfinished calls in a session.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_pending_tools(&self, id: &str) -> Result<Vec<String>, StoreError> {
        const SQL: &str = "SELECT DISTINCT tool FROM tool_calls WHERE tenant = $1 AND session = $2 AND status < 2";
        self.read(SQL).bind(id).column().await
    }

    /// Returns up to `limit` calls of a session before call `before`, newest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_calls(
        &self,
        session: &Session,
        before: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Call>, StoreError> {
        let query = self.db.read(codec::SELECT.as_str()).push("tenant = ").push_bind(&self.tenant);
        let query = query.push(" AND session = ").push_bind(&*session.id);
        // Calls of a deleted session with the same id.
        let query = session.since.positions().iter().fold(query, |query, until| {
            let query = query.push(" AND NOT (accepted_pos > ").push_bind(Shard::of_position(*until).start());
            query.push(" AND accepted_pos <= ").push_bind(*until).push(")")
        });
        let query = query.push_some(" AND id < ", before);
        let query = query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit));
        query.all().await?.into_iter().map(CallRow::decode).collect()
    }

    /// Returns the positions of a session's events after `after` up to `until`, with their calls, in the order of each
    /// shard. Several events may follow each position.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_positions(
        &self,
        session: &Session,
        after: &Cursor,
        until: &Cursor,
    ) -> Result<Vec<(i64, Uuid)>, StoreError> {
        const ROWS: &str = ") SELECT c.id, c.accepted_pos, COALESCE(c.started_pos, 0), COALESCE(c.settled_pos, 0) \
            FROM tool_calls AS c JOIN r ON c.accepted_pos > r.begun AND c.accepted_pos <= r.newest \
            WHERE (c.settled_pos IS NULL OR c.settled_pos >= r.seen) AND c.tenant = ";
        const REPORTED: &str = ") SELECT e.call_id, e.pos FROM call_events AS e JOIN tool_calls AS c \
            ON c.shard = e.shard AND c.id = e.call_id \
            JOIN r ON c.accepted_pos > r.begun AND e.pos > r.seen AND e.pos <= r.newest WHERE c.tenant = ";
        let shards: Vec<[i64; 3]> = until
            .positions()
            .iter()
            .map(|newest| {
                let shard = Shard::of_position(*newest);
                [session.since.position_in(shard), after.position_in(shard), *newest]
            })
            .collect();
        if shards.is_empty() {
            return Ok(Vec::new());
        }
        let read = |sql| {
            let mut query = self.db.read("WITH r (begun, seen, newest) AS (VALUES ");
            for (index, shard) in shards.iter().enumerate() {
                query = query.push(if index == 0 { "" } else { ", " }).push_list(shard);
            }
            query.push(sql).push_bind(&self.tenant).push(" AND c.session = ").push_bind(&*session.id)
        };
        let rows: Vec<(Uuid, i64, i64, i64)> = read(ROWS).all().await?;
        let reported: Vec<(Uuid, i64)> = read(REPORTED).all().await?;
        // The first and the last position of a row represent two events each.
        let of_row = |(id, accepted, started, settled): (Uuid, i64, i64, i64)| {
            [accepted, accepted + 1, started, settled, settled + i64::from(settled > 0)].map(|pos| (pos, id))
        };
        let mut found: Vec<(i64, Uuid)> = rows.into_iter().flat_map(of_row).collect();
        found.extend(reported.into_iter().map(|(id, pos)| (pos, id)));
        found.retain(|(pos, _)| *pos > 0 && !after.covers(*pos) && until.covers(*pos));
        found.sort_unstable();
        Ok(found)
    }
}
