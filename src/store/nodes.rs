//! Heartbeats of nodes, and the adoption of calls of lost nodes.

use std::time::Duration;

use uuid::Uuid;

use super::codec::{self, CallRow};
use super::{Db, StoreError, Stores};
use crate::domain::{Call, Tenant};

/// Maximum number of calls adopted at a time.
const PAGE: i64 = 256;

/// The stored state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beaten {
    /// The name of the node.
    pub node: String,
    /// The number of its last heartbeat.
    pub beat: i64,
    /// Whether its lease has expired, by the clock of the database.
    pub is_over: bool,
}

/// Returns the SQL expression for the time of the database, in milliseconds since 1970.
fn now_of(db: &Db) -> &'static str {
    match db {
        Db::Sqlite(_) => "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        Db::Postgres(_) => "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT",
    }
}

impl Stores {
    /// Records a heartbeat of the node. It is valid for `lease` from the time stamped by the database.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn beat(&self, node: &str, lease: Duration) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO nodes AS n (node, beat, lease_ms) VALUES ($1, 1, $2) \
            ON CONFLICT (node) DO UPDATE SET beat = n.beat + 1, lease_ms = excluded.lease_ms";
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        self.db.write(SQL).bind(node).bind(lease_ms).execute().await.map(drop)
    }

    /// Returns all nodes. `lease` applies to nodes of an earlier version, which do not store theirs.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn nodes(&self, lease: Duration) -> Result<Vec<Beaten>, StoreError> {
        let now = now_of(&self.db);
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        let look = format!(
            "SELECT node, beat, COALESCE({now} - beat_at >= COALESCE(lease_ms, $1), FALSE), \
             COALESCE(beat_at > {now}, TRUE) FROM nodes"
        );
        // Uses the writer, like heartbeats, so that it does not wait for queries.
        let rows: Vec<(String, i64, bool, bool)> = self.db.write(look).bind(lease_ms).all().await?;
        if rows.iter().any(|(.., is_ahead)| *is_ahead) {
            // The clock was set back. Without this update, leases would last until it reaches the old time again.
            let again = format!("UPDATE nodes SET beat = beat WHERE COALESCE(beat_at > {now}, TRUE)");
            self.db.write(again).execute().await?;
        }
        Ok(rows.into_iter().map(|(node, beat, is_over, _)| Beaten { node, beat, is_over }).collect())
    }

    /// Deletes a node unless it has sent a heartbeat after `beat`; its calls are then orphaned.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn expire_node(&self, node: &str, beat: i64) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM nodes WHERE node = $1 AND beat = $2";
        self.db.write(SQL).bind(node).bind(beat).execute().await.map(drop)
    }

    /// Deletes a node that shuts down; its unfinished calls are then orphaned.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn deregister(&self, node: &str) -> Result<(), StoreError> {
        self.db.write("DELETE FROM nodes WHERE node = $1").bind(node).execute().await.map(drop)
    }

    /// Deletes all other nodes, except nodes that run calls from a command line.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn strike_off_servers(&self, node: &str) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM nodes WHERE node <> $1 AND node NOT LIKE 'cli-%'";
        self.db.write(SQL).bind(node).execute().await.map(drop)
    }

    /// Adopts up to `most` orphaned calls, running calls before waiting ones and older calls before newer ones. Each call
    /// is adopted by only one node. Returns the calls by priority, then by age.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn adopt(&self, node: &str, most: usize) -> Result<Vec<Call>, StoreError> {
        const ORPHANED: &str = "status < 2 AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.node = tool_calls.node)";
        let most = i64::try_from(most).unwrap_or(PAGE).min(PAGE);
        let lock = if matches!(self.db, Db::Postgres(_)) { " FOR UPDATE SKIP LOCKED" } else { "" };
        let adoption = format!(
            "UPDATE tool_calls SET node = $1 WHERE id IN (SELECT id FROM tool_calls WHERE {ORPHANED} \
             ORDER BY status DESC, id LIMIT $2{lock}) AND {ORPHANED} RETURNING {}",
            codec::COLUMNS
        );
        let rows: Vec<CallRow> = self.db.write(adoption).bind(node).bind(most).all().await?;
        let mut calls = Vec::with_capacity(rows.len());
        for row in rows {
            // These calls already belong to this node, so a corrupt row must not stop the others.
            match row.decode() {
                Ok(call) => calls.push(call),
                Err(error) => tracing::error!(%error, "cannot decode an orphaned call"),
            }
        }
        calls.sort_by_key(|call| (std::cmp::Reverse(call.priority), call.id));
        Ok(calls)
    }

    /// Returns the tenant of a call, or `None` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn owner_of(&self, call: Uuid) -> Result<Option<Tenant>, StoreError> {
        const SQL: &str = "SELECT tenant FROM tool_calls WHERE id = $1";
        Ok(self.db.read(SQL).bind(call).optional().await?.map(|(tenant,)| tenant))
    }

    /// Returns these calls of any tenant, in no particular order, to resume them or deliver their ends.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls_of_any_tenant(&self, ids: &[Uuid]) -> Result<Vec<Call>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.db.calls(ids).all().await?.into_iter().map(CallRow::decode).collect()
    }

    /// Returns those of these calls that do not belong to this node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn not_of(&self, node: &str, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = self.db.read("SELECT id FROM tool_calls WHERE node <> ").push_bind(node);
        query.push(" AND id IN ").push_list(ids).column().await
    }

    /// Returns the unfinished calls of this node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn under_way(&self, node: &str) -> Result<Vec<Uuid>, StoreError> {
        const SQL: &str = "SELECT id FROM tool_calls WHERE status < 2 AND node = $1";
        self.db.read(SQL).bind(node).column().await
    }
}
