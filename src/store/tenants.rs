//! Which tenants there are: those that have a key, or something on record. Nobody makes a tenant; it is there from its first
//! key, tool, session or call on.

use super::{Store, StoreError, db};

/// 1 if the tenant has anything, else 0.
const ANYTHING: &str = "SELECT COUNT(*) FROM (SELECT 1 AS found FROM api_keys WHERE tenant = $1 \
    UNION ALL SELECT 1 FROM tenant_clocks WHERE tenant = $1 UNION ALL SELECT 1 FROM sessions WHERE tenant = $1 \
    UNION ALL SELECT 1 FROM tool_stats WHERE tenant = $1 LIMIT 1) AS anything";

impl Store {
    /// Whether its tenant has a key, revoked ones included, or has ever had tools, a session or a call that ended. The
    /// default tenant is always there.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_anything(&self) -> Result<bool, StoreError> {
        if self.tenant.is_default() {
            return Ok(true);
        }
        self.fold_stats().await?;
        let tenant = self.tenant.as_str().to_owned();
        let (count,): (i64,) =
            db::on_reader!(&self.db, pool => sqlx::query_as(ANYTHING).bind(tenant).fetch_one(pool).await)?;
        Ok(count > 0)
    }
}
