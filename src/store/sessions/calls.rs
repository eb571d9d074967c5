//! The calls of a session: unfinished ones, pages of all, and the positions of their events.

use uuid::Uuid;

use crate::domain::{Call, Session};
use crate::store::codec::{self, CallRow};
use crate::store::{Store, StoreError};

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
        let query = query.push(" AND accepted_pos > ").push_bind(session.since_pos);
        let query = query.push_some(" AND id < ", before);
        let query = query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit));
        query.all().await?.into_iter().map(CallRow::decode).collect()
    }

    /// Returns the positions of a session's events after `after` up to `until`, with their calls, in order. Several
    /// events may follow each position.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn session_positions(
        &self,
        session: &Session,
        after: i64,
        until: i64,
    ) -> Result<Vec<(i64, Uuid)>, StoreError> {
        const ROWS: &str = "SELECT id, accepted_pos, COALESCE(started_pos, 0), COALESCE(settled_pos, 0) \
            FROM tool_calls WHERE tenant = $1 AND session = $2 AND accepted_pos > $3 AND accepted_pos <= $5 \
            AND (settled_pos IS NULL OR settled_pos >= $4)";
        const REPORTED: &str = "SELECT e.call_id, e.pos FROM call_events AS e JOIN tool_calls AS c ON c.id = e.call_id \
            WHERE c.tenant = $1 AND c.session = $2 AND c.accepted_pos > $3 AND e.pos > $4 AND e.pos <= $5";
        let read = |sql| self.read(sql).bind(&*session.id).bind(session.since_pos).bind(after).bind(until);
        let rows: Vec<(Uuid, i64, i64, i64)> = read(ROWS).all().await?;
        let reported: Vec<(Uuid, i64)> = read(REPORTED).all().await?;
        // The first and the last position of a row represent two events each.
        let of_row = |(id, accepted, started, settled): (Uuid, i64, i64, i64)| {
            [accepted, accepted + 1, started, settled, settled + i64::from(settled > 0)].map(|pos| (pos, id))
        };
        let mut found: Vec<(i64, Uuid)> = rows.into_iter().flat_map(of_row).collect();
        found.extend(reported.into_iter().map(|(id, pos)| (pos, id)));
        found.retain(|(pos, _)| *pos > after && *pos <= until);
        found.sort_unstable();
        Ok(found)
    }
}
