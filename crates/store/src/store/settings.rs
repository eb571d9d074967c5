//! Values that the service creates once and all nodes share.

use super::{StoreError, Stores};

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
        let read = || self.db.write(READ).bind(SIGNING_SECRET).optional();
        if let Some((value,)) = read().await? {
            return Ok(value);
        }
        self.db.write(KEEP).bind(SIGNING_SECRET).bind(made).execute().await?;
        let missing = || StoreError::Corrupt(format!("the setting {SIGNING_SECRET} is missing after it was stored"));
        read().await?.map(|(value,)| value).ok_or_else(missing)
    }
}
