//! Offers of the node that owns the calls.

use std::collections::HashMap;

use uuid::Uuid;

use super::{AfterLease, CLAIMED, Offer, OfferState, StoredOffer, WAITING, millis, number};
use crate::store::nodes::now_of;
use crate::store::query::{Query, Transaction};
use crate::store::{StoreError, Stores, codec};

/// The columns of a stored offer.
type OfferColumns = (i32, i16, i64, i64, i64);

/// Returns the columns of a stored offer as a list for SQL.
fn offer_columns(now: &str) -> String {
    format!("attempt, state, COALESCE(lease_until - {now}, 0), COALESCE({now} - claimed_at, 0), {now} - offered_at")
}

fn stored_offer((attempt, state, left, since, age): OfferColumns) -> StoredOffer {
    StoredOffer {
        attempt: attempt.unsigned_abs(),
        state: match state {
            WAITING => OfferState::Waiting,
            CLAIMED => OfferState::Claimed { left: millis(left), since: millis(since) },
            _ => OfferState::Answered,
        },
        age: millis(age),
    }
}

/// Returns the statement that offers attempts of calls of this node, unless they or later ones are offered.
fn insertion<'t>(transaction: &'t mut Transaction<'_>, node: &str, offers: &[&Offer], now: &str) -> Query<'t> {
    let mut query = transaction.query("WITH m (shard, call_id, queue, tool, priority, attempt, lease_ms) AS (VALUES ");
    for (index, offer) in offers.iter().enumerate() {
        let Offer { call, queue, tool, priority, attempt, lease_ms, .. } = offer;
        query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(codec::shard_of_call(*call));
        query = query.push(", ").push_bind(*call).push(", ").push_bind(&**queue);
        query = query.push(", ").push_bind(codec::indexed_name(tool)).push(", ").push_bind(*priority);
        query = query.push(", ").push_bind(number(*attempt)).push(", ");
        query = query.push_bind(i64::try_from(*lease_ms).unwrap_or(i64::MAX)).push(")");
    }
    let (first, last) = (offers.iter().map(|offer| offer.call).min(), offers.iter().map(|offer| offer.call).max());
    // An owner that was frozen must not offer a call that another node has settled since.
    let query = query.push(&format!(
        ") INSERT INTO worker_calls AS w (call_id, tenant, queue, tool, priority, attempt, state, node, offered_at, \
         lease_ms) SELECT c.id, c.tenant, m.queue, m.tool, m.priority, m.attempt, 0, c.node, {now}, m.lease_ms \
         FROM m JOIN tool_calls AS c ON c.shard = m.shard AND c.id = m.call_id WHERE c.status + 0 < 2 AND c.id BETWEEN "
    ));
    let query = query.push_bind(first).push(" AND ").push_bind(last).push(" AND c.node = ").push_bind(node);
    query
        .push(&format!(
            " ON CONFLICT (call_id) DO UPDATE SET node = excluded.node, \
             state = CASE WHEN w.attempt < excluded.attempt THEN 0 ELSE w.state END, \
             offered_at = CASE WHEN w.attempt < excluded.attempt THEN excluded.offered_at ELSE w.offered_at END, \
             worker = CASE WHEN w.attempt < excluded.attempt THEN NULL ELSE w.worker END, \
             attempt = CASE WHEN w.attempt < excluded.attempt THEN excluded.attempt ELSE w.attempt END \
             RETURNING call_id, {}",
            offer_columns(now)
        ))
        .uncached()
}

impl Stores {
    /// Deletes the offers of calls of this node that have ended, and offers attempts of other calls, in one commit. An
    /// attempt is not offered if it or a later one is offered already. Returns the stored offers; a call that has ended, or
    /// that another node owns, has none. `offers` names a call once.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn write_offers(
        &self,
        node: &str,
        ended: &[Uuid],
        offers: &[&Offer],
    ) -> Result<HashMap<Uuid, StoredOffer>, StoreError> {
        let now = now_of(&self.db);
        let written = self.db.transaction(async |transaction| {
            if !ended.is_empty() {
                let query = transaction.query("DELETE FROM worker_calls WHERE node = ").push_bind(node);
                query.push(" AND call_id IN ").push_list(ended).uncached().execute().await?;
            }
            if offers.is_empty() {
                return Ok(Some(Vec::new()));
            }
            let rows: Vec<(Uuid, i32, i16, i64, i64, i64)> = insertion(transaction, node, offers, now).all().await?;
            Ok(Some(rows))
        });
        let rows = written.await?.unwrap_or_default().into_iter();
        let stored = |(call, attempt, state, left, since, age)| (call, stored_offer((attempt, state, left, since, age)));
        Ok(rows.map(stored).collect())
    }

    /// Returns the stored offer of a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn offer_of(&self, call: Uuid) -> Result<Option<StoredOffer>, StoreError> {
        let sql = format!("SELECT {} FROM worker_calls WHERE call_id = $1", offer_columns(now_of(&self.db)));
        // Uses the writer, because a replica or an older snapshot could miss the claim.
        let row: Option<OfferColumns> = self.db.write(sql).bind(call).optional().await?;
        Ok(row.map(stored_offer))
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
}
