//! Long polling for the end of a stored call, on any node.

use std::time::Duration;

use uuid::Uuid;

use super::{HttpResult, Shared, extract};
use crate::access::Access;
use crate::domain::Call;
use crate::domain::event::Stage;

/// Interval of database checks: events of calls on other nodes may arrive late.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the call once it has ended, after `longest`, or when the service shuts down.
pub(super) async fn wait(state: &Shared, access: &Access, id: Uuid, longest: Option<Duration>) -> HttpResult<Call> {
    // Subscribing before the first check ensures that no end is missed.
    let mut reader = state.bus.subscribe(vec![id]);
    let mut over = std::pin::pin!(async {
        match longest {
            Some(longest) => tokio::time::sleep(longest).await,
            None => std::future::pending().await,
        }
    });
    loop {
        let call = extract::find_call(access, id).await?;
        if call.status.is_terminal() || longest.is_some_and(|longest| longest.is_zero()) {
            return Ok(call);
        }
        tokio::select! {
            () = &mut over => return Ok(access.call(id).await?.unwrap_or(call)),
            () = state.closing.cancelled() => return Ok(call),
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = async {
                loop {
                    match reader.events.recv().await {
                        Some(event) if event.event.stage == Stage::Result => return,
                        Some(_) => {}
                        // The subscription was disconnected; the periodic check continues.
                        None => std::future::pending().await,
                    }
                }
            } => {}
        }
    }
}
