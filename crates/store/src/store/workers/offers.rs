//! Offers of the node that owns the calls.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::{AfterLease, CLAIMED, Offer, OfferState, StoredOffer, WAITING, millis, number};
use crate::store::nodes::now_of;
use crate::store::query::{Query, Transaction};
use crate::store::{Db, StoreError, Stores, codec};

/// The condition that a node ($3) owns an offer and its call ($1, $2). Another node may have adopted the call and not its
/// offer yet, which says which attempt a worker has.
const OWNED: &str =
    "node = $3 AND EXISTS (SELECT 1 FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND c.node = $3)";

/// A stored offer with its call.
pub(super) type OfferRow = (Uuid, i32, i16, i64, i64, i64);

/// Returns the columns of a stored offer as a list for SQL.
pub(super) fn offer_columns(now: &str) -> String {
    format!("attempt, state, COALESCE(lease_until - {now}, 0), COALESCE({now} - claimed_at, 0), {now} - offered_at")
}

pub(super) fn stored_offer((call, attempt, state, left, since, age): OfferRow) -> (Uuid, StoredOffer) {
    let offer = StoredOffer {
        attempt: attempt.unsigned_abs(),
        state: match state {
            WAITING => OfferState::Waiting,
            CLAIMED => OfferState::Claimed { left: millis(left), since: millis(since) },
            _ => OfferState::Answered,
        },
        age: millis(age),
    };
    (call, offer)
}

const WRITE_OFFERS: &str = "SELECT stored_call, stored_attempt, stored_state, lease_left, since_claim, age \
    FROM write_offers($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// Writes offers on Postgres by one call of a function, so that its plan is kept.
fn call_of_function<'t>(query: Query<'t>, node: &str, ended: &[Uuid], offers: &[Offer]) -> Query<'t> {
    let each = || offers.iter();
    query
        .bind(node)
        .bind_array(ended.iter().copied())
        .bind_array(each().map(|offer| codec::shard_of_call(offer.call)))
        .bind_array(each().map(|offer| offer.call))
        .bind_array(each().map(|offer| offer.tenant.as_str()))
        .bind_array(each().map(|offer| &*offer.queue))
        .bind_array(each().map(|offer| codec::indexed_name(&offer.tool)))
        .bind_array(each().map(|offer| offer.priority))
        .bind_array(each().map(Offer::attempt_column))
        .bind_array(each().map(Offer::lease_column))
        .bind_array(each().map(|offer| offer.worker.as_deref()))
}

/// Offers an attempt on SQLite, unless it or a later one is offered.
async fn insert(
    transaction: &mut Transaction<'_>,
    node: &str,
    offer: &Offer,
    now: &str,
) -> Result<Option<OfferRow>, StoreError> {
    // An owner that was frozen must not offer a call that another node has settled since.
    let sql = format!(
        "INSERT INTO worker_calls AS w (call_id, tenant, queue, tool, priority, attempt, state, node, offered_at, lease_ms, \
         worker, claimed_at, lease_until) SELECT c.id, c.tenant, $3, $4, $5, $6, $9 IS NOT NULL, c.node, {now}, $8, $9, \
         CASE WHEN $9 IS NOT NULL THEN {now} END, CASE WHEN $9 IS NOT NULL THEN {now} + $8 END FROM tool_calls AS c \
         WHERE c.shard = $1 AND c.id = $2 AND c.status + 0 < 2 AND c.node = $7 \
         ON CONFLICT (call_id) DO UPDATE SET node = excluded.node, \
         state = CASE WHEN w.attempt < excluded.attempt THEN 0 ELSE w.state END, \
         offered_at = CASE WHEN w.attempt < excluded.attempt THEN excluded.offered_at ELSE w.offered_at END, \
         worker = CASE WHEN w.attempt < excluded.attempt THEN NULL ELSE w.worker END, \
         attempt = CASE WHEN w.attempt < excluded.attempt THEN excluded.attempt ELSE w.attempt END \
         RETURNING call_id, {}",
        offer_columns(now)
    );
    let Offer { call, queue, tool, priority, worker, .. } = offer;
    let query = transaction.query(sql).bind_call(*call).bind(&**queue).bind(codec::indexed_name(tool)).bind(*priority);
    let query = query.bind(offer.attempt_column()).bind(node).bind(offer.lease_column());
    query.bind(worker.as_deref()).optional().await
}

