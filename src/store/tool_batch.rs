//! Several registered tools in one change.

use super::tools::{INSERT, Precondition, REPLACE, REPLACE_REVISION, Statement, change_all};
use super::{Db, Store, StoreError, quota};
use crate::domain::Time;
use crate::domain::tenant::QuotaResource;

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

impl Store {
    /// Makes or replaces all of these tools if every one is as expected, or none; returns whether it did.
    ///
    /// # Errors
    /// If the tenant has as many already as it may have, or the database fails.
    pub async fn put_tools(&self, writes: &[ToolWrite], now: Time) -> Result<bool, StoreError> {
        macro_rules! write {
            ($pool:expr) => {{
                // Replacing takes no room.
                let takes_room = writes.iter().any(|write| !matches!(write.expected, Precondition::Revision(_)));
                let room = takes_room.then(|| {
                    let room = sqlx::query(quota::TOOLS).bind(self.tenant.as_str().to_owned());
                    Statement::Fits(room.bind(self.room.limit(QuotaResource::Tool)).bind(String::new()))
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
                self.fitting(QuotaResource::Tool, change_all($pool, &self.tenant, statements).await)
            }};
        }
        match &self.db {
            Db::Sqlite(pools) => write!(&pools.writer),
            Db::Postgres(pools) => write!(&pools.writer),
        }
    }
}
