//! Calls that worker programs fetch. The row of such a call says which attempt is offered and which worker has it; every
//! change compares both, so that exactly one worker has a call and a late one cannot settle it.
//!
//! All times are by the clock of the database, because the workers of one queue ask several nodes.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::inbox::Message;
use super::nodes::now_of;
use super::{Db, StoreError, Stores, codec};
use crate::domain::{Code, Status, Tenant};

mod listing;
mod presence;
mod takeover;

pub use listing::QueueLoad;
pub use presence::{OfferedTool, SeenWorker, WorkerRow};

/// The state of a row: no worker has the call.
const WAITING: i16 = 0;
/// The state of a row: a worker has the call. A further one, 2, says that the result is stored.
const CLAIMED: i16 = 1;

/// An attempt of a call that workers may fetch.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The call.
    pub call: Uuid,
    /// The tenant of the call.
    pub tenant: Tenant,
    /// The queue.
    pub queue: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// The priority of the call.
    pub priority: i32,
    /// The number of the attempt.
    pub attempt: u32,
    /// How long a worker has the call without a heartbeat, in milliseconds.
    pub lease_ms: u64,
}

/// The holder of an offered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferState {
    /// No worker.
    Waiting,
    /// A worker, for this time without a heartbeat. The time is zero once the lease has expired.
    Claimed {
        /// The rest of the lease.
        left: Duration,
        /// The time since the claim.
        since: Duration,
    },
    /// No worker: its result is stored.
    Answered,
}

/// The stored state of an offered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffer {
    /// The number of the attempt.
    pub attempt: u32,
    /// Who has the call.
    pub state: OfferState,
    /// The time since it is offered.
    pub age: Duration,
}

/// The fate of a call whose lease has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLease {
    /// It is offered again as the next attempt.
    OfferAgain,
    /// It ends.
    End,
}

/// A call that a worker has just claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The call.
    pub call: Uuid,
    /// The number of the attempt.
    pub attempt: u32,
    /// How long the worker has the call without a heartbeat, in milliseconds.
    pub lease_ms: u64,
    /// The worker.
    pub worker: Arc<str>,
}

/// The calls of a heartbeat that the worker no longer has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotHeld {
    /// Calls that were cancelled.
    pub cancelled: Vec<Uuid>,
    /// Calls that ended otherwise, or that another worker may get.
    pub lost: Vec<Uuid>,
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn number(attempt: u32) -> i32 {
    i32::try_from(attempt).unwrap_or(i32::MAX)
}

