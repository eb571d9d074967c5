//! Delivery of stored messages to the calls of this node.
//!
//! Cancellations and results stay in the inbox until their call has ended, so that a node that adopts the call receives
//! them, too. Repeated delivery has no effect. A report stays until the call has recorded it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::sync::oneshot::error::TryRecvError;
use uuid::Uuid;

use super::control_message::{self, ControlMessage};
use super::live::{CallSignals, LiveCalls};
use toolpost_store::store::inbox::Message;
use toolpost_store::store::{StoreError, Stores};
use toolpost_tool::executor::emitter::Recorded;
use toolpost_tool::executor::report::Report;

/// The stored messages to the calls of this node.
#[derive(Debug)]
pub(super) struct Inbox {
    stores: Stores,
    node: Arc<str>,
    live: LiveCalls,
    /// Reports that were delivered to their calls and are still stored, so that none is delivered twice. The receiver
    /// signals the commit; it is `None` after that.
    delivered: Mutex<HashMap<Uuid, Option<Recorded>>>,
}

impl Inbox {
    /// Creates the inbox of a node.
    pub fn new(stores: Stores, node: Arc<str>, live: LiveCalls) -> Self {
        Self { stores, node, live, delivered: Mutex::default() }
    }

    /// Delivers the messages to all calls of this node. Never waits for a call.
    pub async fn process_inbox(&self) -> Result<(), StoreError> {
        for id in self.recorded_reports() {
            self.stores.forget_message(id).await?;
            self.delivered().remove(&id);
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

    fn delivered(&self) -> MutexGuard<'_, HashMap<Uuid, Option<Recorded>>> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the recorded reports. A report that its call dropped is forgotten, to be delivered again.
    fn recorded_reports(&self) -> Vec<Uuid> {
        let mut delivered = self.delivered();
        delivered.retain(|_, recording| match recording.as_mut().map(Recorded::try_recv) {
            Some(Ok(())) => {
                *recording = None;
                true
            }
            Some(Err(error)) => error == TryRecvError::Empty,
            None => true,
        });
        delivered.iter().filter(|(_, recording)| recording.is_none()).map(|(id, _)| *id).collect()
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
            let Some(signals) = self.live.get(call) else { continue };
            match serde_json::from_str(&body) {
                Ok(ControlMessage::Cancel) => signals.cancel.cancel(),
                Ok(ControlMessage::Decision) => {
                    signals.decided.notify_one();
                    // The call reads its approval, also after a restart.
                    self.stores.forget_message(id).await?;
                }
                // Only the first result is stored, so a rejected post is a repetition, or the call has ended.
                Ok(ControlMessage::Result { answer, digest }) => {
                    let _ = signals.posted.post(control_message::posted_result(answer, digest));
                }
                Ok(ControlMessage::Progress { .. }) if full.contains(&call) => {}
                Ok(ControlMessage::Progress { report }) => match Report::read(report) {
                    Ok(report) => {
                        if !self.deliver(&signals, id, report) {
                            full.insert(call);
                        }
                    }
                    // The report was validated when it was received.
                    Err(_) => self.stores.forget_message(id).await?,
                },
                // Chunks are read by `argument_chunks`.
                Ok(ControlMessage::Chunk { .. }) => {}
                Err(error) => {
                    tracing::error!(%call, %error, "a message about a call cannot be read");
                    self.stores.forget_message(id).await?;
                }
            }
        }
        Ok(())
    }

    /// Delivers a report, unless it was delivered before. Returns `false` if the call cannot accept a report now.
    fn deliver(&self, signals: &CallSignals, id: Uuid, report: Report) -> bool {
        let mut delivered = self.delivered();
        let Entry::Vacant(vacant) = delivered.entry(id) else { return true };
        // Polled only once, because this must not wait for a call.
        let delivery = tokio::task::unconstrained(report.tell(&signals.emitter)).now_or_never();
        let Some(recorded) = delivery else { return false };
        vacant.insert(Some(recorded));
        true
    }
}
