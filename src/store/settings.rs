//! Values that the service creates once and all nodes share.

use super::{StoreError, Stores, db};

/// The name of the signing secret.
const SIGNING_SECRET: &str = "signing_secret";

impl Stores {
    /// Returns the stored signing secret, or stores and returns `made`. Nodes that start concurrently agree on one
    /// secret.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn signing_secret(&self, made: &str) -> Result<String, StoreError> {
        const READ: &str = "SELECT value FROM settings WHERE name = $1";
        const KEEP: &str = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        db::on_writer!(&self.db, pool => {
            let read = || sqlx::query_scalar::<_, String>(READ).bind(SIGNING_SECRET).fetch_optional(pool);
            if let Some(value) = read().await? {
                return Ok(value);
            }
            sqlx::query(KEEP).bind(SIGNING_SECRET).bind(made.to_owned()).execute(pool).await?;
            read().await?.ok_or_else(|| StoreError::Corrupt(format!("the setting {SIGNING_SECRET} is missing after it was stored")))
        })
    }
}