impl Stores {
    /// Offers an attempt of a call, unless it or a later one is offered. Returns the stored offer; `None` if the call has
    /// ended or another node owns it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn offer(&self, offer: &Offer, node: &str) -> Result<Option<StoredOffer>, StoreError> {
        // An owner that was frozen must not offer a call that another node has settled since.
        let sql = format!(
            "INSERT INTO worker_calls AS w (call_id, tenant, queue, tool, priority, attempt, state, node, offered_at, lease_ms) \
             SELECT c.id, c.tenant, $3, $4, $5, $6, 0, $7, {now}, $8 FROM tool_calls AS c \
             WHERE c.shard = $1 AND c.id = $2 AND c.status + 0 < 2 AND c.node = $7 \
             ON CONFLICT (call_id) DO UPDATE SET node = excluded.node, \
             state = CASE WHEN w.attempt < excluded.attempt THEN 0 ELSE w.state END, \
             offered_at = CASE WHEN w.attempt < excluded.attempt THEN excluded.offered_at ELSE w.offered_at END, \
             worker = CASE WHEN w.attempt < excluded.attempt THEN NULL ELSE w.worker END, \
             attempt = CASE WHEN w.attempt < excluded.attempt THEN excluded.attempt ELSE w.attempt END \
             RETURNING call_id",
            now = now_of(&self.db)
        );
        let Offer { call, queue, tool, priority, attempt, lease_ms, .. } = offer;
        let query = self.db.write(sql).bind_call(*call).bind(&**queue).bind(codec::indexed_name(tool)).bind(*priority);
        let query = query.bind(number(*attempt)).bind(node).bind(i64::try_from(*lease_ms).unwrap_or(i64::MAX));
        if query.optional::<(Uuid,)>().await?.is_none() {
            return Ok(None);
        }
        self.offer_of(*call).await
    }

    /// Returns the stored offer of a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn offer_of(&self, call: Uuid) -> Result<Option<StoredOffer>, StoreError> {
        let now = now_of(&self.db);
        let sql = format!(
            "SELECT attempt, state, COALESCE(lease_until - {now}, 0), COALESCE({now} - claimed_at, 0), {now} - offered_at \
             FROM worker_calls WHERE call_id = $1"
        );
        // Uses the writer, because a replica or an older snapshot could miss the claim.
        let row: Option<(i32, i16, i64, i64, i64)> = self.db.write(sql).bind(call).optional().await?;
        Ok(row.map(|(attempt, state, left, since, age)| StoredOffer {
            attempt: attempt.unsigned_abs(),
            state: match state {
                WAITING => OfferState::Waiting,
                CLAIMED => OfferState::Claimed { left: millis(left), since: millis(since) },
                _ => OfferState::Answered,
            },
            age: millis(age),
        }))
    }

    /// Takes back an attempt that no worker has. Returns `false` if one has claimed or answered it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn withdraw_waiting(&self, call: Uuid, attempt: u32) -> Result<bool, StoreError> {
        const SQL: &str =
            "DELETE FROM worker_calls WHERE call_id = $1 AND attempt = $2 AND state = 0 RETURNING call_id";
        let deleted: Option<(Uuid,)> = self.db.write(SQL).bind(call).bind(number(attempt)).optional().await?;
        Ok(deleted.is_some())
    }

    /// Takes back an attempt, also from the worker that has it. Returns `false` if it is answered.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn withdraw_unanswered(&self, call: Uuid, node: &str) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM worker_calls WHERE call_id = $1 AND state <> 2 AND node = $2";
        const ANSWERED: &str = "SELECT call_id FROM worker_calls WHERE call_id = $1 AND state = 2";
        self.db.write(SQL).bind(call).bind(node).execute().await?;
        let answered: Option<(Uuid,)> = self.db.write(ANSWERED).bind(call).optional().await?;
        Ok(answered.is_none())
    }

    /// Takes back an offer of this node that no worker has. Returns `false` if one has claimed or answered it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn withdraw_unclaimed(&self, call: Uuid, node: &str) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM worker_calls WHERE call_id = $1 AND state = 0 AND node = $2";
        self.db.write(SQL).bind(call).bind(node).execute().await?;
        Ok(self.offer_of(call).await?.is_none_or(|row| row.state == OfferState::Waiting))
    }

    /// Deletes the offer of a call of this node that ends.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_offer(&self, call: Uuid, node: &str) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM worker_calls WHERE call_id = $1 AND node = $2";
        self.db.write(SQL).bind(call).bind(node).execute().await.map(drop)
    }

    /// Deletes the offers of ended calls, whose node stopped between both.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_ended_offers(&self) -> Result<(), StoreError> {
        const LOOK: &str = "SELECT call_id FROM worker_calls WHERE call_id > $1 ORDER BY call_id LIMIT 256";
        let mut after = Uuid::nil();
        loop {
            let page: Vec<Uuid> = self.db.read(LOOK).bind(after).column().await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = *last;
            let query =
                self.db.read("SELECT id FROM tool_calls WHERE status > 1 AND ").push_calls(["shard", "id"], &page);
            let ended: Vec<Uuid> = query.uncached().column().await?;
            if !ended.is_empty() {
                let query = self.db.write("DELETE FROM worker_calls WHERE call_id IN ").push_list(&ended);
                query.uncached().execute().await?;
            }
        }
    }

    /// Takes a call from its worker if the lease of this attempt has expired. Returns `false` otherwise.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn expire_lease(&self, call: Uuid, attempt: u32, then: AfterLease) -> Result<bool, StoreError> {
        let now = now_of(&self.db);
        let expired =
            format!("WHERE call_id = $1 AND attempt = $2 AND state = 1 AND lease_until <= {now} RETURNING call_id");
        let sql = match then {
            AfterLease::End => format!("DELETE FROM worker_calls {expired}"),
            AfterLease::OfferAgain => format!(
                "UPDATE worker_calls SET state = 0, attempt = attempt + 1, worker = NULL, offered_at = {now} {expired}"
            ),
        };
        let done: Option<(Uuid,)> = self.db.write(sql).bind(call).bind(number(attempt)).optional().await?;
        Ok(done.is_some())
    }

    /// Returns the calls of this node that a worker has claimed or answered.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claimed_of(&self, node: &str) -> Result<Vec<Uuid>, StoreError> {
        self.db.read("SELECT call_id FROM worker_calls WHERE node = $1 AND state > 0").bind(node).column().await
    }

    /// Returns the tools whose calls wait in a queue.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn waiting_tools(&self, tenant: &Tenant, queue: &str) -> Result<Vec<String>, StoreError> {
        const SQL: &str = "SELECT DISTINCT tool FROM worker_calls WHERE tenant = $1 AND queue = $2 AND state = 0";
        self.db.read(SQL).bind(tenant).bind(queue).column().await
    }

    /// Gives the best waiting calls of a queue to workers, in one commit: the call at place `n` goes to `places[n]`. A call
    /// that another node is giving away is skipped. `tools` restricts the calls to those of some tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claim(
        &self,
        (tenant, queue): (&Tenant, &str),
        tools: Option<&[String]>,
        places: &[Arc<str>],
    ) -> Result<Vec<Claim>, StoreError> {
        let now = now_of(&self.db);
        let claimed = self.db.transaction(async |transaction| {
            let look = "SELECT call_id, attempt, lease_ms FROM worker_calls WHERE state = 0 AND tenant = ";
            let query = transaction.query(look).push_bind(tenant).push(" AND queue = ").push_bind(queue);
            let query = match tools {
                Some(tools) => query.push(" AND tool IN ").push_list(tools),
                None => query,
            };
            let query = query.push(" ORDER BY priority DESC, call_id LIMIT ");
            let query = query.push_bind(i64::try_from(places.len()).unwrap_or(i64::MAX));
            let query = if matches!(self.db, Db::Postgres(_)) { query.push(" FOR UPDATE SKIP LOCKED") } else { query };
            let rows: Vec<(Uuid, i32, i64)> = query.all().await?;
            if rows.is_empty() {
                return Ok(None);
            }
            let claims: Vec<Claim> = rows.into_iter().zip(places).map(claim_of).collect();
            let mut query = transaction.query("WITH m (call_id, worker) AS (VALUES ");
            for (index, claim) in claims.iter().enumerate() {
                query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(claim.call);
                query = query.push(", ").push_bind(&*claim.worker).push(")");
            }
            let query = query.push(&format!(
                ") UPDATE worker_calls SET state = 1, worker = m.worker, claimed_at = {now}, \
                 lease_until = {now} + worker_calls.lease_ms FROM m WHERE worker_calls.call_id = m.call_id"
            ));
            query.uncached().execute().await?;
            Ok(Some(claims))
        });
        Ok(claimed.await?.unwrap_or_default())
    }

    /// Gives back a call that its worker has not received.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn unclaim(&self, claim: &Claim) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE worker_calls SET state = 0, worker = NULL \
            WHERE call_id = $1 AND attempt = $2 AND worker = $3 AND state = 1";
        let query = self.db.write(SQL).bind(claim.call).bind(number(claim.attempt)).bind(&*claim.worker);
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
             WHERE state > 0 AND tenant = "
        );
        let query = self.db.write(renew).push_bind(tenant).push(" AND queue = ").push_bind(queue);
        let query = query.push(" AND worker = ").push_bind(worker).push(" AND call_id IN ").push_list(calls);
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

fn claim_of(((call, attempt, lease_ms), worker): ((Uuid, i32, i64), &Arc<str>)) -> Claim {
    let (attempt, lease_ms) = (attempt.unsigned_abs(), lease_ms.unsigned_abs());
    Claim { call, attempt, lease_ms, worker: worker.clone() }
}
