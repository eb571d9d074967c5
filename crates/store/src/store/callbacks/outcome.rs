//! Records the results of delivery attempts.

use uuid::Uuid;

use super::Delivery;
use crate::store::{StoreError, Stores};
use toolpost_core::domain::Time;

/// The result of one delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The call whose end was delivered.
    pub call_id: Uuid,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The result.
    pub noted: RecordedOutcome,
}

/// The possible results of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// The receiver accepted the delivery.
    Delivered {
        /// The HTTP status of the response.
        status: u16,
        /// The time of the delivery.
        at: Time,
    },
    /// The attempt failed.
    Failed {
        /// The HTTP status of the response, if one was received.
        status: Option<u16>,
        /// The reason for the failure.
        error: String,
        /// The time of the next attempt; `None` if delivery is abandoned.
        next_at: Option<Time>,
    },
    /// This node stopped during the attempt. The attempt does not count.
    Interrupted,
}

/// A success always counts. Other results are recorded only for the newest attempt: if the lease of an older attempt
/// has expired, another node may have claimed the callback since.
const DELIVERED: &str = "UPDATE callbacks SET state = $3, next_at = NULL, leased_until = NULL, last_status = $4, \
    last_error = NULL, delivered_at = $5 WHERE shard = $1 AND call_id = $2 AND state <> $3";
const FAILED: &str = "UPDATE callbacks SET state = $3, next_at = $4, leased_until = NULL, last_status = $5, \
    last_error = $6 WHERE shard = $1 AND call_id = $2 AND state = 0 AND attempts = $7";
const INTERRUPTED: &str = "UPDATE callbacks SET attempts = attempts - 1, leased_until = NULL \
    WHERE shard = $1 AND call_id = $2 AND state = 0 AND attempts = $3";

/// A notification is needed no longer than its delivery.
const SENT: &str = "DELETE FROM callbacks WHERE shard = $1 AND call_id = $2 AND state <> 0 AND body IS NOT NULL";

impl Stores {
    /// Records the results of attempts in one transaction.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn note_callbacks(&self, notes: &[AttemptRecord]) -> Result<(), StoreError> {
        let noted = self.db.transaction(async |transaction| {
            for AttemptRecord { call_id, attempt, noted } in notes {
                let attempt = i32::try_from(*attempt).unwrap_or(i32::MAX);
                let query = match noted {
                    RecordedOutcome::Delivered { status, at } => {
                        let query = transaction.query(DELIVERED).bind_call(*call_id).bind(Delivery::Delivered.number());
                        query.bind(status.cast_signed()).bind(at)
                    }
                    RecordedOutcome::Failed { status, error, next_at } => {
                        let state = if next_at.is_some() { Delivery::Pending } else { Delivery::Failed };
                        let query = transaction.query(FAILED).bind_call(*call_id).bind(state.number()).bind(next_at);
                        query.bind(status.map(u16::cast_signed)).bind(error).bind(attempt)
                    }
                    RecordedOutcome::Interrupted => transaction.query(INTERRUPTED).bind_call(*call_id).bind(attempt),
                };
                query.execute().await?;
                transaction.query(SENT).bind_call(*call_id).execute().await?;
            }
            Ok(Some(()))
        });
        noted.await.map(drop)
    }
}
