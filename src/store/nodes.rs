//! Heartbeats of nodes, and the adoption of calls of lost nodes.

use std::time::Duration;

use sqlx::{AssertSqlSafe, QueryBuilder};
use uuid::Uuid;

use super::codec::{self, CallRow};
use super::events::by_ids;
use super::{Db, StoreError, Stores, db};
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
        db::on_writer!(&self.db, pool => sqlx::query(SQL).bind(node.to_owned()).bind(lease_ms).execute(pool).await.map(drop))?;
        Ok(())
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
        let rows: Vec<(String, i64, bool, bool)> = db::on_writer!(&self.db, pool =>
            sqlx::query_as(AssertSqlSafe(look)).bind(lease_ms).fetch_all(pool).await)?;
        if rows.iter().any(|(.., is_ahead)| *is_ahead) {
            // The clock was set back. Without this update, leases would last until it reaches the old time again.
            let again = AssertSqlSafe(format!("UPDATE nodes SET beat = beat WHERE COALESCE(beat_at > {now}, TRUE)"));
            db::on_writer!(&self.db, pool => sqlx::query(again).execute(pool).await.map(drop))?;
        }
        Ok(rows.into_iter().map(|(node, beat, is_over, _)| Beaten { node, beat, is_over }).collect())
    }

    /// Deletes a node unless it has sent a heartbeat after `beat`; its calls are then orphaned.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn expire_node(&self, node: &str, beat: i64) -> Result<(), StoreError> {
        db::on_writer!(&self.db, pool => sqlx::query("DELETE FROM nodes WHERE node = $1 AND beat = $2").bind(node.to_owned()).bind(beat).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Deletes a node that shuts down; its unfinished calls are then orphaned.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn deregister(&self, node: &str) -> Result<(), StoreError> {
        db::on_writer!(&self.db, pool => sqlx::query("DELETE FROM nodes WHERE node = $1").bind(node.to_owned()).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Deletes all other nodes, except nodes that run calls from a command line.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn strike_off_servers(&self, node: &str) -> Result<(), StoreError> {
        db::on_writer!(&self.db, pool => sqlx::query("DELETE FROM nodes WHERE node <> $1 AND node NOT LIKE 'cli-%'").bind(node.to_owned()).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Adopts up to `most` orphaned calls, running calls before waiting ones and older calls before newer ones. Each call
    /// is adopted by only one node. Returns the calls by priority, then by age.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn adopt(&self, node: &str, most: usize) -> Result<Vec<Call>, StoreError> {
        let most = i64::try_from(most).unwrap_or(PAGE).min(PAGE);
        let lock = if matches!(self.db, Db::Postgres(_)) { " FOR UPDATE SKIP LOCKED" } else { "" };
        let rows: Vec<CallRow> = db::on_writer!(&self.db, pool =>
            adoption(node, most, lock).build_query_as().fetch_all(pool).await?);
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
        let row: Option<(String,)> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).bind(call).fetch_optional(pool).await)?;
        Ok(row.map(|(tenant,)| Tenant::stored(&tenant)))
    }

    /// Returns these calls of any tenant, in no particular order, to resume them or deliver their ends.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn calls_of_any_tenant(&self, ids: &[Uuid]) -> Result<Vec<Call>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<CallRow> = db::on_reader!(&self.db, pool => by_ids(ids).build_query_as().fetch_all(pool).await?);
        rows.into_iter().map(CallRow::decode).collect()
    }

    /// Returns those of these calls that do not belong to this node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn not_of(&self, node: &str, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(Uuid,)> =
            db::on_reader!(&self.db, pool => not_of(node, ids).build_query_as().fetch_all(pool).await?);
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Returns the unfinished calls of this node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn under_way(&self, node: &str) -> Result<Vec<Uuid>, StoreError> {
        const SQL: &str = "SELECT id FROM tool_calls WHERE status < 2 AND node = $1";
        let ids: Vec<(Uuid,)> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(node.to_owned()).fetch_all(pool).await)?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }
}

fn adoption<D: sqlx::Database>(node: &str, most: i64, locked: &str) -> QueryBuilder<D>
where
    String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i64: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    const ORPHANED: &str = "status < 2 AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.node = tool_calls.node)";
    let mut query = QueryBuilder::<D>::new("UPDATE tool_calls SET node = ");
    query.push_bind(node.to_owned());
    query.push(" WHERE id IN (SELECT id FROM tool_calls WHERE ").push(ORPHANED);
    query.push(" ORDER BY status DESC, id LIMIT ").push_bind(most).push(locked).push(") AND ").push(ORPHANED);
    query.push(" RETURNING ").push(codec::COLUMNS);
    query
}

fn not_of<D: sqlx::Database>(node: &str, ids: &[Uuid]) -> QueryBuilder<D>
where
    String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new("SELECT id FROM tool_calls WHERE node <> ");
    query.push_bind(node.to_owned()).push(" AND id IN (");
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(*id);
    }
    query.push(")");
    query
}
