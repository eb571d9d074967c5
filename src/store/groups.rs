//! Groups of tools, and their switches in sessions.

use std::collections::BTreeMap;

use sqlx::Connection;

use super::db::in_transaction;
use super::tools::{BUMP, MARK};
use super::{Store, StoreError, db, quota};
use crate::domain::tenant::QuotaResource;
use crate::domain::{Group, Time};

mod delete;

/// A stored group: name, description, active, manageable, time of creation, time of the last change.
type Row = (String, String, bool, bool, i64, i64);

/// A change of one group. Absent fields keep their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// The name of the group.
    pub name: String,
    /// The purpose of its tools.
    pub description: Option<String>,
    /// Whether its tools can be called.
    pub active: Option<bool>,
    /// Whether a model may activate and deactivate it.
    pub manageable: Option<bool>,
    /// Whether a definition names the group; then it is stored with this change if it is not stored yet.
    pub is_named: bool,
}

impl Store {
    /// Returns all stored groups, by name.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn groups(&self) -> Result<Vec<Group>, StoreError> {
        const SQL: &str = "SELECT name, description, active, manageable, created_at, updated_at FROM tool_groups \
            WHERE tenant = $1 ORDER BY name";
        let rows: Vec<Row> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_all(pool).await)?;
        let group = |(name, description, active, manageable, created, updated)| Group {
            name,
            description,
            active,
            manageable,
            is_stored: true,
            created_at: Time(created),
            updated_at: Time(updated),
        };
        Ok(rows.into_iter().map(group).collect())
    }

    /// Creates a group. Returns `false` if a group of this name exists.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn make_group(&self, group: &Group) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO tool_groups (tenant, name, description, active, manageable, created_at, updated_at) \
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, name) DO NOTHING";
        let mut fits = true;
        let made = in_transaction!(&self.db, transaction => {
            sqlx::query(BUMP).execute(&mut *transaction).await?;
            sqlx::query(MARK).bind(self.tenant.as_str().to_owned()).execute(&mut *transaction).await?;
            let rows = sqlx::query(SQL)
                .bind(self.tenant.as_str().to_owned())
                .bind(group.name.clone())
                .bind(group.description.clone())
                .bind(group.active)
                .bind(group.manageable)
                .bind(group.created_at.0)
                .bind(group.updated_at.0)
                .execute(&mut *transaction)
                .await?
                .rows_affected();
            if rows > 0 {
                let room = sqlx::query(quota::GROUPS).bind(self.tenant.as_str().to_owned());
                let room = room.bind(self.room.limit(QuotaResource::Group)).execute(&mut *transaction).await?;
                fits = room.rows_affected() > 0;
            }
            (rows > 0 && fits).then_some(())
        })?;
        if fits { Ok(made.is_some()) } else { Err(self.room.too_many(QuotaResource::Group)) }
    }

    /// Changes these groups, or none if one of them does not exist. Returns `true` if they were changed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn change_groups(&self, changes: &[GroupChange], now: Time) -> Result<bool, StoreError> {
        const CHANGE: &str = "UPDATE tool_groups SET description = COALESCE($3, description), \
            active = COALESCE($4, active), manageable = COALESCE($5, manageable), updated_at = $6 \
            WHERE tenant = $1 AND name = $2";
        const KEEP: &str = "INSERT INTO tool_groups (tenant, name, description, active, manageable, created_at, updated_at) \
            VALUES ($1, $2, COALESCE($3, ''), COALESCE($4, TRUE), COALESCE($5, FALSE), $6, $6)";
        let changed = in_transaction!(&self.db, transaction => 'all: {
            sqlx::query(BUMP).execute(&mut *transaction).await?;
            sqlx::query(MARK).bind(self.tenant.as_str().to_owned()).execute(&mut *transaction).await?;
            for change in changes {
                let mut rows = 0;
                // A group that a definition names is stored with its first change.
                for text in [Some(CHANGE), change.is_named.then_some(KEEP)].into_iter().flatten() {
                    if rows == 0 {
                        rows = sqlx::query(text)
                            .bind(self.tenant.as_str().to_owned())
                            .bind(change.name.clone())
                            .bind(change.description.clone())
                            .bind(change.active)
                            .bind(change.manageable)
                            .bind(now.0)
                            .execute(&mut *transaction)
                            .await?
                            .rows_affected();
                    }
                }
                if rows == 0 {
                    break 'all None;
                }
            }
            Some(())
        })?;
        Ok(changed.is_some())
    }

    /// Switches groups for one session; its other switches stay as they are. Returns `false` if the session does not
    /// exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn switch_session_groups(&self, id: &str, switches: &BTreeMap<String, bool>) -> Result<bool, StoreError> {
        // Locks the row first, so that concurrent changes do not overwrite each other.
        const LOCK: &str = "UPDATE sessions SET switched = switched WHERE tenant = $1 AND id = $2";
        const READ: &str = "SELECT switched FROM sessions WHERE tenant = $1 AND id = $2";
        const WRITE: &str = "UPDATE sessions SET switched = $3 WHERE tenant = $1 AND id = $2";
        let (tenant, id) = (self.tenant.as_str().to_owned(), id.to_owned());
        let switched = in_transaction!(&self.db, transaction => {
            let locked = sqlx::query(LOCK).bind(tenant.clone()).bind(id.clone()).execute(&mut *transaction).await?;
            if locked.rows_affected() == 0 {
                None
            } else {
                let (text,): (String,) =
                    sqlx::query_as(READ).bind(tenant.clone()).bind(id.clone()).fetch_one(&mut *transaction).await?;
                let corrupt = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
                let mut all: BTreeMap<String, bool> = serde_json::from_str(&text).map_err(corrupt)?;
                all.extend(switches.clone());
                let text = serde_json::to_string(&all).map_err(corrupt)?;
                sqlx::query(WRITE).bind(tenant).bind(id).bind(text).execute(&mut *transaction).await?;
                Some(())
            }
        })?;
        Ok(switched.is_some())
    }
}
