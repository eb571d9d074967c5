//! Heartbeats of nodes, and the adoption of calls of lost nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::codec::{self, CallRow};
use super::{Db, StoreError, Stores};
use toolpost_core::domain::{Call, Shard, Status, Tenant, Time};

/// Maximum number of calls adopted at a time.
const PAGE: i64 = 256;
/// The condition for unfinished calls. SQLite uses the partial index only if its condition, `status <> 2`, is repeated.
/// Otherwise it reads all calls, and with each heartbeat the journal would wait for that.
pub(super) const UNFINISHED: &str = "status <> 2 AND status < 2";

/// The stored state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// The name of the node.
    pub node: String,
    /// The number of its last heartbeat.
    pub beat: i64,
    /// Whether its lease has expired, by the clock of the database.
    pub is_over: bool,
}

/// A node with its unfinished calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLoad {
    /// The name of the node.
    pub node: String,
    /// The time of its last heartbeat, by the clock of the database.
    pub last_beat_at: Option<Time>,
    /// Whether its lease has expired.
    pub is_over: bool,
    /// Number of calls that it runs.
    pub running: i64,
    /// Number of calls that it has accepted and that do not run yet.
    pub waiting: i64,
}

/// The time in milliseconds, by the clock of SQLite.
pub(super) const NOW_ON_SQLITE: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";

/// Returns the SQL expression for the time of the database, in milliseconds since 1970.
pub(super) fn now_of(db: &Db) -> &'static str {
    match db {
        Db::Sqlite(_) => NOW_ON_SQLITE,
        Db::Postgres(_) => "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT",
    }
}

/// Returns the condition for unfinished calls of other nodes that are gone. The name of this node follows it.
///
/// The calls of this node are excluded, because its own row may be gone, too: other nodes have declared it lost, and its next
/// heartbeat is still to come. Its calls run here, and would run twice if it adopted them.
fn orphaned() -> String {
    format!("{UNFINISHED} AND node NOT IN (SELECT node FROM nodes) AND node <> ")
}

/// Returns the statement that finds up to $2 calls that the node $1 may adopt.
fn find_orphaned() -> String {
    format!("SELECT id FROM tool_calls WHERE {}$1 ORDER BY status DESC, id LIMIT $2", orphaned())
}

/// Returns the statement that reads the unfinished calls of the node $1.
fn under_way() -> String {
    format!("SELECT id FROM tool_calls WHERE {UNFINISHED} AND node = $1")
}

