//! The tools registered over HTTP.

use std::collections::HashMap;

use super::query::Transaction;
use super::{Store, StoreError, Stores, quota};
use toolpost_core::domain::tenant::QuotaResource;
use toolpost_core::domain::{Tenant, Time};

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
    /// The mark of the check that the definition has passed; `None` if it is unknown.
    pub checked: Option<String>,
}

/// The name and the version of a stored tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// The name of the tool.
    pub name: String,
    /// A number that increases with every change.
    pub revision: i64,
    /// The time of the last change.
    pub updated_at: Time,
}

/// A committed change of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsCommit {
    /// The version of the tenant's tools, groups and presets before the change.
    pub before: i64,
    /// The version after the change.
    pub version: i64,
    /// The tools that were created or replaced.
    pub written: Vec<StoredTool>,
    /// The names of the tools that were deleted.
    pub deleted: Vec<String>,
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

impl Precondition {
    fn kind(self) -> WriteKind {
        match self {
            Self::Anything => WriteKind::Put,
            Self::Absent => WriteKind::Create,
            Self::Revision(_) => WriteKind::Replace,
        }
    }
}

/// What a statement does with its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteKind {
    Create,
    /// Creates or replaces.
    Put,
    /// Replaces tools of known revisions.
    Replace,
}

/// A tool to write.
#[derive(Debug, Clone)]
pub struct ToolWrite {
    /// The name of the tool.
    pub name: String,
    /// The definition as JSON.
    pub definition: String,
    /// The mark of the check that the definition has passed; without it, the definition is checked when it is loaded.
    pub checked: Option<String>,
    /// The condition on the stored tool.
    pub expected: Precondition,
}

/// First statement of every change of tools or groups. Concurrent changes wait here for each other.
const BUMP: &str = "UPDATE tools_clock SET version = version + 1 RETURNING version";
/// Second statement of every change: records the tenant whose tools change.
const MARK: &str = "INSERT INTO tenant_clocks AS c (tenant, version) \
    VALUES ($1, (SELECT version FROM tools_clock)) ON CONFLICT (tenant) DO UPDATE SET version = excluded.version";
const TENANT_VERSION: &str = "SELECT version FROM tenant_clocks WHERE tenant = $1";
const INSERT: &str =
    "INSERT INTO tools AS t (tenant, name, definition, checked, revision, created_at, updated_at) VALUES ";
const OR_NOTHING: &str = " ON CONFLICT (tenant, name) DO NOTHING";
const OR_REPLACE: &str = " ON CONFLICT (tenant, name) DO UPDATE SET definition = excluded.definition, \
    checked = excluded.checked, revision = t.revision + 1, updated_at = excluded.updated_at";
/// The columns have names of their own, so that those of the table are not ambiguous.
const NEXT_REVISIONS: &str = "WITH w (tool, next, mark, expected) AS (VALUES ";
const UPDATE: &str = ") UPDATE tools AS t SET definition = w.next, checked = w.mark, revision = t.revision + 1, \
    updated_at = ";
const OF_REVISIONS: &str = " FROM w WHERE t.name = w.tool AND t.revision = w.expected AND t.tenant = ";
const WRITTEN: &str = " RETURNING name, revision, created_at";
/// Maximum number of tools of one statement. With a statement for each tool, a transaction far from the database would not end
/// in time.
const MAX_WRITES: usize = 250;
const COLUMNS: &str = "SELECT name, definition, revision, created_at, updated_at, checked FROM tools WHERE tenant = ";
/// Maximum number of rows that are read at once.
const PAGE: i64 = 500;

type ToolRow = (String, String, i64, Time, Time, Option<String>);

impl From<ToolRow> for StoredTool {
    fn from((name, definition, revision, created_at, updated_at, checked): ToolRow) -> Self {
        Self { name, definition, revision, created_at, updated_at, checked }
    }
}

