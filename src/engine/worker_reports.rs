//! Reports and results of workers. They count only while the worker has the call.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::control::{ControlOutcome, ControlPlane};
use super::control_message::ControlMessage;
use crate::domain::ToolOutput;
use crate::executor::RecordedPost;
use crate::executor::report::Report;
use crate::fault::{self, Point};
use crate::store::StoreError;

/// Maximum time until a call is committed whose result is accepted.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

impl ControlPlane<'_> {
    /// Delivers a report of a worker about its attempt of a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn report_of_worker(
        &self,
        (id, attempt): (Uuid, u32),
        report: Report,
        value: Value,
    ) -> Result<ControlOutcome, StoreError> {
        if self.offers.is_running(id, attempt) || self.stores.is_claimed(id, attempt).await? {
            return self.report(id, report, value).await;
        }
        let is_known = self.owner_of(id).await?.is_some();
        Ok(if is_known { ControlOutcome::TooLate } else { ControlOutcome::NoSuchCall })
    }

    /// Delivers the result of a worker for its attempt of a call. It counts only if the worker still has the call.
    ///
    /// If this node owns the call and watches the lease, the result is accepted in memory, and acknowledged once the call
    /// has ended with it. Otherwise it is stored for the node that owns the call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn answer_of_worker(
        &self,
        (id, attempt): (Uuid, u32),
        answer: ToolOutput,
    ) -> Result<ControlOutcome, StoreError> {
        fault::pass(Point::BeforeAnswer);
        let answer = match self.accept_here((id, attempt), answer) {
            Ok(post) => {
                fault::pass(Point::AfterAnswer);
                let is_first = post.is_first;
                // If the call does not end with it here, the row decides: a worker that has the call repeats the request.
                return Ok(match tokio::time::timeout(RECORD_TIMEOUT, post.end()).await {
                    Ok(Some(status)) if is_first => ControlOutcome::Ended(status),
                    Ok(Some(_)) => ControlOutcome::TooLate,
                    _ if self.stores.is_claimed(id, attempt).await? => ControlOutcome::Busy,
                    _ => ControlOutcome::TooLate,
                });
            }
            Err(answer) => answer,
        };
        let message = ControlMessage::Result { answer: answer.into() }.message(id)?;
        let is_stored = self.stores.answer_offer(attempt, self.ids.next(), &message).await?;
        fault::pass(Point::AfterAnswer);
        if !is_stored {
            let is_known = self.owner_of(id).await?.is_some();
            return Ok(if is_known { ControlOutcome::TooLate } else { ControlOutcome::NoSuchCall });
        }
        self.inbox.process_messages_of(id).await;
        self.offers.wake(id);
        self.signal(id);
        Ok(ControlOutcome::Delivered)
    }

    /// Accepts a result for a call of this node. Returns it if this node cannot accept it.
    fn accept_here(&self, (id, attempt): (Uuid, u32), answer: ToolOutput) -> Result<RecordedPost, ToolOutput> {
        let Some(slot) = self.live.get(id).map(|handle| handle.outside) else { return Err(answer) };
        self.offers.accept((id, attempt), answer, |answer| slot.post_to_record(answer))
    }
}
