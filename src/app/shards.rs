//! The shards of this node.

use std::sync::Arc;
use std::time::Duration;

use crate::store::{Journal, Stores};

/// The interval for checking whether commits are slow.
const CHECK: Duration = Duration::from_millis(250);

/// Claims further shards while commits are slow, so that they overlap, until the node has `max`.
pub(super) async fn add_while_slow(stores: Stores, journal: Journal, node: Arc<str>, max: usize) {
    loop {
        tokio::time::sleep(CHECK).await;
        // The journal logs an unavailable database. The next check tries again.
        if journal.is_short_of_shards(max)
            && let Ok(shard) = stores.claim_shard(&node).await
        {
            journal.add_shard(shard);
        }
    }
}
