//! The load of queues, for lists and metrics.

use std::collections::HashMap;

use crate::store::nodes::now_of;
use crate::store::{StoreError, Stores};
use toolpost_core::domain::Tenant;

/// The load of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLoad {
    /// The tenant.
    pub tenant: Tenant,
    /// The queue.
    pub queue: String,
    /// Number of calls that no worker has.
    pub waiting: i64,
    /// Number of calls that workers have.
    pub running: i64,
    /// The age of the oldest waiting call, in milliseconds.
    pub oldest_ms: Option<i64>,
}

impl Stores {
    /// Returns the load of all queues that have calls, of one tenant or of all.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn queue_loads(&self, tenant: Option<&Tenant>) -> Result<Vec<QueueLoad>, StoreError> {
        let now = now_of(&self.db);
        let sql = format!(
            "SELECT tenant, queue, CAST(SUM(CASE WHEN state = 0 THEN 1 ELSE 0 END) AS BIGINT), \
             CAST(SUM(CASE WHEN state = 1 THEN 1 ELSE 0 END) AS BIGINT), \
             MAX(CASE WHEN state = 0 THEN {now} - offered_at END) FROM worker_calls WHERE TRUE"
        );
        let query = self.db.read(sql).push_some(" AND tenant = ", tenant);
        let rows: Vec<(Tenant, String, i64, i64, Option<i64>)> =
            query.push(" GROUP BY tenant, queue ORDER BY tenant, queue").all().await?;
        let load = |(tenant, queue, waiting, running, oldest): (Tenant, String, i64, i64, Option<i64>)| QueueLoad {
            tenant,
            queue,
            waiting,
            running,
            oldest_ms: oldest.map(|ms| ms.max(0)),
        };
        Ok(rows.into_iter().map(load).collect())
    }

    /// Returns the number of calls that each worker of a tenant has, by queue and worker.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claimed_calls(&self, tenant: &Tenant) -> Result<Vec<(String, String, i64)>, StoreError> {
        const SQL: &str = "SELECT queue, worker, COUNT(*) FROM worker_calls WHERE tenant = $1 AND state = 1 \
            AND worker IS NOT NULL GROUP BY queue, worker";
        self.db.read(SQL).bind(tenant).all().await
    }

    /// Returns the number of workers of each tenant and queue that were seen within this time.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn worker_counts(&self, within_ms: u64) -> Result<HashMap<(String, String), i64>, StoreError> {
        let now = now_of(&self.db);
        let sql = format!(
            "SELECT tenant, queue, COUNT(*) FROM workers WHERE last_seen_at > {now} - $1 GROUP BY tenant, queue"
        );
        let query = self.db.read(sql).bind(i64::try_from(within_ms).unwrap_or(i64::MAX));
        let rows: Vec<(String, String, i64)> = query.all().await?;
        Ok(rows.into_iter().map(|(tenant, queue, count)| ((tenant, queue), count)).collect())
    }
}
