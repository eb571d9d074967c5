//! Posted results of calls whose work is done outside this process.
//!
//! A receipt says whether the posted result is the call's. The ended call keeps the digest of its posted result, so every
//! node gives the same answer. A result that comes after the end of its call is late, even if it is equal.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::control::{CallLocation, ControlOutcome, ControlPlane, DECISION_TIMEOUT, POLL_INTERVAL};
use super::control_message::ControlMessage;
use super::live::CallSignals;
use crate::registry::Entry;
use toolpost_core::domain::{Call, Phase, Status, ToolOutput};
use toolpost_store::store::StoreError;
use toolpost_store::store::inbox::Message;
use toolpost_tool::executor::PostedResult;
use toolpost_tool::executor::result_slot::Posting;

/// Maximum time that a posted result waits for its call to start. A call that is still queued then does not accept it.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time until a call has ended with a result that is stored and that no other can replace.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A result that is about to be stored.
struct NewPost<'a> {
    message: &'a Message,
    digest: i64,
}

/// Whether a call accepts a posted result.
enum Admission {
    /// It does. The guard keeps its run from ending without a result.
    Now(Option<Posting>),
    /// Not yet, and this is the answer if it stays so.
    NotYet(ControlOutcome),
    /// This is the answer.
    Never(ControlOutcome),
}

