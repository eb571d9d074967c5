//! What became of a try, on disk.

use sqlx::Connection;
use uuid::Uuid;

use super::Delivery;
use crate::domain::Time;
use crate::store::{StoreError, Stores, db};

/// What became of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The call whose end was told.
    pub call_id: Uuid,
    /// Which try it was, counted from 1.
    pub attempt: u32,
    /// What became of it.
    pub noted: RecordedOutcome,
}

/// What became of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// The end was taken.
    Delivered {
        /// The answer's status.
        status: u16,
        /// When.
        at: Time,
    },
    /// It was not.
    Failed {
        /// The answer's status, if there was an answer.
        status: Option<u16>,
        /// Why.
        error: String,
        /// When to try again; `None` gives it up.
        next_at: Option<Time>,
    },
    /// This node stopped in the middle; the try does not count.
    Interrupted,
}

/// A success counts whenever it is heard of. Anything else is said of the newest try only: if the lease of an older one ran
/// out, somebody has taken the callback since.
const DELIVERED: &str = "UPDATE callbacks SET state = $1, next_at = NULL, leased_until = NULL, last_status = $2, \
    last_error = NULL, delivered_at = $3 WHERE call_id = $4 AND state <> $1";
const FAILED: &str = "UPDATE callbacks SET state = $1, next_at = $2, leased_until = NULL, last_status = $3, \
    last_error = $4 WHERE call_id = $5 AND state = 0 AND attempts = $6";
const INTERRUPTED: &str = "UPDATE callbacks SET attempts = attempts - 1, leased_until = NULL \
    WHERE call_id = $1 AND state = 0 AND attempts = $2";

impl Stores {
    /// Writes down what became of tries, all or none of it.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn note_callbacks(&self, notes: &[AttemptRecord]) -> Result<(), StoreError> {
        db::in_transaction!(&self.db, transaction => {
                for AttemptRecord { call_id, attempt, noted } in notes {
                    let attempt = i32::try_from(*attempt).unwrap_or(i32::MAX);
                    let query = match noted {
                        RecordedOutcome::Delivered { status, at } => sqlx::query(DELIVERED)
                            .bind(Delivery::Delivered.number())
                            .bind(status.cast_signed())
                            .bind(at.0)
                            .bind(*call_id),
                        RecordedOutcome::Failed { status, error, next_at } => sqlx::query(FAILED)
                            .bind(if next_at.is_some() { Delivery::Pending } else { Delivery::Failed }.number())
                            .bind(next_at.map(|at| at.0))
                            .bind(status.map(u16::cast_signed))
                            .bind(error.clone())
                            .bind(*call_id)
                            .bind(attempt),
                        RecordedOutcome::Interrupted => sqlx::query(INTERRUPTED).bind(*call_id).bind(attempt),
                    };
                    query.execute(&mut *transaction).await?;
                }
            Some(())
        })
        .map(drop)
    }
}
