//! The tools registered over HTTP.

use sqlx::{Connection, Database, Encode, Executor, IntoArguments, Type};

use super::timeout::TimedPool;
use super::{Store, StoreError, Stores, db, quota};
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
pub(super) const BUMP: &str = "UPDATE tools_clock SET version = version + 1";
/// Second statement of every change: records the tenant whose tools change.
pub(super) const MARK: &str = "INSERT INTO tenant_clocks AS c (tenant, version) \
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
        let rows: Vec<(String, String, i64, i64, i64)> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_all(pool).await)?;
        let tools = rows.into_iter().map(|(name, definition, revision, created, updated)| StoredTool {
            name,
            definition,
            revision,
            created_at: Time(created),
            updated_at: Time(updated),
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
        let row: Option<(i64,)> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_optional(pool).await)?;
        Ok(row.map_or(0, |(version,)| version))
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
        db::on_writer!(&self.db, pool => {
            let room = takes_room.then(|| {
                let room = sqlx::query(quota::TOOLS).bind(self.tenant.as_str().to_owned());
                Statement::WithinQuota(room.bind(self.room.limit(QuotaResource::Tool)).bind(only.to_owned()))
            });
            let statements = writes.iter().map(|write| {
                let text = match write.expected {
                    Precondition::Anything => format!("{INSERT}{REPLACE}"),
                    Precondition::Absent => format!("{INSERT}NOTHING"),
                    Precondition::Revision(_) => REPLACE_REVISION.to_owned(),
                };
                let mut query = sqlx::query(sqlx::AssertSqlSafe(text))
                    .bind(self.tenant.as_str().to_owned())
                    .bind(write.name.clone())
                    .bind(write.definition.clone())
                    .bind(now.0);
                if let Precondition::Revision(revision) = write.expected {
                    query = query.bind(revision);
                }
                Statement::Required(query)
            });
            let statements = statements.chain(room).collect();
            self.fitting(QuotaResource::Tool, change_all(pool, &self.tenant, statements).await)
        })
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
        db::on_writer!(&self.db, pool => {
            let query = sqlx::query(SQL)
                .bind(self.tenant.as_str().to_owned())
                .bind(name.to_owned())
                .bind(revision.unwrap_or(0));
            let presets = sqlx::query(PRESETS).bind(self.tenant.as_str().to_owned()).bind(name.to_owned());
            let statements = vec![Statement::Required(query), Statement::Optional(presets)];
            change_all(pool, &self.tenant, statements).await.map(|changed| changed == WriteOutcome::Yes)
        })
    }
}

impl Stores {
    /// Returns the version of the tools, groups, presets and hooks of all tenants. It increases with every change.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_clock(&self) -> Result<i64, StoreError> {
        let (version,): (i64,) = db::on_reader!(&self.db, pool =>
            sqlx::query_as("SELECT version FROM tools_clock").fetch_one(pool).await)?;
        Ok(version)
    }

    /// Returns the tenants whose tools, groups, presets or hooks changed after version `behind`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn changed_tenants(&self, behind: i64) -> Result<Vec<Tenant>, StoreError> {
        const SQL: &str = "SELECT tenant FROM tenant_clocks WHERE version > $1";
        let rows: Vec<(String,)> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).bind(behind).fetch_all(pool).await)?;
        Ok(rows.into_iter().map(|(tenant,)| Tenant::stored(&tenant)).collect())
    }
}

impl Store {
    /// Returns whether a change was made, or [`StoreError::TooMany`] if it exceeds the quota.
    pub(super) fn fitting(
        &self,
        what: QuotaResource,
        changed: Result<WriteOutcome, StoreError>,
    ) -> Result<bool, StoreError> {
        match changed? {
            WriteOutcome::Yes => Ok(true),
            WriteOutcome::No => Ok(false),
            WriteOutcome::TooMany => Err(self.room.too_many(what)),
        }
    }
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The change was made.
    Yes,
    /// A required statement changed no row, so nothing is changed.
    No,
    /// The quota of the tenant would be exceeded, so nothing is changed.
    TooMany,
}

/// One statement of a change.
pub(super) enum Statement<Q> {
    /// Must change a row, otherwise the whole change is rolled back.
    Required(Q),
    /// Finds a row only if the preceding statements stay within the quota; see [`quota`](super::quota).
    WithinQuota(Q),
    /// May change no row.
    Optional(Q),
}

/// Runs a change of tools and increases their version in one transaction. Returns `true` if the statement changed a
/// row.
pub(super) async fn change<'q, D, A>(
    pool: &TimedPool<D>,
    tenant: &Tenant,
    query: sqlx::query::Query<'q, D, A>,
) -> Result<bool, StoreError>
where
    D: Database,
    A: 'q + Send + IntoArguments<D>,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    D::Arguments: IntoArguments<D>,
    String: for<'e> Encode<'e, D> + Type<D>,
    D::QueryResult: RowsAffected,
{
    Ok(change_all(pool, tenant, vec![Statement::Required(query)]).await? == WriteOutcome::Yes)
}

/// Runs several statements as one change, in their order.
pub(super) async fn change_all<'q, D, A>(
    pool: &TimedPool<D>,
    tenant: &Tenant,
    statements: Vec<Statement<sqlx::query::Query<'q, D, A>>>,
) -> Result<WriteOutcome, StoreError>
where
    D: Database,
    A: 'q + Send + IntoArguments<D>,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    D::Arguments: IntoArguments<D>,
    String: for<'e> Encode<'e, D> + Type<D>,
    D::QueryResult: RowsAffected,
{
    let mut changed = WriteOutcome::Yes;
    db::in_transaction!(@on pool, transaction => {
        sqlx::query::<D>(BUMP).execute(&mut *transaction).await?;
        sqlx::query::<D>(MARK).bind(tenant.as_str().to_owned()).execute(&mut *transaction).await?;
        for statement in statements {
            let (query, if_nothing) = match statement {
                Statement::Required(query) => (query, WriteOutcome::No),
                Statement::WithinQuota(query) => (query, WriteOutcome::TooMany),
                Statement::Optional(query) => (query, WriteOutcome::Yes),
            };
            if query.execute(&mut *transaction).await?.affected() == 0 {
                changed = if_nothing;
            }
            if changed != WriteOutcome::Yes {
                break;
            }
        }
        (changed == WriteOutcome::Yes).then_some(())
    })?;
    Ok(changed)
}

/// Access to the number of changed rows on either database.
pub(super) trait RowsAffected {
    fn affected(&self) -> u64;
}

impl RowsAffected for sqlx::sqlite::SqliteQueryResult {
    fn affected(&self) -> u64 {
        self.rows_affected()
    }
}

impl RowsAffected for sqlx::postgres::PgQueryResult {
    fn affected(&self) -> u64 {
        self.rows_affected()
    }
}
