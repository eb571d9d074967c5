//! Hooks registered over HTTP. Their changes count in the version of the tools.

use uuid::Uuid;

use super::{Store, StoreError, Stores, quota};
use toolpost_core::domain::tenant::QuotaResource;
use toolpost_core::domain::{Tenant, Time};

/// A registered hook as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredHook {
    /// The id of the hook.
    pub id: Uuid,
    /// The definition as JSON, without the secret.
    pub definition: String,
    /// The signing secret of the hook; `None` if it uses the shared one.
    pub secret: Option<String>,
    /// The time of registration.
    pub created_at: Time,
}

impl std::fmt::Debug for StoredHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoredHook").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Stores {
    /// Returns all registered hooks with their tenants, in the order of registration, and the version of the tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn hooks(&self) -> Result<(Vec<(Tenant, StoredHook)>, i64), StoreError> {
        const SQL: &str = "SELECT tenant, id, definition, secret, created_at FROM hooks ORDER BY created_at, id";
        // The version is read first: if a hook changes in between, it is read again instead of missed.
        let version = self.tools_clock().await?;
        let hook =
            |(tenant, id, definition, secret, created_at)| (tenant, StoredHook { id, definition, secret, created_at });
        Ok((self.db.read(SQL).all().await?.into_iter().map(hook).collect(), version))
    }
}

impl Store {
    /// Adds a hook.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn insert_hook(&self, hook: &StoredHook) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO hooks (tenant, id, definition, secret, created_at) VALUES ($1, $2, $3, $4, $5)";
        let StoredHook { id, definition, secret, created_at } = hook;
        let inserted = self.change_tools(async |transaction| {
            let query = transaction.query(SQL).bind(&self.tenant).bind(id).bind(definition).bind(secret);
            query.bind(created_at).execute().await?;
            self.quotas.check(transaction.query(quota::HOOKS), &self.tenant, QuotaResource::Hook).await?;
            Ok(true)
        });
        inserted.await.map(drop)
    }

    /// Deletes a hook. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_hook(&self, id: Uuid) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM hooks WHERE tenant = $1 AND id = $2";
        self.change_tools(async |transaction| {
            Ok(transaction.query(SQL).bind(&self.tenant).bind(id).execute().await? > 0)
        })
        .await
    }
}
