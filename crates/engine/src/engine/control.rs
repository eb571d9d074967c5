//! The control plane of a call: cancellations, reports and posted results.
//!
//! A message is acknowledged only after it is stored in the inbox or recorded by its call. It therefore reaches the
//! node that owns the call, even if the node that received the message has lost the call without knowing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::argument_chunks::ChunkAnswer;
use super::control_message::ControlMessage;
use super::inbox::Inbox;
use super::live::{CallSignals, LiveCalls};
use crate::arguments::stream::{ArgumentChunk, ArgumentStreamError};
use crate::registry::{Entry, Registry};
use crate::workqueue::Offers;
use toolpost_core::domain::{Call, IdGenerator, Phase, Status, Tenant};
use toolpost_core::formats::stream::partial::LIMIT;
use toolpost_store::store::{StoreError, Stores};
use toolpost_tool::executor::report::Report;

/// Maximum time for a call to record a report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time until a reachable call is committed.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between two checks for the answer to a chunk of arguments.
const ANSWER_INTERVAL: Duration = Duration::from_millis(10);

/// Interval between two checks of a call.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time until it is known whether a posted result ended a call. Longer than the lease of a lost node.
pub(super) const DECISION_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of sending a message to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlOutcome {
    /// The message is stored or recorded.
    Delivered,
    /// The call has ended with this message, and its end is committed.
    Ended(Status),
    /// The call has ended, or already has a result.
    TooLate,
    /// The call does not accept a posted result.
    NotExternal,
    /// The call needs an approval that it does not have.
    NotApproved,
    /// The call has not processed earlier messages yet, or is about to end.
    Busy,
    /// The call does not exist.
    NoSuchCall,
}

/// The location of a call, according to the database.
pub(super) enum CallLocation {
    /// The call does not exist.
    Missing,
    /// The call is on this node and is not committed yet.
    Uncommitted,
    /// The call has ended.
    Ended,
    /// This node owns the call.
    Here(Arc<CallSignals>, Box<Call>),
    /// Another node owns the call, or it is orphaned.
    Elsewhere(Box<Call>),
}

/// Sends messages to calls on any node.
#[derive(Debug, Clone, Copy)]
pub struct ControlPlane<'a> {
    pub(super) registry: &'a Registry,
    pub(super) stores: &'a Stores,
    pub(super) ids: &'a IdGenerator,
    pub(super) node: &'a str,
    pub(super) live: &'a LiveCalls,
    pub(super) inbox: &'a Inbox,
    pub(super) offers: &'a Offers,
}

