//! The tools registered over HTTP.

use sqlx::{Connection, Database, Encode, Executor, IntoArguments, Type};

use super::timeout::TimedPool;
use super::{Store, StoreError, Stores, db, quota};
use crate::domain::tenant::QuotaResource;
use crate::domain::{Tenant, Time};

/// A registered definition as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTool {
    /// Its name.
    pub name: String,
    /// The definition as JSON.
    pub definition: String,
    /// Counted up by every change.
    pub revision: i64,
    /// When it was registered.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// What must be true of the stored tool for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: it is made or replaced.
    Anything,
    /// It does not exist.
    Absent,
    /// It has this revision.
    Revision(i64),
}

/// A tool to be written.
#[derive(Debug, Clone)]
pub struct ToolWrite {
    /// Its name.
    pub name: String,
    /// The definition as JSON.
    pub definition: String,
    /// What must be true of the stored tool.
    pub expected: Precondition,
}

/// Whoever changes tools or groups does this first, and so waits for whoever else does.
pub(super) const BUMP: &str = "UPDATE tools_clock SET version = version + 1";
/// And then this: whose they are.
pub(super) const MARK: &str = "INSERT INTO tenant_clocks AS c (tenant, version) \
    VALUES ($1, (SELECT version FROM tools_clock)) ON CONFLICT (tenant) DO UPDATE SET version = excluded.version";
const INSERT: &str = "INSERT INTO tools AS t (tenant, name, definition, revision, created_at, updated_at) \
    VALUES ($1, $2, $3, 1, $4, $4) ON CONFLICT (tenant, name) DO ";
const REPLACE: &str = "UPDATE SET definition = excluded.definition, revision = t.revision + 1, \
    updated_at = excluded.updated_at";
const REPLACE_REVISION: &str = "UPDATE tools SET definition = $3, revision = revision + 1, updated_at = $4 \
    WHERE tenant = $1 AND name = $2 AND revision = $5";

impl Store {
    /// All registered tools, and the version of the whole.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools(&self) -> Result<(Vec<StoredTool>, i64), StoreError> {
        const SQL: &str =
            "SELECT name, definition, revision, created_at, updated_at FROM tools WHERE tenant = $1 ORDER BY name";
        // The version first: if a tool changes in between, the next look reads again rather than never.
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

    /// Moves with every change of the tenant's tools, groups, presets and hooks.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_version(&self) -> Result<i64, StoreError> {
        const SQL: &str = "SELECT version FROM tenant_clocks WHERE tenant = $1";
        if self.tenant.is_default() {
            // A node of the release before knows this clock alone, and this tenant.
            return self.tools_clock().await;
        }
        let row: Option<(i64,)> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_optional(pool).await)?;
        Ok(row.map_or(0, |(version,)| version))
    }

    /// Makes or replaces a tool if it is as expected; returns whether it was.
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

    /// Makes or replaces all of these tools if every one is as expected, or none; returns whether it did.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn put_tools(&self, writes: &[ToolWrite], now: Time) -> Result<bool, StoreError> {
        // Replacing takes no room.
        let takes_room = writes.iter().any(|write| !matches!(write.expected, Precondition::Revision(_)));
        let only = if let [only] = writes { only.name.as_str() } else { "" };
        db::on_writer!(&self.db, pool => {
            let room = takes_room.then(|| {
                let room = sqlx::query(quota::TOOLS).bind(self.tenant.as_str().to_owned());
                Statement::Fits(room.bind(self.room.limit(QuotaResource::Tool)).bind(only.to_owned()))
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
                Statement::Counts(query)
            });
            let statements = statements.chain(room).collect();
            self.fitting(QuotaResource::Tool, change_all(pool, &self.tenant, statements).await)
        })
    }

    /// Removes a tool, if it has this revision where one is given, and what was stored for it; returns whether it did.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_tool(&self, name: &str, revision: Option<i64>) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM tools WHERE tenant = $1 AND name = $2 AND (revision = $3 OR $3 = 0)";
        // Whoever registers a tool of this name later is not to be given its secrets.
        const PRESETS: &str = "DELETE FROM tool_presets WHERE tenant = $1 AND tool = $2";
        db::on_writer!(&self.db, pool => {
            let query = sqlx::query(SQL)
                .bind(self.tenant.as_str().to_owned())
                .bind(name.to_owned())
                .bind(revision.unwrap_or(0));
            let presets = sqlx::query(PRESETS).bind(self.tenant.as_str().to_owned()).bind(name.to_owned());
            let statements = vec![Statement::Counts(query), Statement::Follows(presets)];
            change_all(pool, &self.tenant, statements).await.map(|changed| changed == WriteOutcome::Yes)
        })
    }
}

impl Stores {
    /// Moves with every change of anybody's tools, groups, presets and hooks.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_clock(&self) -> Result<i64, StoreError> {
        let (version,): (i64,) = db::on_reader!(&self.db, pool =>
            sqlx::query_as("SELECT version FROM tools_clock").fetch_one(pool).await)?;
        Ok(version)
    }

    /// Whose tools, groups, presets or hooks have changed behind this version.
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
    /// Whether a change was made, if there is room for it.
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

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// It is made.
    Yes,
    /// A statement that has to change something did not: nothing is changed.
    No,
    /// The tenant would have more than it may: nothing is changed.
    TooMany,
}

/// One of several statements.
pub(super) enum Statement<Q> {
    /// Has to change something, or nothing is changed at all.
    Counts(Q),
    /// Finds a row only if there is room for what the statements before it have written; see [`room`].
    Fits(Q),
    /// May find nothing to change.
    Follows(Q),
}

/// Runs a change of `tools` and moves their clock with it, in one transaction; returns whether anything changed.
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
    Ok(change_all(pool, tenant, vec![Statement::Counts(query)]).await? == WriteOutcome::Yes)
}

/// The same of several changes, in their order.
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
                Statement::Counts(query) => (query, WriteOutcome::No),
                Statement::Fits(query) => (query, WriteOutcome::TooMany),
                Statement::Follows(query) => (query, WriteOutcome::Yes),
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

/// How many rows a statement changed, on either database.
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
