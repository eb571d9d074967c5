//! Long polling for the end of a stored call, on any node.

use std::time::Duration;

use uuid::Uuid;

use super::{HttpResult, Shared, extract};
use crate::access::Access;
use crate::domain::Call;

/// Returns the call once it has ended, after `longest`, or when the service shuts down.
pub(super) async fn wait(state: &Shared, access: &Access, id: Uuid, longest: Option<Duration>) -> HttpResult<Call> {
    let read = || extract::find_call(access, id);
    if longest.is_some_and(|longest| longest.is_zero()) {
        return read().await;
    }
    let over = async {
        match longest {
            Some(longest) => tokio::time::sleep(longest).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        call = state.bus.wait_until(id, read, |call| call.status.is_terminal()) => call,
        () = over => read().await,
        () = state.closing.cancelled() => read().await,
    }
}
