//! The tools registered over HTTP.

use std::borrow::Cow;

use super::query::Transaction;
use super::{Store, StoreError, Stores, quota};
use crate::domain::tenant::QuotaResource;
use crate::domain::{Tenant, Time};

/// A stored definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTool {
    /// The name of the tool.
    pub name: String,
    /// The definition as JSON.
    pub definition: String,
    /// A number that increases with every change.
    pub revision: i64,
    /// The time of registration.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

/// The condition on the stored tool under which a write happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// No condition: the tool is created or replaced.
    Anything,
    /// The tool does not exist.
    Absent,
    /// The tool has this revision.
    Revision(i64),
}

/// A tool to write.
#[derive(Debug, Clone)]
pub struct ToolWrite {
    /// The name of the tool.
    pub name: String,
    /// The definition as JSON.
    pub definition: String,
    /// The condition on the stored tool.
    pub expected: Precondition,
}

/// First statement of every change of tools or groups. Concurrent changes wait here for each other.
const BUMP: &str = "UPDATE tools_clock SET version = version + 1";
/// Second statement of every change: records the tenant whose tools change.
const MARK: &str = "INSERT INTO tenant_clocks AS c (tenant, version) \
    VALUES ($1, (SELECT version FROM tools_clock)) ON CONFLICT (tenant) DO UPDATE SET version = excluded.version";
const INSERT: &str = "INSERT INTO tools AS t (tenant, name, definition, revision, created_at, updated_at) \
    VALUES ($1, $2, $3, 1, $4, $4) ON CONFLICT (tenant, name) DO ";
const REPLACE: &str = "UPDATE SET definition = excluded.definition, revision = t.revision + 1, \
    updated_at = excluded.updated_at";
const REPLACE_REVISION: &str = "UPDATE tools SET definition = $3, revision = revision + 1, updated_at = $4 \
    WHERE tenant = $1 AND name = $2 AND revision = $5";

impl Store {
    /// Returns all registered tools and their version.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools(&self) -> Result<(Vec<StoredTool>, i64), StoreError> {
        const SQL: &str =
            "SELECT name, definition, revision, created_at, updated_at FROM tools WHERE tenant = $1 ORDER BY name";
        // The version is read first: if a tool changes in between, it is read again instead of missed.
        let version = self.tools_version().await?;
        let tools =
            self.read(SQL).all().await?.into_iter().map(|(name, definition, revision, created_at, updated_at)| {
                StoredTool { name, definition, revision, created_at, updated_at }
            });
        Ok((tools.collect(), version))
    }

    /// Returns the version of the tenant's tools, groups, presets and hooks. It increases with every change.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_version(&self) -> Result<i64, StoreError> {
        const SQL: &str = "SELECT version FROM tenant_clocks WHERE tenant = $1";
        if self.tenant.is_default() {
            // Nodes of the previous release know only this version and the default tenant.
            return self.tools_clock().await;
        }
        Ok(self.read(SQL).optional().await?.map_or(0, |(version,)| version))
    }

    /// Creates or replaces a tool if its condition holds. Returns `true` if the tool was written.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn put_tool(
        &self,
        name: &str,
        definition: &str,
        expected: Precondition,
        now: Time,
    ) -> Result<bool, StoreError> {
        let write = ToolWrite { name: name.to_owned(), definition: definition.to_owned(), expected };
        self.put_tools(&[write], now).await
    }

    /// Creates or replaces all of these tools if all conditions hold, otherwise none. Returns `true` if they were
    /// written.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn put_tools(&self, writes: &[ToolWrite], now: Time) -> Result<bool, StoreError> {
        // A replacement does not count against the quota.
        let takes_room = writes.iter().any(|write| !matches!(write.expected, Precondition::Revision(_)));
        let only = if let [only] = writes { only.name.as_str() } else { "" };
        self.change_tools(async |transaction| {
            for ToolWrite { name, definition, expected } in writes {
                let sql = match expected {
                    Precondition::Anything => format!("{INSERT}{REPLACE}").into(),
                    Precondition::Absent => format!("{INSERT}NOTHING").into(),
                    Precondition::Revision(_) => Cow::Borrowed(REPLACE_REVISION),
                };
                let mut query = transaction.query(sql).bind(&self.tenant).bind(name).bind(definition).bind(now);
                if let Precondition::Revision(revision) = expected {
                    query = query.bind(revision);
                }
                if query.execute().await? == 0 {
                    return Ok(false);
                }
            }
            if takes_room {
                let check = transaction.query(quota::TOOLS).bind(only);
                self.room.check(check, &self.tenant, QuotaResource::Tool).await?;
            }
            Ok(true)
        })
        .await
    }

    /// Deletes a tool and its presets, with `revision` only if the tool has this revision. Returns `true` if it was
    /// deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_tool(&self, name: &str, revision: Option<i64>) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM tools WHERE tenant = $1 AND name = $2 AND (revision = $3 OR $3 = 0)";
        // A tool registered later under this name must not receive these secrets.
        const PRESETS: &str = "DELETE FROM tool_presets WHERE tenant = $1 AND tool = $2";
        self.change_tools(async |transaction| {
            let query = transaction.query(SQL).bind(&self.tenant).bind(name).bind(revision.unwrap_or(0));
            if query.execute().await? == 0 {
                return Ok(false);
            }
            transaction.query(PRESETS).bind(&self.tenant).bind(name).execute().await?;
            Ok(true)
        })
        .await
    }

    /// Runs a change of the tenant's tools, groups, presets, hooks or servers in one transaction, after increasing their
    /// version. `false` and an error roll back. Returns `true` if the change was committed.
    pub(super) async fn change_tools(
        &self,
        change: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let changed = self.db.transaction(async |transaction| {
            transaction.query(BUMP).execute().await?;
            transaction.query(MARK).bind(&self.tenant).execute().await?;
            Ok(change(transaction).await?.then_some(()))
        });
        let has_changed = changed.await?.is_some();
        if has_changed {
            self.signals.notify_tools();
        }
        Ok(has_changed)
    }
}

impl Stores {
    /// Returns the version of the tools, groups, presets and hooks of all tenants. It increases with every change.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_clock(&self) -> Result<i64, StoreError> {
        let (version,) = self.db.read("SELECT version FROM tools_clock").one().await?;
        Ok(version)
    }

    /// Returns the tenants whose tools, groups, presets or hooks changed after version `behind`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn changed_tenants(&self, behind: i64) -> Result<Vec<Tenant>, StoreError> {
        const SQL: &str = "SELECT tenant FROM tenant_clocks WHERE version > $1";
        self.db.read(SQL).bind(behind).column().await
    }
}
