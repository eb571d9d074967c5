//! The work queue: calls that worker programs fetch (docs/reference/contract.md, section 17).
//!
//! The row of an offered call is the truth. A call gets its worker in one of two ways. A worker that waits at the call's node has a
//! slot for it, and the claim is stored in the commit that starts the attempt. Otherwise the call is offered, and any node may give it
//! to a worker. In both ways the claim is durable before the worker is answered.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use toolpost_store::store::Stores;

mod claims;
mod lease;
mod presence;
mod watch;
mod writer;

pub(crate) use claims::{Batch, ClaimSlot, Claims, MAX_CLAIMED, Shares};
pub use claims::{ClaimError, ClaimRequest, ClaimedCall};
pub(crate) use lease::{Lease, LeaseWatch};
pub(crate) use presence::{FORGET_MS, Presence};
pub(crate) use watch::{OfferWatch, OfferedCall, Offers};
pub(crate) use writer::OfferWriter;

/// The work queue of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WorkQueue {
    /// The stores of all tenants.
    pub stores: Stores,
    /// The name of this node.
    pub node: Arc<str>,
    /// The claims that wait at this node.
    pub claims: Arc<Claims>,
    /// The calls of this node that workers may fetch or have fetched.
    pub offers: Offers,
    /// Writes the offers of this node.
    pub writer: OfferWriter,
    /// The workers that this node has seen.
    pub presence: Arc<Presence>,
}

impl WorkQueue {
    /// Creates the work queue of a node. Its tasks belong to `tasks`.
    pub fn new(stores: Stores, node: Arc<str>, tasks: TaskTracker) -> Self {
        let writer = OfferWriter::new(stores.clone(), node.clone(), tasks);
        let (claims, offers, presence) = (Arc::default(), Offers::default(), Arc::default());
        Self { stores, node, claims, offers, writer, presence }
    }
}
