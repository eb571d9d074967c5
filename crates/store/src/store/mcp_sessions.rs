//! Sessions of MCP clients before revision 2026-07-28, and resumptions of their streams. Any node serves any session.

use std::time::Duration;

use uuid::Uuid;

use super::{StoreError, Stores};
use toolpost_core::domain::{Tenant, Time};

/// Time after which an unused session ends. No call runs longer.
pub const IDLE: Duration = Duration::from_secs(3600);

/// A session of an MCP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSession {
    /// The tenant of its client.
    pub tenant: Tenant,
    /// The API key of its client; `None` for a client with a token of the issuer, or if authentication is disabled.
    pub key: Option<Uuid>,
    /// The parameters of `initialize`, as JSON.
    pub params: String,
    /// The time of its last recorded use.
    pub used_at: Time,
}

/// Returns the time of the last use from which on a session is not idle.
fn oldest_use(now: Time) -> Time {
    Time(now.0.saturating_sub(i64::try_from(IDLE.as_micros()).unwrap_or(i64::MAX)))
}

impl Stores {
    /// Adds a session.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn insert_mcp_session(&self, id: &str, session: &McpSession) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO mcp_sessions (id, tenant, key_id, params, used_at) VALUES ($1, $2, $3, $4, $5)";
        let McpSession { tenant, key, params, used_at } = session;
        let insert = self.db.write(SQL).bind(id).bind(tenant).bind(key).bind(params).bind(used_at);
        insert.execute().await.map(drop)
    }

    /// Returns a session, unless it has ended or is idle.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn mcp_session(&self, id: &str, now: Time) -> Result<Option<McpSession>, StoreError> {
        const SQL: &str = "SELECT tenant, key_id, params, used_at FROM mcp_sessions WHERE id = $1 AND used_at > $2";
        let row = self.db.read(SQL).bind(id).bind(oldest_use(now)).optional().await?;
        Ok(row.map(|(tenant, key, params, used_at)| McpSession { tenant, key, params, used_at }))
    }

    /// Returns `true` if a session has not ended, whoever its client is.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_mcp_session(&self, id: &str) -> Result<bool, StoreError> {
        let (count,): (i64,) = self.db.read("SELECT COUNT(*) FROM mcp_sessions WHERE id = $1").bind(id).one().await?;
        Ok(count > 0)
    }

    /// Records a use of a session.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn touch_mcp_session(&self, id: &str, now: Time) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE mcp_sessions SET used_at = $2 WHERE id = $1 AND used_at < $2";
        self.db.write(SQL).bind(id).bind(now).execute().await.map(drop)
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_mcp_session(&self, id: &str) -> Result<(), StoreError> {
        self.db.write("DELETE FROM mcp_sessions WHERE id = $1").bind(id).execute().await.map(drop)
    }

    /// Deletes idle sessions and resumptions of that age, in small portions.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_idle_mcp_sessions(&self, now: Time) -> Result<(), StoreError> {
        const SESSIONS: &str = "DELETE FROM mcp_sessions WHERE id IN \
            (SELECT id FROM mcp_sessions WHERE used_at <= $1 ORDER BY used_at LIMIT $2)";
        const RESUMPTIONS: &str = "DELETE FROM mcp_resumptions WHERE call_id IN \
            (SELECT call_id FROM mcp_resumptions WHERE at <= $1 ORDER BY at LIMIT $2)";
        self.delete_in_portions(SESSIONS, oldest_use(now)).await?;
        self.delete_in_portions(RESUMPTIONS, oldest_use(now)).await
    }

    /// Records that a client resumes the stream of a call. Returns the number of resumptions so far.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn resume_mcp_stream(&self, call: Uuid, now: Time) -> Result<i64, StoreError> {
        const SQL: &str = "INSERT INTO mcp_resumptions AS m (call_id, resumed, at) VALUES ($1, 1, $2) \
            ON CONFLICT (call_id) DO UPDATE SET resumed = m.resumed + 1, at = excluded.at RETURNING resumed";
        let (resumed,): (i64,) = self.db.write(SQL).bind(call).bind(now).one().await?;
        Ok(resumed)
    }

    /// Returns how often the stream of a call was resumed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn mcp_resumptions(&self, call: Uuid) -> Result<i64, StoreError> {
        const SQL: &str = "SELECT resumed FROM mcp_resumptions WHERE call_id = $1";
        Ok(self.db.read(SQL).bind(call).optional().await?.map_or(0, |(resumed,)| resumed))
    }
}
