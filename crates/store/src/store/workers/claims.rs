//! Claims of workers, and what workers report of their calls.

use std::cmp::Reverse;
use std::sync::Arc;

use uuid::Uuid;

use super::{Claim, NotHeld, number};
use crate::store::inbox::Message;
use crate::store::nodes::{NOW_ON_SQLITE, now_of};
use crate::store::query::Query;
use crate::store::{Db, StoreError, Stores, codec};
use toolpost_core::domain::{Code, Status, Tenant};

/// A claimed call: its id, attempt, lease and priority, and whether it belongs to the claiming node.
type ClaimRow = (Uuid, i32, i64, i32, bool);

const CLAIM_CALLS: &str = "SELECT claimed_call, claimed_attempt, claimed_lease, claimed_priority, is_own \
    FROM claim_calls($1, $2, $3, $4, $5)";
const BEST: &str = "WITH best AS (SELECT call_id, priority FROM worker_calls WHERE state = 0 AND tenant = ";

/// Returns the statement that claims calls on SQLite.
fn claim_on_sqlite<'t>(
    best: Query<'t>,
    (tenant, queue): (&Tenant, &str),
    tools: Option<&[String]>,
    workers: &[Arc<str>],
    node: &str,
) -> Query<'t> {
    let query = best.push_bind(tenant).push(" AND queue = ").push_bind(queue);
    let query = match tools {
        Some(tools) => query.push(" AND tool IN ").push_list(tools),
        None => query,
    };
    let query = query.push(" ORDER BY priority DESC, call_id LIMIT ");
    let query = query.push_bind(i64::try_from(workers.len()).unwrap_or(i64::MAX));
    let mut query = query.push(
        "), ranked AS (SELECT call_id, ROW_NUMBER() OVER (ORDER BY priority DESC, call_id) AS place FROM best), \
         places (place, worker) AS (VALUES ",
    );
    for (rank, worker) in (1_i64..).zip(workers) {
        query = query.push(if rank == 1 { "(" } else { ", (" }).push_bind(rank);
        query = query.push(", ").push_bind(&**worker).push(")");
    }
    let query = query.push(&format!(
        ") UPDATE worker_calls SET state = 1, worker = p.worker, claimed_at = {NOW_ON_SQLITE}, \
         lease_until = {NOW_ON_SQLITE} + worker_calls.lease_ms FROM ranked AS r JOIN places AS p ON p.place = r.place \
         WHERE worker_calls.call_id = r.call_id \
         RETURNING worker_calls.call_id, attempt, worker_calls.lease_ms, worker_calls.priority, node = "
    ));
    query.push_bind(node).uncached()
}

