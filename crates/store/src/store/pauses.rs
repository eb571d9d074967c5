//! The paused tools of all tenants. The rows are the truth; each node has a copy.

use std::sync::Arc;

use super::{StoreError, Stores};
use toolpost_core::domain::{Paused, Tenant, Time};

/// A paused tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPause {
    /// The tenant whose calls are rejected.
    pub tenant: Tenant,
    /// The name of the tool.
    pub tool: Arc<str>,
    /// The pause.
    pub paused: Paused,
}

impl Stores {
    /// Returns the tools that are paused at this time.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tool_pauses(&self, now: Time) -> Result<Vec<StoredPause>, StoreError> {
        const SQL: &str =
            "SELECT tenant, tool, paused_at, paused_until, timeouts FROM tool_pauses WHERE paused_until > $1";
        let rows: Vec<(Tenant, String, Time, Time, i32)> = self.db.read(SQL).bind(now).all().await?;
        let pause = |(tenant, tool, since, until, timeouts): (Tenant, String, Time, Time, i32)| {
            let timeouts = u32::try_from(timeouts).unwrap_or_default();
            StoredPause { tenant, tool: tool.into(), paused: Paused { since, until, timeouts } }
        };
        Ok(rows.into_iter().map(pause).collect())
    }

    /// Stores a pause, unless the tool is already paused for longer.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn pause_tool(&self, pause: &StoredPause) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO tool_pauses AS p (tenant, tool, paused_at, paused_until, timeouts) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, tool) DO UPDATE SET paused_at = excluded.paused_at, \
            paused_until = excluded.paused_until, timeouts = excluded.timeouts WHERE p.paused_until < excluded.paused_until";
        let StoredPause { tenant, tool, paused: Paused { since, until, timeouts } } = pause;
        let query = self.db.write(SQL).bind(tenant).bind(&**tool).bind(since).bind(until);
        query.bind(i32::try_from(*timeouts).unwrap_or(i32::MAX)).execute().await?;
        self.signals.notify_pauses();
        Ok(())
    }

    /// Ends the pause of a tool, if it is paused.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn resume_tool(&self, tenant: &Tenant, tool: &str) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM tool_pauses WHERE tenant = $1 AND tool = $2";
        if self.db.write(SQL).bind(tenant).bind(tool).execute().await? > 0 {
            self.signals.notify_pauses();
        }
        Ok(())
    }

    /// Deletes pauses that are over.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_ended_pauses(&self, now: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM tool_pauses WHERE paused_until <= $1";
        self.db.write(SQL).bind(now).execute().await.map(drop)
    }
}
