//! Notifications about approvals, which the sender of callbacks delivers as signed webhooks.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;

use toolpost_core::domain::{Approval, Call, Clock, IdGenerator, Shard, ToolDefinition};
use toolpost_core::formats::native::ToolCall;
use toolpost_store::store::callbacks::Notification;

/// Creates notifications.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApprovalNotices<'a> {
    pub ids: &'a IdGenerator,
    pub clock: &'a Clock,
    /// The URL of the settings, if there is one.
    pub url: Option<&'a Arc<str>>,
    pub callbacks_due: &'a Notify,
}

impl ApprovalNotices<'_> {
    /// Creates the notification about the state of an approval: `approval.requested` while it is pending, and otherwise
    /// `approval.decided`. Returns `None` if no URL receives it.
    pub fn about(&self, call: &Call, approval: &Approval, tool: Option<&ToolDefinition>) -> Option<Notification> {
        let own = tool.and_then(|tool| tool.approval.as_ref()?.notify_url.as_deref().map(Arc::from));
        let url = own.or_else(|| self.url.cloned())?;
        let kind = if approval.is_pending() { "approval.requested" } else { "approval.decided" };
        let mut shown = call.clone();
        // A call that has ended shows its approval already.
        let _ = shown.set_approval(approval.clone());
        let due = self.clock.now();
        let body = json!({"type": kind, "timestamp": due, "data": ToolCall::from(&shown)}).to_string();
        Some(Notification { id: self.ids.next_call(Shard::of_call(call.id)), url, body, due })
    }

    /// Wakes the sender.
    pub fn wake(&self) {
        self.callbacks_due.notify_one();
    }
}
