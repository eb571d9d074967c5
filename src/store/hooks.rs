//! Hooks registered over HTTP. Their changes count in the version of the tools.

use uuid::Uuid;

use super::tools::{Statement, change, change_all};
use super::{Store, StoreError, Stores, db, quota};
use crate::domain::tenant::QuotaResource;
use crate::domain::{Tenant, Time};

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
        let rows: Vec<(String, Uuid, String, Option<String>, i64)> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).fetch_all(pool).await)?;
        let hooks = rows.into_iter().map(|(tenant, id, definition, secret, created)| {
            (Tenant::stored(&tenant), StoredHook { id, definition, secret, created_at: Time(created) })
        });
        Ok((hooks.collect(), version))
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
        db::on_writer!(&self.db, pool => {
            let query = sqlx::query(SQL)
                .bind(self.tenant.as_str().to_owned())
                .bind(hook.id)
                .bind(hook.definition.clone())
                .bind(hook.secret.clone())
                .bind(hook.created_at.0);
            let room =
                sqlx::query(quota::HOOKS).bind(self.tenant.as_str().to_owned()).bind(self.room.limit(QuotaResource::Hook));
            let statements = vec![Statement::Required(query), Statement::WithinQuota(room)];
            self.fitting(QuotaResource::Hook, change_all(pool, &self.tenant, statements).await).map(drop)
        })
    }

    /// Deletes a hook. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_hook(&self, id: Uuid) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM hooks WHERE tenant = $1 AND id = $2";
        db::on_writer!(&self.db, pool => {
            change(pool, &self.tenant, sqlx::query(SQL).bind(self.tenant.as_str().to_owned()).bind(id)).await
        })
    }
}
