//! Offers that a lost node has made for calls that another node has adopted.

use std::collections::HashMap;

use uuid::Uuid;

use super::StoredOffer;
use super::offers::{OfferRow, offer_columns, stored_offer};
use crate::store::nodes::now_of;
use crate::store::{Db, StoreError, Stores};

impl Stores {
    /// Makes this node the owner of the offer of one of its calls. Returns the offer; `None` if there is no offer, or the
    /// call belongs to another node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn take_over_offer(&self, call: Uuid, node: &str) -> Result<Option<StoredOffer>, StoreError> {
        Ok(self.take_over_offers(&[call], node).await?.remove(&call))
    }

    /// Makes this node the owner of the offers of those of these calls that are its own. Returns these offers.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn take_over_offers(&self, calls: &[Uuid], node: &str) -> Result<HashMap<Uuid, StoredOffer>, StoreError> {
        if calls.is_empty() {
            return Ok(HashMap::new());
        }
        let own = self.db.write("WITH own AS (SELECT c.id FROM tool_calls AS c WHERE ");
        let own = own.push_calls(["c.shard", "c.id"], calls).push(" AND c.node = ").push_bind(node);
        let own = own.push(" AND EXISTS (SELECT 1 FROM worker_calls AS w WHERE w.call_id = c.id)");
        // The calls are locked until their offers are written: a node that stands still in between must not take an offer from the
        // next owner.
        let own = own.push(if matches!(self.db, Db::Postgres(_)) { " ORDER BY c.id FOR SHARE)" } else { ")" });
        let query = own.push(" UPDATE worker_calls SET node = ").push_bind(node);
        let columns = offer_columns(now_of(&self.db));
        let query = query.push(&format!(" WHERE call_id IN (SELECT id FROM own) RETURNING call_id, {columns}"));
        let rows: Vec<OfferRow> = query.uncached().all().await?;
        Ok(rows.into_iter().map(stored_offer).collect())
    }
}