impl ControlPlane<'_> {
    /// Returns the tenant of a call; `None` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn owner_of(&self, id: Uuid) -> Result<Option<Tenant>, StoreError> {
        match self.live.get(id) {
            Some(signals) => Ok(Some(signals.tenant.clone())),
            None => self.stores.owner_of(id).await,
        }
    }

    /// Cancels a tenant's call. Does nothing if the call has ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn cancel(&self, tenant: &Tenant, id: Uuid) -> Result<ControlOutcome, StoreError> {
        if self.owner_of(id).await?.as_ref() != Some(tenant) {
            return Ok(ControlOutcome::NoSuchCall);
        }
        self.cancel_here(id);
        self.wait_committed(id).await?;
        self.cancel_each(&[id]).await?;
        Ok(ControlOutcome::Delivered)
    }

    /// Cancels the run of a call on this node without waiting for the database. Has no effect if another node owns the
    /// call.
    fn cancel_here(&self, id: Uuid) {
        if let Some(signals) = self.live.get(id) {
            signals.cancel.cancel();
        }
    }

    /// Cancels committed calls.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn cancel_each(&self, ids: &[Uuid]) -> Result<(), StoreError> {
        let mut calls = Vec::with_capacity(ids.len());
        for id in ids {
            self.cancel_here(*id);
            calls.push((self.ids.next(), *id));
        }
        let body = ControlMessage::Cancel.message(Uuid::nil())?.body;
        self.stores.leave_cancels(&calls, &body).await?;
        ids.iter().for_each(|id| self.signal(*id));
        Ok(())
    }

    /// Signals a stored message to the node that owns the call, unless it is this one.
    pub(super) fn signal(&self, id: Uuid) {
        if self.live.get(id).is_none() {
            self.stores.signals().notify_inbox(id);
        }
    }

    /// Delivers a report about a call of any tenant. The caller has checked that the sender may report. `value` is the
    /// JSON that `report` was parsed from.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn report(&self, id: Uuid, report: Report, value: Value) -> Result<ControlOutcome, StoreError> {
        if let Some(signals) = self.live.get(id)
            && signals.emitter.is_recorded()
            && !report.is_empty()
        {
            let recording = async { report.tell(&signals.emitter).await.await };
            match tokio::time::timeout(REPORT_TIMEOUT, recording).await {
                Ok(Ok(())) => return Ok(ControlOutcome::Delivered),
                // The call has ended here, or another node has adopted it.
                Ok(Err(_)) => {}
                Err(_) => return Ok(ControlOutcome::Busy),
            }
        }
        self.wait_committed(id).await?;
        let message = ControlMessage::Progress { report: value }.message(id)?;
        if self.stores.leave_message(self.ids.next(), &message).await? {
            self.inbox.process_messages_of(id).await;
            self.signal(id);
            return Ok(ControlOutcome::Delivered);
        }
        Ok(match self.locate(id).await? {
            CallLocation::Missing => ControlOutcome::NoSuchCall,
            CallLocation::Ended => ControlOutcome::TooLate,
            CallLocation::Uncommitted | CallLocation::Here(..) | CallLocation::Elsewhere(_) => ControlOutcome::Busy,
        })
    }

    /// Delivers a chunk of the streamed arguments of a tenant's call, to whichever node runs the call. Waits until complete
    /// arguments are recorded, at most for `timeout`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn supply(
        &self,
        tenant: &Tenant,
        id: Uuid,
        chunk: ArgumentChunk,
        timeout: Duration,
    ) -> Result<ChunkAnswer, StoreError> {
        const CLOSED: ChunkAnswer = ChunkAnswer::Refused(ArgumentStreamError::Closed);
        if let Some(signals) = self.live.get_of(tenant, id)
            && let Some(stream) = &signals.arguments
        {
            return Ok(chunk.apply(stream, timeout).await);
        }
        if self.owner_of(id).await?.as_ref() != Some(tenant) {
            return Ok(ChunkAnswer::NoSuchCall);
        }
        match self.locate(id).await? {
            CallLocation::Missing => Ok(ChunkAnswer::NoSuchCall),
            CallLocation::Elsewhere(call) if call.phase == Phase::Arguments => self.ask_owner(id, chunk).await,
            _ => Ok(CLOSED),
        }
    }

    /// Stores a chunk for the node that runs the call, and waits for its answer.
    async fn ask_owner(&self, call: Uuid, chunk: ArgumentChunk) -> Result<ChunkAnswer, StoreError> {
        const CLOSED: ChunkAnswer = ChunkAnswer::Refused(ArgumentStreamError::Closed);
        if chunk.delta.len() > LIMIT {
            return Ok(ChunkAnswer::Refused(ArgumentStreamError::TooLong));
        }
        let (id, message) = (self.ids.next(), ControlMessage::Chunk { chunk }.message(call)?);
        if !self.stores.leave_message(id, &message).await? {
            return Ok(match self.locate(call).await? {
                CallLocation::Missing | CallLocation::Ended => CLOSED,
                _ => ChunkAnswer::Refused(ArgumentStreamError::MemoryExhausted),
            });
        }
        // A signal to the node that runs the call belongs here; without one, it reads again soon.
        let mut until = Instant::now() + DECISION_TIMEOUT;
        let mut is_over = false;
        let otherwise = loop {
            let (answer, has_ended) = self.stores.answer_to(id, call).await?;
            if let Some(answer) = answer {
                self.stores.forget_message(id).await?;
                return Ok(serde_json::from_str(&answer).unwrap_or(ChunkAnswer::Unanswered));
            }
            if has_ended && !is_over {
                // The chunk may have completed the call; then its answer follows.
                (is_over, until) = (true, Instant::now() + COMMIT_TIMEOUT);
            }
            if Instant::now() < until {
                tokio::time::sleep(ANSWER_INTERVAL).await;
            } else if self.stores.withdraw_chunk(id).await? {
                break if is_over { CLOSED } else { ChunkAnswer::Unanswered };
            }
        };
        Ok(otherwise)
    }

    /// Returns `true` if the tool of the call is known and matches the predicate.
    pub(super) async fn has_tool(&self, call: &Call, is_so: impl Fn(&Entry) -> bool) -> Result<bool, StoreError> {
        let store = self.stores.for_tenant(&call.tenant);
        let catalog = self.registry.open(&store).await?;
        let matches = || {
            let snapshot = catalog.snapshot();
            let tool = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
            tool.and_then(|tool| tool.entry().ok()).map(|entry| is_so(&entry))
        };
        if let Some(known) = matches() {
            return Ok(known);
        }
        // Another node may have just registered the tool.
        self.registry.reload(&store).await?;
        Ok(matches().unwrap_or(false))
    }

    pub(super) async fn locate(&self, id: Uuid) -> Result<CallLocation, StoreError> {
        let signals = self.live.get(id);
        let call = self.stores.calls_of_any_tenant(&[id]).await?.pop();
        Ok(match (call, signals) {
            (None, None) => CallLocation::Missing,
            (None, Some(_)) => CallLocation::Uncommitted,
            (Some(call), _) if call.status.is_terminal() => CallLocation::Ended,
            (Some(call), Some(signals)) if *call.node == *self.node => CallLocation::Here(signals, Box::new(call)),
            (Some(call), _) => CallLocation::Elsewhere(Box::new(call)),
        })
    }

    /// Waits until a call on this node is committed, which is about to happen.
    async fn wait_committed(&self, id: Uuid) -> Result<(), StoreError> {
        let until = Instant::now() + COMMIT_TIMEOUT;
        while self.live.get(id).is_some() && Instant::now() < until && self.stores.owner_of(id).await?.is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns `true` if reports on the call require its token. Returns `false` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_token(&self, id: Uuid) -> Result<bool, StoreError> {
        if let Some(signals) = self.live.get(id) {
            return Ok(signals.has_token);
        }
        let Some(call) = self.stores.calls_of_any_tenant(&[id]).await?.pop() else { return Ok(false) };
        self.has_tool(&call, |entry| entry.definition.has_token()).await
    }
}
