//! Workers and the tools that they offer.

use std::sync::Arc;

use crate::store::nodes::now_of;
use crate::store::query::Query;
use crate::store::{StoreError, Stores};
use toolpost_core::domain::{Tenant, Time};

/// Maximum number of rows that one statement writes.
const PAGE: usize = 256;

/// A worker that has asked this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenWorker {
    /// The tenant.
    pub tenant: Tenant,
    /// The queue.
    pub queue: Arc<str>,
    /// The worker.
    pub worker: Arc<str>,
    /// The `User-Agent` of its request.
    pub sdk: Option<Arc<str>>,
}

/// A worker as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    /// The queue.
    pub queue: String,
    /// The worker.
    pub worker: String,
    /// The `User-Agent` of its last request.
    pub sdk: Option<String>,
    /// The time of its last request.
    pub last_seen_at: Time,
}

/// A tool that a worker offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedTool {
    /// The tenant.
    pub tenant: Tenant,
    /// The queue.
    pub queue: String,
    /// The tool.
    pub tool: String,
}

impl Stores {
    /// Records that these workers were seen now.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn note_workers(&self, seen: &[SeenWorker]) -> Result<(), StoreError> {
        let now = now_of(&self.db);
        for page in seen.chunks(PAGE) {
            let mut query =
                self.db.write("INSERT INTO workers AS w (tenant, queue, worker, sdk, last_seen_at) VALUES ");
            for (index, SeenWorker { tenant, queue, worker, sdk }) in page.iter().enumerate() {
                query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(tenant).push(", ");
                query = query.push_bind(&**queue).push(", ").push_bind(&**worker).push(", ");
                query = query.push_bind(sdk.as_deref()).push(&format!(", {now})"));
            }
            let query = query.push(
                " ON CONFLICT (tenant, queue, worker) DO UPDATE SET last_seen_at = excluded.last_seen_at, \
                 sdk = COALESCE(excluded.sdk, w.sdk)",
            );
            query.uncached().execute().await?;
        }
        Ok(())
    }

    /// Returns the workers of a tenant, by queue and name.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn workers(&self, tenant: &Tenant) -> Result<Vec<WorkerRow>, StoreError> {
        const SQL: &str =
            "SELECT queue, worker, sdk, last_seen_at FROM workers WHERE tenant = $1 ORDER BY queue, worker";
        let rows: Vec<(String, String, Option<String>, i64)> = self.db.read(SQL).bind(tenant).all().await?;
        let row = |(queue, worker, sdk, seen): (String, String, Option<String>, i64)| WorkerRow {
            queue,
            worker,
            sdk,
            last_seen_at: Time(seen.saturating_mul(1000)),
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Returns the tools of each worker of a tenant: queue, worker and tool, in this order.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn worker_tools(&self, tenant: &Tenant) -> Result<Vec<(String, String, String)>, StoreError> {
        const SQL: &str = "SELECT queue, worker, tool FROM worker_tools WHERE tenant = $1 ORDER BY queue, worker, tool";
        self.db.read(SQL).bind(tenant).all().await
    }

    /// Replaces the tools that a worker offers.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn set_worker_tools(&self, seen: &SeenWorker, tools: &[String]) -> Result<(), StoreError> {
        const CLEAR: &str = "DELETE FROM worker_tools WHERE tenant = $1 AND queue = $2 AND worker = $3";
        const ADD: &str = "INSERT INTO worker_tools (tenant, queue, worker, tool) VALUES ";
        let done = self.db.transaction(async |transaction| {
            bind_worker(transaction.query(CLEAR), seen).execute().await?;
            for page in tools.chunks(PAGE) {
                let mut query = transaction.query(ADD);
                for (index, tool) in page.iter().enumerate() {
                    query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(&seen.tenant).push(", ");
                    query = query.push_bind(&*seen.queue).push(", ").push_bind(&*seen.worker);
                    query = query.push(", ").push_bind(tool).push(")");
                }
                query.push(" ON CONFLICT DO NOTHING").uncached().execute().await?;
            }
            Ok(Some(()))
        });
        done.await?;
        self.note_workers(std::slice::from_ref(seen)).await
    }

    /// Returns the tools whose workers were all last seen more than `after_ms` ago.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn abandoned_tools(&self, after_ms: u64) -> Result<Vec<OfferedTool>, StoreError> {
        let sql = format!(
            "SELECT t.tenant, t.queue, t.tool FROM worker_tools AS t LEFT JOIN workers AS w \
             ON w.tenant = t.tenant AND w.queue = t.queue AND w.worker = t.worker GROUP BY t.tenant, t.queue, t.tool \
             HAVING COALESCE(MAX(w.last_seen_at), 0) < {} - $1",
            now_of(&self.db)
        );
        let query = self.db.read(sql).bind(i64::try_from(after_ms).unwrap_or(i64::MAX));
        let rows: Vec<(Tenant, String, String)> = query.all().await?;
        Ok(rows.into_iter().map(|(tenant, queue, tool)| OfferedTool { tenant, queue, tool }).collect())
    }

    /// Forgets who offered a tool of a queue.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_worker_tool(&self, gone: &OfferedTool) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM worker_tools WHERE tenant = $1 AND queue = $2 AND tool = $3";
        self.db.write(SQL).bind(&gone.tenant).bind(&gone.queue).bind(&gone.tool).execute().await.map(drop)
    }

    /// Deletes workers that were last seen more than `after_ms` ago, have no call and offer no tool.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_gone_workers(&self, after_ms: u64) -> Result<(), StoreError> {
        let sql = format!(
            "DELETE FROM workers WHERE last_seen_at < {} - $1 AND NOT EXISTS (SELECT 1 FROM worker_tools AS t \
             WHERE t.tenant = workers.tenant AND t.queue = workers.queue AND t.worker = workers.worker) \
             AND NOT EXISTS (SELECT 1 FROM worker_calls AS c WHERE c.tenant = workers.tenant \
             AND c.queue = workers.queue AND c.worker = workers.worker)",
            now_of(&self.db)
        );
        self.db.write(sql).bind(i64::try_from(after_ms).unwrap_or(i64::MAX)).execute().await.map(drop)
    }
}

fn bind_worker<'q>(query: Query<'q>, seen: &SeenWorker) -> Query<'q> {
    query.bind(&seen.tenant).bind(&*seen.queue).bind(&*seen.worker)
}
