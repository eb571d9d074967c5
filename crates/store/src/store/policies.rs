//! Policies stored over HTTP. Their changes count in the version of the tools.

use super::{Store, StoreError, Stores, quota};
use toolpost_core::domain::policy::PolicyDefinition;
use toolpost_core::domain::tenant::QuotaResource;
use toolpost_core::domain::{Tenant, Time};

/// A stored policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The definition.
    pub definition: PolicyDefinition,
    /// The time of the creation.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

impl Stores {
    /// Returns all stored policies with their tenants, by name, and the version of the tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn policies(&self) -> Result<(Vec<(Tenant, StoredPolicy)>, i64), StoreError> {
        const SQL: &str = "SELECT tenant, definition, created_at, updated_at FROM policies ORDER BY tenant, name";
        // The version is read first: if a policy changes in between, it is read again instead of missed.
        let version = self.tools_clock().await?;
        let rows: Vec<(Tenant, String, Time, Time)> = self.db.read(SQL).all().await?;
        let policy = |(tenant, text, created_at, updated_at): (Tenant, String, Time, Time)| {
            let definition = serde_json::from_str(&text)
                .map_err(|error| StoreError::Corrupt(format!("a policy of {}: {error}", tenant.as_str())))?;
            Ok((tenant, StoredPolicy { definition, created_at, updated_at }))
        };
        Ok((rows.into_iter().map(policy).collect::<Result<_, StoreError>>()?, version))
    }
}

impl Store {
    /// Creates a policy, or replaces it if `replaces`. Returns `false` if it exists and must not be replaced.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn put_policy(&self, policy: &PolicyDefinition, now: Time, replaces: bool) -> Result<bool, StoreError> {
        const INSERT: &str = "INSERT INTO policies (tenant, name, definition, created_at, updated_at) \
            VALUES ($1, $2, $3, $4, $4) ON CONFLICT (tenant, name) DO ";
        let sql = match replaces {
            true => format!("{INSERT}UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at"),
            false => format!("{INSERT}NOTHING"),
        };
        let text = serde_json::to_string(policy).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let put = self.change_tools(async |transaction| {
            let query = transaction.query(format!("{sql} RETURNING name")).bind(&self.tenant).bind(&policy.name);
            let stored: Option<(String,)> = query.bind(&text).bind(now).optional().await?;
            self.quotas.check(transaction.query(quota::POLICIES), &self.tenant, QuotaResource::Policy).await?;
            Ok(stored.is_some())
        });
        put.await
    }

    /// Deletes a policy. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_policy(&self, name: &str) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM policies WHERE tenant = $1 AND name = $2";
        self.change_tools(async |transaction| {
            Ok(transaction.query(SQL).bind(&self.tenant).bind(name).execute().await? > 0)
        })
        .await
    }
}
