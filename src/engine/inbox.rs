//! Delivery of stored messages to the calls of this node.
//!
//! Cancellations and results stay in the inbox until their call has ended, so that a node that adopts the call receives
//! them, too. Repeated delivery has no effect. A report stays until the call has recorded it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::sync::oneshot::error::TryRecvError;
use uuid::Uuid;

use super::control_message::ControlMessage;
use super::live::{CallHandle, LiveCalls};
use crate::executor::emitter::Recorded;
use crate::executor::report::Report;
use crate::store::inbox::Message;
use crate::store::{StoreError, Stores};

/// Reports that were delivered to their calls and are still stored, so that none is delivered twice.
#[derive(Debug, Default)]
struct DeliveredReports(Mutex<HashMap<Uuid, ReportState>>);

#[derive(Debug)]
enum ReportState {
    /// The report is being delivered.
    Delivering,
    /// The call has received the report and will signal its commit.
    Delivered(Recorded),
    /// The call has recorded the report.
    Recorded,
}

impl DeliveredReports {
    fn reports(&self) -> MutexGuard<'_, HashMap<Uuid, ReportState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a report for delivery. Returns `false` if it was reserved before.
    fn reserve(&self, id: Uuid) -> bool {
        let mut reports = self.reports();
        let is_new = !reports.contains_key(&id);
        if is_new {
            reports.insert(id, ReportState::Delivering);
        }
        is_new
    }

    fn set_delivered(&self, id: Uuid, recorded: Recorded) {
        self.reports().insert(id, ReportState::Delivered(recorded));
    }

    fn forget(&self, id: Uuid) {
        self.reports().remove(&id);
    }

    /// Returns the recorded reports. A report that its call dropped is released, to be delivered again.
    fn recorded(&self) -> Vec<Uuid> {
        let mut recorded = Vec::new();
        self.reports().retain(|id, state| {
            if let ReportState::Delivered(recording) = state {
                match recording.try_recv() {
                    Ok(()) => *state = ReportState::Recorded,
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Closed) => return false,
                }
            }
            if matches!(state, ReportState::Recorded) {
                recorded.push(*id);
            }
            true
        });
        recorded
    }
}

/// The result of delivering a message.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryOutcome {
    /// The message stays in the inbox, for a node that adopts the call.
    Kept,
    /// The message is corrupt.
    Unreadable,
    /// The call cannot accept a report at this moment.
    Later,
}

/// The stored messages to the calls of this node.
#[derive(Debug)]
pub(super) struct Inbox {
    stores: Stores,
    node: Arc<str>,
    live: LiveCalls,
    delivered: DeliveredReports,
}

impl Inbox {
    /// Creates the inbox of a node.
    pub fn new(stores: Stores, node: Arc<str>, live: LiveCalls) -> Self {
        Self { stores, node, live, delivered: DeliveredReports::default() }
    }

    /// Delivers the messages to all calls of this node. Never waits for a call, because heartbeats are sent by the same
    /// loop.
    pub async fn process_inbox(&self) -> Result<(), StoreError> {
        for id in self.delivered.recorded() {
            self.stores.forget_message(id).await?;
            self.delivered.forget(id);
        }
        if !self.stores.has_messages().await? {
            return Ok(());
        }
        self.stores.forget_messages_of_ended().await?;
        let (mut after, mut full) = (Uuid::nil(), HashSet::new());
        loop {
            let page = self.stores.messages(&self.node, after).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            self.process_page(page, &mut full).await?;
        }
    }

    /// Delivers the messages to one call, if it is on this node. Failed deliveries are retried by
    /// [`Inbox::process_inbox`].
    pub async fn process_messages_of(&self, call: Uuid) {
        let outcome = async {
            let (mut after, mut full) = (Uuid::nil(), HashSet::new());
            loop {
                let page = self.stores.messages_of(&self.node, call, after).await?;
                let Some((last, _)) = page.last() else { return Ok::<_, StoreError>(()) };
                after = *last;
                self.process_page(page, &mut full).await?;
            }
        };
        if let Err(error) = outcome.await {
            tracing::debug!(%call, %error, "cannot read the messages of a call");
        }
    }

    /// Delivers a page of messages. `full` collects the calls that cannot accept a report now; their later reports
    /// wait.
    async fn process_page(&self, page: Vec<(Uuid, Message)>, full: &mut HashSet<Uuid>) -> Result<(), StoreError> {
        for (id, Message { call, body, .. }) in page {
            // The messages of a call that is no longer here are left to the node that adopts it.
            let Some(handle) = self.live.get(call) else { continue };
            let outcome = match serde_json::from_str(&body) {
                Ok(ControlMessage::Progress { .. }) if full.contains(&call) => DeliveryOutcome::Later,
                Ok(message) => self.deliver(&handle, id, message),
                Err(error) => {
                    tracing::error!(%call, %error, "a message about a call cannot be read");
                    DeliveryOutcome::Unreadable
                }
            };
            match outcome {
                DeliveryOutcome::Kept => {}
                DeliveryOutcome::Unreadable => self.stores.forget_message(id).await?,
                DeliveryOutcome::Later => {
                    full.insert(call);
                }
            }
        }
        Ok(())
    }

    fn deliver(&self, handle: &CallHandle, id: Uuid, message: ControlMessage) -> DeliveryOutcome {
        match message {
            ControlMessage::Cancel => handle.cancel.cancel(),
            // Only the first result is stored, so a rejected post is a repetition, or the call has ended.
            ControlMessage::Result { answer } => drop(handle.outside.post(answer.into())),
            ControlMessage::Progress { report } => {
                // The report was validated when it was received.
                let Ok(report) = Report::read(report) else { return DeliveryOutcome::Unreadable };
                if !self.delivered.reserve(id) {
                    return DeliveryOutcome::Kept;
                }
                let Some(recorded) = tokio::task::unconstrained(report.tell(&handle.emitter)).now_or_never() else {
                    self.delivered.forget(id);
                    return DeliveryOutcome::Later;
                };
                self.delivered.set_delivered(id, recorded);
            }
        }
        DeliveryOutcome::Kept
    }
}
