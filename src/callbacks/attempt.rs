//! One try: the ended call as JSON, signed, and posted.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

use super::{Callbacks, schedule};
use crate::executor::http::Delivered;
use crate::formats::native::ToolCall;
use crate::store::callbacks::DueCallback;

/// How long the call may take to be read.
pub const READ: Duration = Duration::from_secs(5);

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With an answer, or without one.
    Tried(Delivered),
    /// It was never begun, or given up on the way; it does not count.
    Interrupted,
}

/// Makes one try; `due` counts it already.
pub async fn attempt(callbacks: &Callbacks, due: &DueCallback) -> Ended {
    let unsent = |fault: &str| Ended::Tried(Delivered { status: None, fault: Some(fault.to_owned()) });
    let call = match tokio::time::timeout(READ, callbacks.store.call_of_callback(due.call_id)).await {
        Ok(Ok(Some(call))) => call,
        Ok(Ok(None)) => return unsent("the call is no longer on record"),
        Ok(Err(crate::store::StoreError::Corrupt(_))) => return unsent("the call on record cannot be read"),
        // The database is away.
        Ok(Err(_)) | Err(_) => return Ended::Interrupted,
    };
    let Ok(body) = serde_json::to_vec(&ToolCall::from(&call)) else { return unsent("the call cannot be written") };
    drop(call);
    let body = Bytes::from(body);
    let headers = headers(callbacks, due.event_id, &body);
    let timeout = schedule::nth(due.attempts).timeout;
    Ended::Tried(callbacks.client.deliver(&due.url, headers, body, timeout).await)
}

/// The headers of Standard Webhooks.
fn headers(callbacks: &Callbacks, event: Uuid, body: &[u8]) -> HeaderMap {
    let (id, at) = (event.to_string(), callbacks.clock.now().0.div_euclid(1_000_000));
    let mut signature = HeaderValue::try_from(callbacks.key.signature(&id, at, body));
    if let Ok(signature) = &mut signature {
        signature.set_sensitive(true);
    }
    let named = [("webhook-id", HeaderValue::try_from(id)), ("webhook-signature", signature)];
    let mut headers: HeaderMap =
        named.into_iter().filter_map(|(name, value)| Some((HeaderName::from_static(name), value.ok()?))).collect();
    headers.insert(HeaderName::from_static("webhook-timestamp"), HeaderValue::from(at));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}