impl Stores {
    /// Returns the tools whose calls wait in a queue.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn waiting_tools(&self, tenant: &Tenant, queue: &str) -> Result<Vec<String>, StoreError> {
        const SQL: &str = "SELECT DISTINCT tool FROM worker_calls WHERE tenant = $1 AND queue = $2 AND state = 0";
        self.db.read(SQL).bind(tenant).bind(queue).column().await
    }

    /// Gives the best waiting calls of a queue to workers, in one statement: the call of rank `n` goes to `workers[n]`. A
    /// call that another node is giving away is skipped. `tools` restricts the calls to those of some tools. `node` is the
    /// node that makes the claims.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claim(
        &self,
        (tenant, queue): (&Tenant, &str),
        tools: Option<&[String]>,
        workers: &[Arc<str>],
        node: &str,
    ) -> Result<Vec<Claim>, StoreError> {
        let mut rows: Vec<ClaimRow> = match self.db {
            Db::Postgres(_) => {
                let query = self
                    .db
                    .write(CLAIM_CALLS)
                    .bind(tenant)
                    .bind(queue)
                    .bind_array(tools.unwrap_or_default().iter().map(String::as_str));
                query.bind_array(workers.iter().map(|worker| &**worker)).bind(node).all().await?
            }
            Db::Sqlite(_) => claim_on_sqlite(self.db.write(BEST), (tenant, queue), tools, workers, node).all().await?,
        };
        rows.sort_by_key(|(call, _, _, priority, _)| (Reverse(*priority), *call));
        let claim = |((call, attempt, lease_ms, _, is_own), worker): (ClaimRow, &Arc<str>)| Claim {
            call,
            attempt: attempt.unsigned_abs(),
            lease_ms: lease_ms.unsigned_abs(),
            worker: worker.clone(),
            is_own,
        };
        Ok(rows.into_iter().zip(workers).map(claim).collect())
    }

    /// Gives back a call that its worker has not received, unless the call has ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. The server may still run the statement later.
    pub async fn unclaim(&self, claim: &Claim) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE worker_calls SET state = 0, worker = NULL \
            WHERE call_id = $2 AND attempt = $3 AND worker = $4 AND state = 1 AND EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND c.status + 0 < 2)";
        let query = self.db.write(SQL).bind_call(claim.call).bind(number(claim.attempt)).bind(&*claim.worker);
        query.execute().await.map(drop)
    }

    /// Renews the leases of a worker's calls. Returns those of these calls that it no longer has.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn renew_leases(
        &self,
        (tenant, queue): (&Tenant, &str),
        worker: &str,
        calls: &[Uuid],
    ) -> Result<NotHeld, StoreError> {
        if calls.is_empty() {
            return Ok(NotHeld::default());
        }
        let now = now_of(&self.db);
        let renew = format!(
            "UPDATE worker_calls SET lease_until = CASE WHEN state = 1 THEN {now} + lease_ms ELSE lease_until END \
             WHERE call_id IN (SELECT call_id FROM worker_calls WHERE state > 0 AND tenant = "
        );
        let query = self.db.write(renew).push_bind(tenant).push(" AND queue = ").push_bind(queue);
        let query = query.push(" AND worker = ").push_bind(worker).push(" AND call_id IN ").push_list(calls);
        // Locked in the order in which offers are deleted, so that neither waits for the other forever.
        let is_postgres = matches!(self.db, Db::Postgres(_));
        let query = query.push(if is_postgres { " ORDER BY call_id FOR UPDATE)" } else { ")" });
        let held: Vec<Uuid> = query.push(" RETURNING call_id").uncached().column().await?;
        let gone: Vec<Uuid> = calls.iter().copied().filter(|call| !held.contains(call)).collect();
        if gone.is_empty() {
            return Ok(NotHeld::default());
        }
        let query =
            self.db.read("SELECT id FROM tool_calls WHERE status = ").push_bind(codec::status_number(Status::Error));
        let query = query
            .push(" AND code = ")
            .push_bind(codec::code_number(Code::Cancelled))
            .push(" AND tenant = ")
            .push_bind(tenant);
        let ended: Vec<Uuid> = query.push(" AND ").push_calls(["shard", "id"], &gone).uncached().column().await?;
        let (cancelled, lost) = gone.into_iter().partition(|call| ended.contains(call));
        Ok(NotHeld { cancelled, lost })
    }

    /// Returns `true` if a worker has this attempt of a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn is_claimed(&self, call: Uuid, attempt: u32) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT call_id FROM worker_calls WHERE call_id = $1 AND attempt = $2 AND state = 1";
        let found: Option<(Uuid,)> = self.db.read(SQL).bind(call).bind(number(attempt)).optional().await?;
        Ok(found.is_some())
    }

    /// Stores the result of an attempt for the node that owns the call. Returns `false` if the attempt is not the current
    /// one, or the call already has a result or has ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn answer_offer(&self, attempt: u32, id: Uuid, result: &Message) -> Result<bool, StoreError> {
        const TAKE: &str = "UPDATE worker_calls SET state = 2 WHERE call_id = $1 AND attempt = $2 AND state = 1 \
            RETURNING call_id";
        const NOTE: &str = "INSERT INTO inbox (shard, id, call_id, kind, body) SELECT c.shard, $3, c.id, $4, $5 \
            FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND c.status + 0 < 2 \
            ON CONFLICT DO NOTHING RETURNING id";
        let Message { call, kind, body } = result;
        let stored = self.db.transaction(async |transaction| {
            let take = transaction.query(TAKE).bind(call).bind(number(attempt));
            if take.optional::<(Uuid,)>().await?.is_none() {
                return Ok(None);
            }
            let note = transaction.query(NOTE).bind_call(*call).bind(id).bind(kind).bind(body);
            note.optional::<(Uuid,)>().await
        });
        Ok(stored.await?.is_some())
    }
}