impl Stores {
    /// Deletes the offers of calls of this node that have ended, and offers attempts of other calls, in one commit. An
    /// attempt is not offered if it or a later one is offered already. Returns the stored offers; a call that has ended, or
    /// that another node owns, has none. `offers` names a call once. An offer with a worker is claimed by it.
    ///
    /// Without such an offer, PostgreSQL may lose the changes in a crash. The owner of a call notices that its row is missing
    /// and offers again. Rows of ended calls that come back are deleted by [`Stores::delete_ended_offers`].
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn write_offers(
        &self,
        node: &str,
        ended: &[Uuid],
        offers: &[Offer],
    ) -> Result<HashMap<Uuid, StoredOffer>, StoreError> {
        let rows: Vec<OfferRow> = match self.db {
            Db::Postgres(_) => call_of_function(self.db.write(WRITE_OFFERS), node, ended, offers).all().await?,
            Db::Sqlite(_) => {
                let now = now_of(&self.db);
                let written = self.db.transaction(async |transaction| {
                    if !ended.is_empty() {
                        let query = transaction.query("DELETE FROM worker_calls WHERE node = ").push_bind(node);
                        query.push(" AND call_id IN ").push_list(ended).uncached().execute().await?;
                    }
                    let mut rows = Vec::with_capacity(offers.len());
                    for offer in offers {
                        rows.extend(insert(transaction, node, offer, now).await?);
                    }
                    Ok(Some(rows))
                });
                written.await?.unwrap_or_default()
            }
        };
        Ok(rows.into_iter().map(stored_offer).collect())
    }

    /// Returns the stored offer of a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn offer_of(&self, call: Uuid) -> Result<Option<StoredOffer>, StoreError> {
        let sql = format!("SELECT call_id, {} FROM worker_calls WHERE call_id = $1", offer_columns(now_of(&self.db)));
        // Uses the writer, because a replica or an older snapshot could miss the claim.
        let row: Option<OfferRow> = self.db.write(sql).bind(call).optional().await?;
        Ok(row.map(|row| stored_offer(row).1))
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
        let sql = format!("DELETE FROM worker_calls WHERE call_id = $2 AND state <> 2 AND {OWNED}");
        const ANSWERED: &str = "SELECT call_id FROM worker_calls WHERE call_id = $1 AND state = 2";
        self.db.write(sql).bind_call(call).bind(node).execute().await?;
        let answered: Option<(Uuid,)> = self.db.write(ANSWERED).bind(call).optional().await?;
        Ok(answered.is_none())
    }

    /// Takes back an offer of this node that no worker has. Returns `false` if one has claimed or answered it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn withdraw_unclaimed(&self, call: Uuid, node: &str) -> Result<bool, StoreError> {
        let sql = format!("DELETE FROM worker_calls WHERE call_id = $2 AND state = 0 AND {OWNED}");
        self.db.write(sql).bind_call(call).bind(node).execute().await?;
        Ok(self.offer_of(call).await?.is_none_or(|row| row.state == OfferState::Waiting))
    }

    /// Deletes the offer of a call of this node that ends.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_offer(&self, call: Uuid, node: &str) -> Result<(), StoreError> {
        let sql = format!("DELETE FROM worker_calls WHERE call_id = $2 AND {OWNED}");
        self.db.write(sql).bind_call(call).bind(node).execute().await.map(drop)
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

    /// Takes a call of this node from its worker if the lease of this attempt has expired and its start is recorded. Returns
    /// `false` otherwise.
    ///
    /// Without the row, only the start says that a worker had the call. A recorded start is never removed, so a node that
    /// adopts the call at this moment knows of the attempt.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn expire_lease(
        &self,
        (call, attempt): (Uuid, u32),
        node: &str,
        then: AfterLease,
    ) -> Result<bool, StoreError> {
        let now = now_of(&self.db);
        let expired = format!(
            "WHERE call_id = $2 AND attempt = $4 AND state = 1 AND lease_until <= {now} AND node = $3 AND EXISTS \
             (SELECT 1 FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND c.node = $3 AND c.status + 0 = 1) \
             RETURNING call_id"
        );
        let sql = match then {
            AfterLease::End => format!("DELETE FROM worker_calls {expired}"),
            AfterLease::OfferAgain => format!(
                "UPDATE worker_calls SET state = 0, attempt = attempt + 1, worker = NULL, offered_at = {now} {expired}"
            ),
        };
        let done: Option<(Uuid,)> =
            self.db.write(sql).bind_call(call).bind(node).bind(number(attempt)).optional().await?;
        Ok(done.is_some())
    }

    /// Returns the calls of this node that a worker has claimed or answered.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claimed_of(&self, node: &str) -> Result<HashSet<Uuid>, StoreError> {
        const SQL: &str = "SELECT call_id FROM worker_calls WHERE node = $1 AND state > 0";
        Ok(self.db.read(SQL).bind(node).column().await?.into_iter().collect())
    }

    /// Returns the calls of this node that wait for a worker.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn waiting_of(&self, node: &str) -> Result<HashSet<Uuid>, StoreError> {
        const SQL: &str = "SELECT call_id FROM worker_calls WHERE node = $1 AND state = 0";
        Ok(self.db.read(SQL).bind(node).column().await?.into_iter().collect())
    }
}
