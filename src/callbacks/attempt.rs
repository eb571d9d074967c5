//! One attempt: posts the ended call as signed JSON.

use std::time::Duration;

use bytes::Bytes;

use super::{Callbacks, schedule};
use crate::executor::http::{Delivered, webhook_headers};
use crate::formats::native::ToolCall;
use crate::store::callbacks::DueCallback;

/// Timeout for reading the call.
pub const READ: Duration = Duration::from_secs(5);

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The attempt ended, with or without a response.
    Completed(Delivered),
    /// The attempt was not started or was aborted, and does not count.
    Interrupted,
}

/// Makes one attempt, which `due` already counts.
pub async fn attempt(callbacks: &Callbacks, due: &DueCallback) -> AttemptOutcome {
    let unsent = |fault: &str| AttemptOutcome::Completed(Delivered { status: None, fault: Some(fault.to_owned()) });
    let call = match tokio::time::timeout(READ, callbacks.store.call_of_callback(due.call_id)).await {
        Ok(Ok(Some(call))) => call,
        Ok(Ok(None)) => return unsent("the stored call was deleted"),
        Ok(Err(crate::store::StoreError::Corrupt(_))) => return unsent("the stored call cannot be read"),
        // The database is unavailable.
        Ok(Err(_)) | Err(_) => return AttemptOutcome::Interrupted,
    };
    let Ok(body) = serde_json::to_vec(&ToolCall::from(&call)) else { return unsent("the call cannot be serialized") };
    drop(call);
    let body = Bytes::from(body);
    let headers = webhook_headers(&callbacks.key, &due.event_id.to_string(), callbacks.clock.now(), &body);
    let timeout = schedule::nth(due.step()).timeout;
    AttemptOutcome::Completed(callbacks.client.deliver(&due.url, headers, body, timeout).await)
}
