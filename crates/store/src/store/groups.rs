//! Groups of tools, and their switches in sessions.

use std::collections::BTreeMap;

use super::{Store, StoreError, quota};
use toolpost_core::domain::tenant::QuotaResource;
use toolpost_core::domain::{Group, Time};

mod delete;

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
        let group = |(name, description, active, manageable, created_at, updated_at)| Group {
            name,
            description,
            active,
            manageable,
            is_stored: true,
            created_at,
            updated_at,
        };
        Ok(self.read(SQL).all().await?.into_iter().map(group).collect())
    }

    /// Creates a group. Returns `false` if a group of this name exists.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn make_group(&self, group: &Group) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO tool_groups (tenant, name, description, active, manageable, created_at, updated_at) \
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, name) DO NOTHING";
        let Group { name, description, active, manageable, created_at, updated_at, .. } = group;
        self.change_tools(async |transaction| {
            let query = transaction.query(SQL).bind(&self.tenant).bind(name).bind(description);
            let query = query.bind(active).bind(manageable).bind(created_at).bind(updated_at);
            if query.execute().await? == 0 {
                return Ok(false);
            }
            self.quotas.check(transaction.query(quota::GROUPS), &self.tenant, QuotaResource::Group).await?;
            Ok(true)
        })
        .await
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
        self.change_tools(async |transaction| {
            for GroupChange { name, description, active, manageable, is_named } in changes {
                let mut rows = 0;
                // A group that a definition names is stored with its first change.
                for sql in [Some(CHANGE), is_named.then_some(KEEP)].into_iter().flatten() {
                    if rows == 0 {
                        let query = transaction.query(sql).bind(&self.tenant).bind(name).bind(description);
                        rows = query.bind(active).bind(manageable).bind(now).execute().await?;
                    }
                }
                if rows == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
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
        let switched = self.db.transaction(async |transaction| {
            if transaction.query(LOCK).bind(&self.tenant).bind(id).execute().await? == 0 {
                return Ok(None);
            }
            let (text,): (String,) = transaction.query(READ).bind(&self.tenant).bind(id).one().await?;
            let corrupt = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
            let mut all: BTreeMap<String, bool> = serde_json::from_str(&text).map_err(corrupt)?;
            all.extend(switches.clone());
            let text = serde_json::to_string(&all).map_err(corrupt)?;
            transaction.query(WRITE).bind(&self.tenant).bind(id).bind(text).execute().await?;
            Ok(Some(()))
        });
        Ok(switched.await?.is_some())
    }
}
