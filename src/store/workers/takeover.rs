//! Offers that a lost node has made for calls that another node has adopted.

use uuid::Uuid;

use super::StoredOffer;
use crate::store::{StoreError, Stores};

impl Stores {
    /// Makes this node the owner of the offer of one of its calls. Returns the offer; `None` if there is no offer, or the
    /// call belongs to another node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn take_over_offer(&self, call: Uuid, node: &str) -> Result<Option<StoredOffer>, StoreError> {
        const OWNER: &str = "SELECT node FROM tool_calls WHERE shard = $1 AND id = $2 AND node = $3";
        const TAKE: &str = "UPDATE worker_calls SET node = $2 WHERE call_id = $1";
        if self.offer_of(call).await?.is_none() {
            return Ok(None);
        }
        let owner: Option<(String,)> = self.db.write(OWNER).bind_call(call).bind(node).optional().await?;
        if owner.is_none() {
            return Ok(None);
        }
        self.db.write(TAKE).bind(call).bind(node).execute().await?;
        self.offer_of(call).await
    }
}