impl Stores {
    /// Records a heartbeat of the node. It is valid for `lease` from the time stamped by the database. Returns `true` if the
    /// node had no row: it is new, or was declared lost.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn beat(&self, node: &str, lease: Duration) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO nodes AS n (node, beat, lease_ms) VALUES ($1, 1, $2) \
            ON CONFLICT (node) DO UPDATE SET beat = n.beat + 1, lease_ms = excluded.lease_ms RETURNING beat";
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        let beat: Option<(i64,)> = self.db.write(SQL).bind(node).bind(lease_ms).optional().await?;
        Ok(beat == Some((1,)))
    }

    /// Returns all nodes. `lease` applies to nodes of an earlier version, which do not store theirs.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn nodes(&self, lease: Duration) -> Result<Vec<NodeState>, StoreError> {
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
        Ok(rows.into_iter().map(|(node, beat, is_over, _)| NodeState { node, beat, is_over }).collect())
    }

    /// Returns the other nodes whose lease has not expired, except nodes that run calls from a command line.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub(super) async fn other_nodes(&self, node: &str) -> Result<Vec<String>, StoreError> {
        let now = now_of(&self.db);
        let live = format!(
            "SELECT node FROM nodes WHERE node <> $1 AND node NOT LIKE 'cli-%' \
             AND COALESCE({now} - beat_at < lease_ms, TRUE)"
        );
        self.db.read(live).bind(node).column().await
    }

    /// Returns all nodes with their unfinished calls, by name.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn node_loads(&self, lease: Duration) -> Result<Vec<NodeLoad>, StoreError> {
        let now = now_of(&self.db);
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        let nodes = format!(
            "SELECT node, beat_at, COALESCE({now} - beat_at >= COALESCE(lease_ms, $1), FALSE) FROM nodes ORDER BY node"
        );
        let counts = format!(
            "SELECT node, CAST(status AS INTEGER), CAST(COUNT(*) AS BIGINT) FROM tool_calls WHERE {UNFINISHED} \
             GROUP BY node, status"
        );
        let nodes: Vec<(String, Option<i64>, bool)> = self.db.read(nodes).bind(lease_ms).all().await?;
        let counts: Vec<(String, i32, i64)> = self.db.read(counts).all().await?;
        let load = |(node, beat_at, is_over): (String, Option<i64>, bool)| {
            let own = counts.iter().filter(|(of, ..)| *of == node);
            let running = i32::from(codec::status_number(Status::Doing));
            let sum = |is_running| {
                own.clone().filter(|(_, status, _)| (*status == running) == is_running).map(|one| one.2).sum()
            };
            NodeLoad {
                last_beat_at: beat_at.map(|ms| Time(ms * 1000)),
                is_over,
                running: sum(true),
                waiting: sum(false),
                node,
            }
        };
        Ok(nodes.into_iter().map(load).collect())
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

    /// Adopts up to `max` orphaned calls of other nodes, running calls before waiting ones and older calls before newer ones.
    /// Each call is adopted by only one node. Returns the calls by priority, then by age, and an error if the database failed.
    /// After an error this node may have adopted further calls, because only the answer may be lost.
    pub async fn adopt(&self, node: &str, max: usize) -> (Vec<Call>, Result<(), StoreError>) {
        let mut rows: Vec<CallRow> = Vec::new();
        let done = self.adopt_rows(node, max, &mut rows).await;
        let mut calls = Vec::with_capacity(rows.len());
        for row in rows {
            // These calls already belong to this node, so a corrupt row must not stop the others.
            match row.decode() {
                Ok(call) => calls.push(call),
                Err(error) => tracing::error!(%error, "cannot decode an orphaned call"),
            }
        }
        calls.sort_by_key(|call| (std::cmp::Reverse(call.priority), call.id));
        (calls, done)
    }

    async fn adopt_rows(&self, node: &str, max: usize, rows: &mut Vec<CallRow>) -> Result<(), StoreError> {
        let max = i64::try_from(max).unwrap_or(PAGE).min(PAGE);
        let mut of_shards: BTreeMap<Shard, Vec<Uuid>> = BTreeMap::new();
        for id in self.db.write(find_orphaned()).bind(node).bind(max).column().await? {
            of_shards.entry(Shard::of_call(id)).or_default().push(id);
        }
        for mut ids in of_shards.into_values() {
            // In the same order on each node, so that nodes never wait for each other in a circle.
            ids.sort_unstable();
            let query = self.db.write("UPDATE tool_calls SET node = ").push_bind(node).push(" WHERE ");
            let query = query.push_calls(["shard", "id"], &ids).push(" AND ").push(&orphaned()).push_bind(node);
            rows.extend(query.push(" RETURNING ").push(codec::COLUMNS).uncached().all::<CallRow>().await?);
        }
        Ok(())
    }

    /// Returns the tenant of a call, or `None` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn owner_of(&self, call: Uuid) -> Result<Option<Tenant>, StoreError> {
        const SQL: &str = "SELECT tenant FROM tool_calls WHERE shard = $1 AND id = $2";
        Ok(self.db.read(SQL).bind_call(call).optional().await?.map(|(tenant,)| tenant))
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
        query.push(" AND ").push_calls(["shard", "id"], ids).column().await
    }

    /// Returns the unfinished calls of this node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn under_way(&self, node: &str) -> Result<Vec<Uuid>, StoreError> {
        self.db.read(under_way()).bind(node).column().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn heartbeat_reads_unfinished_calls_only() {
        let stores = Stores::open("sqlite::memory:").await.unwrap();
        for sql in [find_orphaned(), under_way()] {
            let plan: Vec<(i64, i64, i64, String)> =
                stores.db.read(format!("EXPLAIN QUERY PLAN {sql}")).bind(1_i64).all().await.unwrap();
            let steps: Vec<&str> = plan.iter().map(|(.., step)| &**step).collect();
            assert!(steps.iter().any(|step| step.contains("INDEX tool_calls_not_well (status<?)")), "{steps:?}");
            assert!(!steps.iter().any(|step| step.starts_with("SCAN")), "{steps:?}");
        }
    }
}
