//! Offers that a lost node has made for calls that another node has adopted.

use uuid::Uuid;

use super::StoredOffer;
use crate::store::{Db, StoreError, Stores};

impl Stores {
    /// Makes this node the owner of the offer of one of its calls. Returns the offer; `None` if there is no offer, or the
    /// call belongs to another node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn take_over_offer(&self, call: Uuid, node: &str) -> Result<Option<StoredOffer>, StoreError> {
        // The call is locked until the offer is written: a node that stands still in between must not take the offer from the next
        // owner.
        const TAKE_LOCKED: &str = "WITH own AS (SELECT 1 FROM tool_calls WHERE shard = $1 AND id = $2 AND node = $3 FOR SHARE) \
            UPDATE worker_calls SET node = $3 WHERE call_id = $2 AND EXISTS (SELECT 1 FROM own) RETURNING call_id";
        const TAKE: &str = "UPDATE worker_calls SET node = $3 WHERE call_id = $2 AND EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND c.node = $3) RETURNING call_id";
        let sql = if matches!(self.db, Db::Postgres(_)) { TAKE_LOCKED } else { TAKE };
        let taken: Option<(Uuid,)> = self.db.write(sql).bind_call(call).bind(node).optional().await?;
        if taken.is_none() {
            return Ok(None);
        }
        self.offer_of(call).await
    }
}