impl ControlPlane<'_> {
    /// Delivers the posted result of a call whose work is done outside this process. The caller has checked that the
    /// client may post it. Only the first result counts.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn post_result(&self, id: Uuid, answer: ToolOutput) -> Result<ControlOutcome, StoreError> {
        let result = PostedResult::from(answer);
        let digest = result.digest;
        let message = ControlMessage::result(result).message(id)?;
        let post = NewPost { message: &message, digest };
        let until = Instant::now() + START_TIMEOUT;
        loop {
            let is_last_check = Instant::now() >= until;
            let (call, signals) = match self.locate(id).await? {
                CallLocation::Missing => return Ok(ControlOutcome::NoSuchCall),
                CallLocation::Ended => return Ok(ControlOutcome::TooLate),
                CallLocation::Uncommitted if is_last_check => return Ok(ControlOutcome::Busy),
                CallLocation::Uncommitted => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                CallLocation::Here(signals, call) => (call, Some(signals)),
                CallLocation::Elsewhere(call) => (call, None),
            };
            let admission = match &signals {
                Some(signals) => self.admission_here(&call, signals).await?,
                None => self.admission(&call).await?,
            };
            match admission {
                Admission::Now(posting) => return self.store_result(post, &call, signals, posting).await,
                Admission::Never(outcome) => return Ok(outcome),
                Admission::NotYet(outcome) if is_last_check => return Ok(outcome),
                Admission::NotYet(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Returns whether a call of this node accepts a result.
    async fn admission_here(&self, call: &Call, signals: &CallSignals) -> Result<Admission, StoreError> {
        if !signals.accepts_posted_result {
            return Ok(Admission::Never(ControlOutcome::NotExternal));
        }
        if signals.posted.is_answered() {
            return Ok(Admission::Never(ControlOutcome::TooLate));
        }
        if let Some(posting) = signals.posted.posting() {
            return Ok(Admission::Now(Some(posting)));
        }
        if signals.posted.is_shut() {
            return self.admission(call).await;
        }
        Ok(Admission::NotYet(ControlOutcome::Busy))
    }

    /// Returns whether a call that another node runs, or that has not been handed out yet, accepts a result.
    async fn admission(&self, call: &Call) -> Result<Admission, StoreError> {
        if !self.is_for_outside(call).await? {
            return Ok(Admission::Never(ControlOutcome::NotExternal));
        }
        let is_only_posted = self.can_only_be_posted(call).await?;
        if call.status == Status::Doing && (is_only_posted || *call.node != *self.node) {
            return Ok(Admission::Now(None));
        }
        // A call that waits keeps the result until it starts, but nobody may do its work before it is approved.
        let lacks_approval = match &call.approval {
            Some(approval) => !approval.is_approved(),
            None => self.has_tool(call, |entry| entry.definition.requires_approval()).await?,
        };
        Ok(match () {
            () if !is_only_posted || call.phase == Phase::Arguments => Admission::NotYet(ControlOutcome::NotExternal),
            () if lacks_approval => Admission::NotYet(ControlOutcome::NotApproved),
            () => Admission::Now(None),
        })
    }

    /// Stores a result for the node that owns the call, and returns whether it is the call's.
    async fn store_result(
        &self,
        NewPost { message, digest }: NewPost<'_>,
        call: &Call,
        signals: Option<Arc<CallSignals>>,
        posting: Option<Posting>,
    ) -> Result<ControlOutcome, StoreError> {
        let id = call.id;
        let is_first = self.stores.leave_message(self.ids.next(), message).await?;
        if !is_first && let Some(stored) = self.stores.posted_result(id).await?
            // The call can have the first stored result only.
            && stored != message.body
        {
            return Ok(ControlOutcome::TooLate);
        }
        let end = match &signals {
            Some(signals) if is_first => Some(signals.posted.await_record()),
            _ => None,
        };
        // The run may end from here on, and does not keep the receiver waiting.
        drop((posting, signals));
        self.inbox.process_messages_of(id).await;
        if end.is_none() {
            self.stores.signals().notify_inbox(id);
        }
        if call.status == Status::Wait && call.phase != Phase::External {
            return self.kept(id, digest).await;
        }
        if let Some(end) = end
            && let Ok(Some(end)) = tokio::time::timeout(END_TIMEOUT, end.end()).await
        {
            return Ok(if end.digest == digest { ControlOutcome::Ended(end.status) } else { ControlOutcome::TooLate });
        }
        self.wait_decided(id, digest).await
    }

    /// Returns the receipt of a result that a waiting call keeps.
    async fn kept(&self, id: Uuid, digest: i64) -> Result<ControlOutcome, StoreError> {
        Ok(match self.stores.calls_of_any_tenant(&[id]).await?.pop() {
            None => ControlOutcome::NoSuchCall,
            Some(call) if call.status.is_terminal() => receipt_of(&call, digest),
            Some(_) => ControlOutcome::Delivered,
        })
    }

    /// Waits until it is known whether a stored result ends its call. The tool may also answer the request that runs it, and
    /// the first of the two counts.
    async fn wait_decided(&self, id: Uuid, digest: i64) -> Result<ControlOutcome, StoreError> {
        let started = Instant::now();
        let mut pauses = Pauses::default();
        loop {
            let Some(call) = self.stores.calls_of_any_tenant(&[id]).await?.pop() else {
                return Ok(ControlOutcome::NoSuchCall);
            };
            if call.status.is_terminal() {
                return Ok(receipt_of(&call, digest));
            }
            if started.elapsed() >= END_TIMEOUT && self.can_only_be_posted(&call).await? {
                return Ok(ControlOutcome::Delivered);
            }
            if started.elapsed() >= DECISION_TIMEOUT {
                return Ok(ControlOutcome::Busy);
            }
            pauses.next().await;
        }
    }

    /// Returns `true` if the call may accept a posted result.
    async fn is_for_outside(&self, call: &Call) -> Result<bool, StoreError> {
        Ok(call.phase == Phase::External || self.has_tool(call, super::live::accepts_posted_result).await?)
    }

    /// Returns `true` if a posted result is the only result that the call can have.
    async fn can_only_be_posted(&self, call: &Call) -> Result<bool, StoreError> {
        Ok(call.phase == Phase::External || self.has_tool(call, Entry::works_outside).await?)
    }
}

/// Returns whether a posted result is that of an ended call.
fn receipt_of(call: &Call, digest: i64) -> ControlOutcome {
    if call.has_ended_with(digest) { ControlOutcome::Ended(call.status) } else { ControlOutcome::TooLate }
}

/// The pauses between two looks at a call that is about to end: short ones first.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(Duration::from_millis(2))
    }
}

impl Pauses {
    /// Waits until the next look.
    pub async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(POLL_INTERVAL);
    }
}
