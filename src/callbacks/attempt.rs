//! One try: the ended call as JSON, signed, and posted.

use std::time::Duration;

use bytes::Bytes;

use super::{Callbacks, schedule};
use crate::executor::http::{Delivered, webhook_headers};
use crate::formats::native::ToolCall;
use crate::store::callbacks::DueCallback;

/// How long the call may take to be read.
pub const READ: Duration = Duration::from_secs(5);

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// With an answer, or without one.
    Completed(Delivered),
    /// It was never begun, or given up on the way; it does not count.
    Interrupted,
}

/// Makes one try; `due` counts it already.
pub async fn attempt(callbacks: &Callbacks, due: &DueCallback) -> AttemptOutcome {
    let unsent = |fault: &str| AttemptOutcome::Completed(Delivered { status: None, fault: Some(fault.to_owned()) });
    let call = match tokio::time::timeout(READ, callbacks.store.call_of_callback(due.call_id)).await {
        Ok(Ok(Some(call))) => call,
        Ok(Ok(None)) => return unsent("the call is no longer on record"),
        Ok(Err(crate::store::StoreError::Corrupt(_))) => return unsent("the call on record cannot be read"),
        // The database is away.
        Ok(Err(_)) | Err(_) => return AttemptOutcome::Interrupted,
    };
    let Ok(body) = serde_json::to_vec(&ToolCall::from(&call)) else { return unsent("the call cannot be written") };
    drop(call);
    let body = Bytes::from(body);
    let headers = webhook_headers(&callbacks.key, &due.event_id.to_string(), callbacks.clock.now(), &body);
    let timeout = schedule::nth(due.step()).timeout;
    AttemptOutcome::Completed(callbacks.client.deliver(&due.url, headers, body, timeout).await)
}
