//! The state of a callback, shown as `metadata.callback` of its call.

use std::collections::HashMap;

use serde::Serialize;
use uuid::Uuid;

use crate::store::{StoreError, Stores};
use toolpost_core::domain::{Call, Time};

/// The delivery status of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The call has not ended, or its end has not been delivered yet.
    Pending,
    /// The receiver accepted the delivery.
    Delivered,
    /// Delivery was abandoned.
    Failed,
}

impl Delivery {
    /// Returns the value of the column `state`.
    pub(super) fn number(self) -> i16 {
        match self {
            Self::Pending => 0,
            Self::Delivered => 1,
            Self::Failed => 2,
        }
    }

    fn from(number: i16) -> Self {
        match number {
            1 => Self::Delivered,
            2 => Self::Failed,
            _ => Self::Pending,
        }
    }
}

/// The state of a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallbackState {
    /// The callback URL.
    pub url: String,
    /// The `webhook-id` of every attempt.
    pub event_id: Uuid,
    /// The delivery status.
    pub state: Delivery,
    /// Number of attempts started.
    pub attempts: u32,
    /// The HTTP status of the last attempt, if a response was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// The reason why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The time of the next attempt; absent during an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    /// An attempt is in progress. If its result is not recorded by this time, the attempt is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trying_until: Option<Time>,
    /// The time of the delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Time>,
}

type StateRow = (Uuid, String, Uuid, i16, i32, Option<i16>, Option<String>, Option<Time>, Option<Time>, Option<Time>);

impl Stores {
    /// Returns the state of a call's callback, or `None` if the call has no callback.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn callback_state(&self, call_id: Uuid) -> Result<Option<CallbackState>, StoreError> {
        Ok(self.callback_states(&[call_id]).await?.remove(&call_id))
    }

    /// Returns the callback states of these calls. Calls without a callback are omitted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn callback_states(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, CallbackState>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let query = self.db.read(
            "SELECT call_id, url, event_id, state, attempts, last_status, last_error, next_at, leased_until, delivered_at \
             FROM callbacks WHERE ",
        );
        let query = query.push_calls(["shard", "call_id"], ids);
        let query = if ids.len() == 1 { query } else { query.uncached() };
        Ok(query.all().await?.into_iter().map(decode).collect())
    }

    /// Adds `metadata.callback` to calls that have a callback.
    pub(in crate::store) async fn show_callbacks(&self, calls: &mut [Call]) -> Result<(), StoreError> {
        let with = calls.iter().filter(|call| call.callback_url.is_some()).map(|call| call.id).collect::<Vec<_>>();
        let states = self.callback_states(&with).await?;
        for call in calls.iter_mut() {
            if let Some(state) = states.get(&call.id) {
                let shown = serde_json::to_value(state).map_err(|error| StoreError::Corrupt(error.to_string()))?;
                call.extend_metadata([("callback".to_owned(), shown)]);
            }
        }
        Ok(())
    }
}

fn decode(row: StateRow) -> (Uuid, CallbackState) {
    let (call_id, url, event_id, state, attempts, last_status, last_error, next_at, leased_until, delivered_at) = row;
    let state = CallbackState {
        url,
        event_id,
        state: Delivery::from(state),
        attempts: attempts.try_into().unwrap_or(0),
        last_status: last_status.and_then(|status| status.try_into().ok()),
        last_error,
        // During an attempt, `next_at` is the time of that attempt, which has passed.
        next_attempt_at: next_at.filter(|_| leased_until.is_none()),
        trying_until: leased_until,
        delivered_at,
    };
    (call_id, state)
}
