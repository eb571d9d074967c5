//! Reports and results of workers. They count only while the worker has the call.

use serde_json::Value;
use uuid::Uuid;

use super::control::{ControlOutcome, ControlPlane};
use super::control_message::ControlMessage;
use crate::domain::ToolOutput;
use crate::executor::report::Report;
use crate::fault::{self, Point};
use crate::store::StoreError;

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
        if self.stores.is_claimed(id, attempt).await? {
            return self.report(id, report, value).await;
        }
        let is_known = self.owner_of(id).await?.is_some();
        Ok(if is_known { ControlOutcome::TooLate } else { ControlOutcome::NoSuchCall })
    }

    /// Delivers the result of a worker for its attempt of a call. It counts only if the worker still has the call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn answer_of_worker(
        &self,
        (id, attempt): (Uuid, u32),
        answer: ToolOutput,
    ) -> Result<ControlOutcome, StoreError> {
        let message = ControlMessage::Result { answer: answer.into() }.message(id)?;
        fault::pass(Point::BeforeAnswer);
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
}
