//! The response to a call whose stream a client resumes at a node that does not serve it: read from the stored call.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ProgressNotification, ServerJsonRpcMessage, ServerNotification, ServerResult};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::call::{RETRY_LATER, stored_reply};
use super::event_id::{EventId, PendingRequest};
use super::progress::step_of;
use super::shared::SharedState;
use crate::access::Access;
use crate::domain::Call;
use crate::store::mcp_sessions::IDLE;

/// Interval of database checks: events of calls on other nodes may arrive late.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Capacity of the channel to the client. Few messages are sent.
const CAPACITY: usize = 4;

/// A resumed response.
pub(super) struct Replay {
    pub state: Arc<SharedState>,
    /// The client, as it resumes the stream.
    pub access: Access,
    /// The node at which the request began.
    pub origin: Arc<str>,
    pub request: PendingRequest,
}

impl Replay {
    /// Starts to send the rest of the response. The stream ends with the result, or when the client disconnects.
    pub fn start(self) -> mpsc::Receiver<ServerSseMessage> {
        let (sender, messages) = mpsc::channel(CAPACITY);
        tokio::spawn(self.run(sender));
        messages
    }

    async fn run(mut self, sender: mpsc::Sender<ServerSseMessage>) {
        let Some(id) = self.request.call else {
            let error = ErrorData::new(RETRY_LATER, "the response is unavailable; repeat the request", None);
            return self.send(&sender, ServerJsonRpcMessage::error(error, Some(self.request.id.clone()))).await;
        };
        // Subscribing before the first check ensures that no local event is missed.
        let mut reader = self.state.bus.subscribe(vec![id]);
        let mut is_lagging = false;
        let until = Instant::now() + IDLE;
        loop {
            match self.access.call(id).await {
                Ok(Some(call)) if call.status.is_terminal() => return self.send_result(&sender, &call).await,
                Ok(Some(call)) => self.send_progress(&sender, &call).await,
                Ok(None) if Instant::now() >= until || !self.is_pending(id).await => {
                    return self.send_lost(&sender, id).await;
                }
                // The call is not recorded yet, or the database is unavailable.
                Ok(None) | Err(_) => {}
            }
            tokio::select! {
                () = sender.closed() => return,
                () = self.state.closing.cancelled() => return,
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                event = reader.events.recv(), if !is_lagging => is_lagging = event.is_none(),
            }
        }
    }

    /// Returns `true` if a call without a row may still run.
    async fn is_pending(&self, id: Uuid) -> bool {
        if *self.origin != **self.state.engine.node() {
            return self.state.stores.has_node(&self.origin).await.unwrap_or(true);
        }
        // The second check finds a call that was committed after the caller's check.
        self.state
            .engine
            .control()
            .owner_of(id)
            .await
            .map_or(true, |owner| owner.as_ref() == Some(self.access.tenant()))
    }

    async fn send_progress(&mut self, sender: &mpsc::Sender<ServerSseMessage>, call: &Call) {
        let Some(token) = &self.request.token else { return };
        let Some(step) = step_of(call, token, self.request.progress) else { return };
        self.request.progress = Some(step.progress);
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(step));
        self.send(sender, ServerJsonRpcMessage::notification(notification)).await;
    }

    async fn send_result(&mut self, sender: &mpsc::Sender<ServerSseMessage>, call: &Call) {
        self.send_progress(sender, call).await;
        let id = self.request.id.clone();
        let message = match stored_reply(&self.access, call) {
            Ok(result) => {
                let mut result = ServerResult::CallToolResult(result);
                // Only clients before 2026-07-28 have sessions.
                result.strip_result_type_for_legacy_peer();
                ServerJsonRpcMessage::response(result, id)
            }
            Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
        };
        self.send(sender, message).await;
    }

    async fn send_lost(&self, sender: &mpsc::Sender<ServerSseMessage>, call: Uuid) {
        let data = json!({"code": "CALL_LOST", "retryable": true, "call_id": call});
        let what = "the call was not recorded: its node was lost, or it was rejected; call the tool again";
        let error = ErrorData::new(RETRY_LATER, what, Some(data));
        self.send(sender, ServerJsonRpcMessage::error(error, Some(self.request.id.clone()))).await;
    }

    /// Sends a message to the client, unless it has disconnected.
    async fn send(&self, sender: &mpsc::Sender<ServerSseMessage>, message: ServerJsonRpcMessage) {
        let id = EventId { node: self.origin.clone(), local: String::new(), request: Some(self.request.clone()) };
        let _ = sender.send(ServerSseMessage::new(id.text(), message)).await;
    }
}
