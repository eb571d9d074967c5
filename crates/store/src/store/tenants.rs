//! Existing tenants. A tenant is not created explicitly: it exists from its first key, tool, session or call on.

use super::{Store, StoreError};

/// Selects 1 if the tenant has any data, otherwise 0.
const ANYTHING: &str = "SELECT COUNT(*) FROM (SELECT 1 AS found FROM api_keys WHERE tenant = $1 \
    UNION ALL SELECT 1 FROM tenant_clocks WHERE tenant = $1 UNION ALL SELECT 1 FROM sessions WHERE tenant = $1 \
    UNION ALL SELECT 1 FROM tool_stats WHERE tenant = $1 LIMIT 1) AS anything";

impl Store {
    /// Returns `true` if the tenant ever had a key (including revoked ones), tools, a session or an ended call. The
    /// default tenant always exists.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_anything(&self) -> Result<bool, StoreError> {
        if self.tenant.is_default() {
            return Ok(true);
        }
        self.fold_stats().await?;
        let (count,): (i64,) = self.read(ANYTHING).one().await?;
        Ok(count > 0)
    }
}