impl Store {
    /// Returns the names and versions of all registered tools, by name. They are read in pages, because rows take much
    /// more memory than their values.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tool_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        const SQL: &str =
            "SELECT name, revision, updated_at FROM tools WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3";
        let (mut versions, mut last) = (Vec::new(), String::new());
        loop {
            let page: Vec<(String, i64, Time)> = self.read(SQL).bind(&last).bind(PAGE).all().await?;
            let Some((name, ..)) = page.last() else { return Ok(versions) };
            last.clone_from(name);
            let page = page.into_iter();
            versions.extend(page.map(|(name, revision, updated_at)| StoredVersion { name, revision, updated_at }));
        }
    }

    /// Returns the registered tools of these names, which are at most a few hundred.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_named(&self, names: &[&str]) -> Result<Vec<StoredTool>, StoreError> {
        let query = self.db.read(COLUMNS).push_bind(&self.tenant).push(" AND name IN ").push_list(names).uncached();
        let rows: Vec<ToolRow> = query.all().await?;
        Ok(rows.into_iter().map(StoredTool::from).collect())
    }

    /// Returns all registered tools and their version.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools(&self) -> Result<(Vec<StoredTool>, i64), StoreError> {
        // The version is read first: if a tool changes in between, it is read again instead of missed.
        let version = self.tools_version().await?;
        let rows: Vec<ToolRow> = self.db.read(COLUMNS).push_bind(&self.tenant).push(" ORDER BY name").all().await?;
        Ok((rows.into_iter().map(StoredTool::from).collect(), version))
    }

    /// Returns the version of the tenant's tools, groups, presets and hooks. It increases with every change.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_version(&self) -> Result<i64, StoreError> {
        if self.tenant.is_default() {
            // Nodes of the previous release know only this version and the default tenant.
            return self.tools_clock().await;
        }
        Ok(self.read(TENANT_VERSION).optional().await?.map_or(0, |(version,)| version))
    }

    /// Creates or replaces a tool, without a mark, if its condition holds. Returns `true` if the tool was written.
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
        let (name, definition) = (name.to_owned(), definition.to_owned());
        let write = ToolWrite { name, definition, checked: None, expected };
        Ok(self.put_tools(vec![write], now).await?.is_some())
    }

    /// Creates or replaces all of these tools if all conditions hold. Returns `None` if they do not hold; no tool was
    /// written then.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn put_tools(&self, writes: Vec<ToolWrite>, now: Time) -> Result<Option<ToolsCommit>, StoreError> {
        // A replacement does not count against the quota.
        let adds_tools = writes.iter().any(|write| !matches!(write.expected, Precondition::Revision(_)));
        let only = if let [only] = &*writes { only.name.clone() } else { String::new() };
        let mut written = HashMap::with_capacity(writes.len());
        let versions = self.change_version(async |transaction| {
            for kind in [WriteKind::Create, WriteKind::Put, WriteKind::Replace] {
                let of_kind: Vec<_> = writes.iter().filter(|write| write.expected.kind() == kind).collect();
                for chunk in of_kind.chunks(MAX_WRITES) {
                    let rows = self.put(transaction, kind, chunk, now).await?;
                    written.extend(rows.into_iter().map(|(name, revision, created_at)| (name, (revision, created_at))));
                }
            }
            // A tool is missing whose condition does not hold.
            if written.len() < writes.len() {
                return Ok(false);
            }
            if adds_tools {
                let check = transaction.query(quota::TOOLS).bind(&only);
                self.quotas.check(check, &self.tenant, QuotaResource::Tool).await?;
            }
            Ok(true)
        });
        let Some((before, version)) = versions.await? else { return Ok(None) };
        let stored = writes.into_iter().filter_map(|write| {
            let (revision, created_at) = *written.get(&write.name)?;
            let ToolWrite { name, definition, checked, .. } = write;
            Some(StoredTool { name, definition, revision, created_at, updated_at: now, checked })
        });
        Ok(Some(ToolsCommit { before, version, written: stored.collect(), deleted: Vec::new() }))
    }

    /// Writes tools of one kind. Returns the names, revisions and times of creation of those whose condition holds.
    async fn put(
        &self,
        transaction: &mut Transaction<'_>,
        kind: WriteKind,
        writes: &[&ToolWrite],
        now: Time,
    ) -> Result<Vec<(String, i64, Time)>, StoreError> {
        let is_replace = kind == WriteKind::Replace;
        let mut query = transaction.query(if is_replace { NEXT_REVISIONS } else { INSERT }).uncached();
        let mut separator = "(";
        for ToolWrite { name, definition, checked, expected } in writes {
            query = query.push(separator);
            if !is_replace {
                query = query.push_bind(&self.tenant).push(", ");
            }
            query = query.push_bind(name).push(", ").push_bind(definition).push(", ").push_bind(checked).push(", ");
            query = match expected {
                Precondition::Revision(revision) => query.push_bind(revision).push(")"),
                _ => query.push("1, ").push_bind(now).push(", ").push_bind(now).push(")"),
            };
            separator = ", (";
        }
        let query = match kind {
            WriteKind::Create => query.push(OR_NOTHING),
            WriteKind::Put => query.push(OR_REPLACE),
            WriteKind::Replace => query.push(UPDATE).push_bind(now).push(OF_REVISIONS).push_bind(&self.tenant),
        };
        query.push(WRITTEN).all().await
    }

    /// Deletes a tool and its presets, with `revision` only if the tool has this revision. Returns `None` if it was not
    /// deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_tool(&self, name: &str, revision: Option<i64>) -> Result<Option<ToolsCommit>, StoreError> {
        const SQL: &str = "DELETE FROM tools WHERE tenant = $1 AND name = $2 AND (revision = $3 OR $3 = 0)";
        // A tool registered later under this name must not receive these secrets.
        const PRESETS: &str = "DELETE FROM tool_presets WHERE tenant = $1 AND tool = $2";
        let versions = self.change_version(async |transaction| {
            let query = transaction.query(SQL).bind(&self.tenant).bind(name).bind(revision.unwrap_or(0));
            if query.execute().await? == 0 {
                return Ok(false);
            }
            transaction.query(PRESETS).bind(&self.tenant).bind(name).execute().await?;
            Ok(true)
        });
        let commit = |(before, version)| {
            let (written, deleted) = (Vec::new(), vec![name.to_owned()]);
            ToolsCommit { before, version, written, deleted }
        };
        Ok(versions.await?.map(commit))
    }

    /// Runs a change of the tenant's tools, groups, presets, hooks or servers in one transaction, after increasing their
    /// version. `false` and an error roll back. Returns `true` if the change was committed.
    pub(super) async fn change_tools(
        &self,
        change: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        Ok(self.change_version(change).await?.is_some())
    }

    /// Runs a change as [`Self::change_tools`] does. Returns the versions before and after the change, or `None` if it
    /// was not committed.
    async fn change_version(
        &self,
        change: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<bool, StoreError>,
    ) -> Result<Option<(i64, i64)>, StoreError> {
        let changed = self.db.transaction(async |transaction| {
            let (version,): (i64,) = transaction.query(BUMP).one().await?;
            let before = if self.tenant.is_default() {
                // The default tenant has the version of all tenants.
                version - 1
            } else {
                let row: Option<(i64,)> = transaction.query(TENANT_VERSION).bind(&self.tenant).optional().await?;
                row.map_or(0, |(before,)| before)
            };
            transaction.query(MARK).bind(&self.tenant).execute().await?;
            Ok(change(transaction).await?.then_some((before, version)))
        });
        let changed = changed.await?;
        if let Some((_, version)) = changed {
            self.signals.notify_tools();
            self.await_other_nodes(version).await;
        }
        Ok(changed)
    }

    /// Waits until all other nodes use a committed version, so that every request that begins after the answer sees the
    /// change. The wait is bounded: a node that does not confirm it reads it with its next poll.
    async fn await_other_nodes(&self, version: i64) {
        let Some(node) = self.signals.confirming_node() else { return };
        let others = match self.other_nodes(node).await {
            Ok(others) if others.is_empty() => return,
            Ok(others) => others,
            Err(error) => {
                tracing::debug!(%error, "cannot read which nodes must confirm a change");
                return;
            }
        };
        if !self.signals.await_confirmed(&others, version).await {
            tracing::debug!(version, "another node has not confirmed a change in time");
        }
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
