//! Calls that worker programs fetch. The row of such a call says which attempt is offered and which worker has it; every
//! change compares both, so that exactly one worker has a call and a late one cannot settle it.
//!
//! All times are by the clock of the database, because the workers of one queue ask several nodes.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use toolpost_core::domain::Tenant;

mod claims;
mod listing;
mod offers;
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
    /// The worker, if it claims the attempt with the start of the call.
    pub worker: Option<Arc<str>>,
}

impl Offer {
    /// Returns the number of the attempt as it is stored.
    pub(super) fn attempt_column(&self) -> i32 {
        number(self.attempt)
    }

    /// Returns the lease as it is stored, in milliseconds.
    pub(super) fn lease_column(&self) -> i64 {
        i64::try_from(self.lease_ms).unwrap_or(i64::MAX)
    }
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

impl StoredOffer {
    /// Returns `true` if this attempt waits for a worker.
    #[must_use]
    pub fn is_waiting(&self, attempt: u32) -> bool {
        self.attempt <= attempt && self.state == OfferState::Waiting
    }
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
    /// Whether the node that made the claim owns the call.
    pub is_own: bool,
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
